// Where processes find each other, as torchrun's and Slurm's do: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT.
#pragma once
#include <cerrno>
#include <cstdlib>
#include <string>

#include <partita/core/words.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

struct meeting_place {
  int rank = 0, size = 1;
  std::string host = "127.0.0.1";  // of process 0
  int port = 29501;
  double timeout_seconds = 60;  // for the processes to come
  // Once nothing has come of a process that others wait for, for half as long, it is asked whether it is there, and has so long
  // to say so. One that computes says so.
  double silence_seconds = 20;

  // Throws error that names the variable which is missing or wrong. The port is PARTITA_PORT, else the one after
  // MASTER_PORT, where torchrun has a server of its own. Where srun has started the processes, it has said rank and size. Slurm
  // sets SLURM_NTASKS and SLURM_PROCID also for what no srun has started, in a script of sbatch and in a shell of salloc, which
  // stays alone: SLURM_STEP_NUM_TASKS is of those that srun has started together.
  static meeting_place from_environment() {
    meeting_place at;
    at.rank = number("RANK", "SLURM_PROCID", 0, most_processes);
    at.size = number("WORLD_SIZE", "SLURM_STEP_NUM_TASKS", 1, most_processes);
    if (at.rank >= at.size) throw_error({"RANK is ", at.rank, ", but WORLD_SIZE is ", at.size});
    if (char const* const host = std::getenv("MASTER_ADDR"); host != nullptr && *host != '\0') at.host = host;
    else if (at.size > 1)
      throw_error(
          {"MASTER_ADDR is not set: the name of the machine of process 0; with Slurm: "
           "export MASTER_ADDR=$(scontrol show hostnames \"$SLURM_JOB_NODELIST\" | head -n 1)"});
    at.port = std::getenv("PARTITA_PORT") != nullptr ? number("PARTITA_PORT", nullptr, 1, 65535)
              : at.size > 1                          ? number("MASTER_PORT", nullptr, 1, 65534) + 1
                                                     : at.port;
    return at;
  }
  // The place of this process among those of its machine, by LOCAL_RANK or Slurm's word for it; 0 where neither is set.
  static int local_rank_from_environment() {
    const bool is_said = std::getenv("LOCAL_RANK") != nullptr || std::getenv("SLURM_LOCALID") != nullptr;
    return is_said ? number("LOCAL_RANK", "SLURM_LOCALID", 0, most_processes) : 0;
  }

 private:
  static constexpr int most_processes = 1000000;
  static int number(char const* name, char const* of_slurm, int least, int most) {
    char const* text = std::getenv(name);
    if (text == nullptr && of_slurm != nullptr)
      if (text = std::getenv(of_slurm); text != nullptr) name = of_slurm;
    if (text == nullptr)
      throw_error({name, " is not set; ",
                   std::getenv("SLURM_JOB_ID") != nullptr
                       ? "of a job of Slurm those processes that srun has started go without: start them with srun"
                       : "torchrun sets it, and so does a script that starts processes itself"});
    char* end = nullptr;
    errno = 0;
    const long value = std::strtol(text, &end, 10);
    if (end == text || *end != '\0' || errno != 0 || value < least || value > most)
      throw_error({name, " is \"", text, "\", not a number from ", least, " to ", most});
    return static_cast<int>(value);
  }
};

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
