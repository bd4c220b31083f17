// What a step is given beside its inputs, and what is told of it.
#pragma once
#include <chrono>
#include <cstdint>
#include <string>

namespace partita {

struct step_context {
  double learning_rate = 0;
  std::int64_t step = 0;   // counts from 0
  std::uint64_t seed = 0;  // of everything that is drawn at random
  bool training = true;    // false: dropout passes everything through
};

// When an instruction ran, in seconds since the step began on all devices of the process.
struct timing {
  double begin = 0, end = 0;
};

// The first number that is not finite and was made of finite ones, or came from outside.
struct non_finite {
  std::string where;  // "rank 1, op fc1 (linear, forward)", "rank 0, input x"; empty: all numbers were finite
  std::chrono::steady_clock::time_point when{};  // the earliest of several ranks was first
};

}  // namespace partita
