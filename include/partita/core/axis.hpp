// An axis: a name, and an extent that is static or bound at run time.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <partita/core/fixed_string.hpp>
#include <partita/core/hash.hpp>

namespace partita {

inline constexpr std::size_t unbound = 0;

// Derive a named struct from it (`struct hidden : pt::axis<"hidden", 768> {};`): compilers then print the short
// name, and the string stays out of symbols. Identity is the name alone.
template <fixed_string Name, std::size_t Extent = unbound> struct axis {
  static constexpr std::string_view name = Name.view();
  static constexpr std::size_t extent = Extent;
};

struct axis_info {
  std::string_view name;
  std::size_t extent;  // `unbound` until bound
  std::uint64_t id;    // hash of the name
};
// A static member of a class template, not a variable template: clang prints `&axis_of<batch>::info` whole.
template <class Axis> struct axis_of { static constexpr axis_info info{Axis::name, Axis::extent, hash(Axis::name)}; };

// An extent given at run time: `pt::bind<sample>(32)`.
struct binding {
  axis_info const* axis = nullptr;
  std::size_t extent = unbound;
};
template <class Axis> constexpr binding bind(std::size_t extent) {
  static_assert(Axis::extent == unbound, "this axis has its extent in its type");
  return {&axis_of<Axis>::info, extent};
}

}  // namespace partita
