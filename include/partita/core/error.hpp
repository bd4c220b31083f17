// What the library throws. The message names what is wrong, where, with which numbers, and what to do.
#pragma once
#include <stdexcept>

namespace partita {

struct error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace partita
