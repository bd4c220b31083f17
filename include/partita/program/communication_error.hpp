// What a communicator throws when calls that were put into a stream have failed meanwhile.
#pragma once
#include <string>

#include <partita/core/error.hpp>

namespace partita {

struct communication_error : error {
  int group;  // whose calls; -1: of all ranks, which exchange
  communication_error(int of, std::string const& words) : error(words), group(of) {}
};

}  // namespace partita
