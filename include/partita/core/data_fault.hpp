// What a kernel finds wrong with the numbers it is given: a row that no table has, a target outside the vocabulary. On the
// CPU it is thrown; a GPU's kernel writes it down for the host, which throws it after the step.
#pragma once
#include <cstddef>

namespace partita {

// The op that finds it has `static std::string words_of(data_fault const&)`.
struct data_fault {
  double value = 0;
  std::size_t position = 0, limit = 0;
};

}  // namespace partita
