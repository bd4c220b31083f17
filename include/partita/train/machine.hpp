// What this process uses of its machine, as the operating system counts it.
#pragma once
#include <algorithm>
#include <cstddef>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#ifdef __linux__
#include <sched.h>
#endif

#include <partita/core/error.hpp>

namespace partita {

// Bytes of physical memory the process holds, its libraries included.
struct process_memory {
  std::size_t now = 0;   // VmRSS
  std::size_t peak = 0;  // VmHWM: the most since the start, or since `reset_peak_memory`
};

// Reads both from /proc/self/status, where the kernel may be some 100 KiB behind. Throws `error` where the system has
// no such file.
inline process_memory measure_memory() {
  std::ifstream status("/proc/self/status");
  process_memory memory;
  for (std::string line; std::getline(status, line);) {
    std::istringstream words(line);
    std::string name;
    std::size_t kibibytes = 0;
    if (!(words >> name >> kibibytes)) continue;
    if (name == "VmRSS:") memory.now = kibibytes * 1024;
    if (name == "VmHWM:") memory.peak = kibibytes * 1024;
  }
  if (memory.now == 0 || memory.peak == 0)
    throw error("memory: /proc/self/status does not say what this process holds; it is measured on Linux only");
  memory.peak = std::max(memory.peak, memory.now);
  return memory;
}

// Makes the peak start again from what is held now. Returns false where the system does not allow it (some
// containers); the peak is then that of the whole life of the process.
inline bool reset_peak_memory() {
  std::ofstream clear("/proc/self/clear_refs");
  clear << "5" << std::flush;  // proc(5): 5 resets the peak
  return clear.good();
}

// The number of cores this process may run on, at least 1: its affinity, where the system knows it. A limit on
// processor time (cgroups) is not counted.
inline int available_cores() {
#ifdef __linux__
  for (std::size_t most = 1024; most <= (std::size_t{1} << 20); most *= 2) {  // the kernel refuses too small a set
    cpu_set_t* set = CPU_ALLOC(most);
    if (set == nullptr) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(most);
    CPU_ZERO_S(bytes, set);
    const int count = sched_getaffinity(0, bytes, set) == 0 ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (count > 0) return count;
  }
#endif
  const unsigned cores = std::thread::hardware_concurrency();
  return cores > 0 ? static_cast<int>(cores) : 1;
}

}  // namespace partita
