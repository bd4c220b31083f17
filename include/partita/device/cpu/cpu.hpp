// What is asked of the CPU: how many devices, and how many threads each computes with.
#pragma once

namespace partita {

// `pt::cpu{.devices = 4}`
struct cpu {
  int devices = 1;
  int threads = 0;            // that compute, for each device; 0: the cores shared out among the devices, at least one each
  int lanes = 0;              // threads that a device's compute and communication lanes run on, 1 or 2; 0: what is faster here
  bool record_times = false;  // when each instruction ran
};

}  // namespace partita
