// What a trainer is asked for beside its plan and its devices, and what it tells of a step.
#pragma once
#include <cstddef>
#include <cstdint>

#include <partita/program/lowering.hpp>

namespace partita {

struct trainer_options {
  std::uint64_t seed = 1;                                 // of initial values and dropout
  double learning_rate = 1e-3;                            // until `set_learning_rate` says otherwise
  bool fuse = true;                                       // chains of element- and row-wise ops run tile by tile
  bool keep_gradients = true;                             // `gradient(name)` works; false may need less memory
  double bucket_bytes = lowering_options{}.bucket_bytes;  // of moves that are made as one; 0: each is made alone
};

// Bytes of a device: what was planned before anything ran, and what is resident now.
struct memory_use {
  std::size_t planned = 0, measured = 0;
  std::size_t state = 0, arena = 0;  // of what is planned
};

// What all devices together sent in the last step.
struct communication_use {
  std::uint64_t bytes = 0, calls = 0;
};

}  // namespace partita
