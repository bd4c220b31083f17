// For ops whose further outputs serve their gradient.
#pragma once
#include <tuple>

#include <partita/model/tensor.hpp>

namespace partita::detail {

// The first of an op's outputs; what a rejected op returned stays that.
template <class Made> constexpr auto first_of(Made made) {
  if constexpr (is_poison<Made>) return made;
  else return std::get<0>(made);
}

}  // namespace partita::detail
