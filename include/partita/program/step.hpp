// What a step is given beside its inputs.
#pragma once
#include <cstdint>

namespace partita {

struct step_context {
  double learning_rate = 0;
  std::int64_t step = 0;   // counts from 0
  std::uint64_t seed = 0;  // of everything that is drawn at random
  bool training = true;    // false: dropout passes everything through
};

}  // namespace partita
