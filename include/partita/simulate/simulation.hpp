// What a simulation tells: the time of a step, its parts, memory, and when every instruction runs.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include <partita/program/lowering.hpp>
#include <partita/program/memory.hpp>
#include <partita/program/words.hpp>
#include <partita/simulate/rank_classes.hpp>

namespace partita {

struct instruction_time {
  double begin = 0, end = 0;  // seconds since the step began
  double at_work = 0;         // from here on it does something: communication first waits for all who take part
};

// Where one device's step goes: `compute` + `exposed` + `bubble` is the step.
struct step_parts {
  double compute = 0;        // ops, copies and sums of the compute lane
  double communication = 0;  // transfers, from when all who take part are there; hidden behind compute or not
  double exposed = 0;        // communication while the compute lane does nothing
  double bubble = 0;         // neither: waiting for others, or done
};

struct simulated_class {
  int rank = 0;            // the one that was simulated
  std::vector<int> ranks;  // those that it stands for
  program what;
  std::vector<instruction_time> times;  // by instruction
  step_parts parts;
  memory_report memory;  // of the program: what it holds at its peak, by tensor
  // State and arena in whole pages of 4 KiB, as devices give memory.
  std::size_t peak_bytes() const { return in_pages(memory.state_bytes) + in_pages(memory.arena_bytes); }
  static std::size_t in_pages(std::size_t bytes) { return (bytes + 4095) / 4096 * 4096; }
  double capacity = 0;  // bytes of a device of this class
  bool fits() const { return static_cast<double>(peak_bytes()) <= capacity; }
};

struct simulation {
  double seconds = 0;  // of the step
  step_parts parts;    // mean over all devices
  std::vector<simulated_class> classes;
  std::vector<int> class_of;                // by rank
  double model_flops = 0;                   // of the ops of one step, without what a plan repeats
  double peak_flops = 0;                    // per second, of all devices that take part
  std::shared_ptr<lowering const> lowered;  // for names; null where the caller keeps it

  int devices() const { return static_cast<int>(class_of.size()); }
  // Model FLOPs utilisation.
  double mfu() const { return seconds > 0 && peak_flops > 0 ? model_flops / (seconds * peak_flops) : 0; }
  simulated_class const& of_rank(int rank) const {
    return classes[static_cast<std::size_t>(class_of[static_cast<std::size_t>(rank)])];
  }
  std::size_t peak_bytes() const {
    std::size_t most = 0;
    for (simulated_class const& c : classes) most = std::max(most, c.peak_bytes());
    return most;
  }
  bool fits() const {
    for (simulated_class const& c : classes)
      if (!c.fits()) return false;
    return true;
  }
};

// Bytes of the arena that are live, each from its time on.
struct memory_point {
  double seconds = 0;
  std::size_t bytes = 0;
};
inline std::vector<memory_point> memory_over_time(simulated_class const& c) {
  std::vector<detail::memory::life> lives;
  for (buffer const& b : c.what.buffers)
    if (b.where == region::arena && b.bytes > 0 && b.first >= 0)
      lives.push_back({detail::memory::aligned(b.bytes), b.first, b.last});
  const list<std::size_t> live = detail::memory::live_bytes(lives);
  std::vector<memory_point> curve;
  double now = 0;  // the program's order: an instruction of the other lane may have run before it
  for (std::size_t at = 0; at < c.times.size() && at < live.size(); ++at) {
    now = std::max(now, c.times[at].begin);
    const std::size_t bytes = c.what.state_bytes + live[at];
    if (curve.empty() || curve.back().bytes != bytes) curve.push_back({now, bytes});
  }
  return curve;
}

// What a device holds at its peak beside its state, largest first, by the tensor's name: "block.0.fc1 (linear, forward)".
struct held_tensor {
  std::string name;
  std::size_t bytes = 0;
  int buffers = 0;
};
inline std::vector<held_tensor> held_at_peak(simulated_class const& c, graph_data const& g) {
  std::vector<held_tensor> all;
  for (memory_report::holder const& h : c.memory.at_peak) {
    held_tensor t{"staging and scratch", h.bytes, h.buffers};
    if (h.tensor >= 0) {
      op_entry const& e = g.ops[g.tensors[h.tensor].op];
      t.name = words({g.name(g.tensors[h.tensor].op).view(), " (", e.info->kind, ", ", name_of(e.when), ")"});
    }
    all.push_back(std::move(t));
  }
  return all;
}

}  // namespace partita
