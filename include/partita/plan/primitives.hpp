// The words of the three primitives: what op_trans, op_assign and op_order take.
#pragma once
#include <initializer_list>
#include <string_view>

#include <partita/core/text.hpp>
#include <partita/layout/layout.hpp>
#include <partita/model/graph_entries.hpp>

namespace partita {

using mode_name = text<24>;

// A cut along an axis into pieces, under the name of a mode. `split<ffn, 'm'>` names the letter where the axis is bound
// to two. `split<ffn>{2, "tensor", {300, 212}}` gives the sizes, which live as long as the call that takes the cut; `folded(...)`
// and `skewed(...)` say which piece is which.
template <class Axis, char Letter = 0> struct split {
  int pieces = 1;
  mode_name mode{};
  int const* sizes = nullptr;
  int size_count = 0;
  bool fold = false;
  mode_name skew{};
  constexpr split(int n, std::string_view name) : pieces(n), mode(name) {}
  template <std::size_t N> constexpr split(int n, std::string_view name, int const (&given)[N])
      : pieces(n), mode(name), sizes(given), size_count(static_cast<int>(N)) {}
};
// Piece i of n is chunks i and 2n-1-i of 2n: what grows along the axis, as the keys that a causal query sees, is shared
// out evenly.
template <class Cut> constexpr Cut folded(Cut cut) {
  cut.fold = true;
  return cut;
}
// Of a cut in time: at step t the devices at coordinate r of the dimension `over` run piece (r - t) mod n, so that every
// step needs the piece that the neighbour had in the step before.
template <class Cut> constexpr Cut skewed(Cut cut, std::string_view over) {
  cut.skew = mode_name(over);
  return cut;
}
// The same, the axis given as a value: what policies that know no axis names use.
struct cut_axis {
  axis_info const* axis = nullptr;
  int pieces = 1;
  mode_name mode{};
  char letter = 0;
  int const* sizes = nullptr;
  int size_count = 0;
  bool fold = false;
  mode_name skew{};  // empty: none
};
// n replicas under the name of a mode.
struct replicate {
  int pieces = 1;
  mode_name mode{};
  constexpr replicate(int n, std::string_view name) : pieces(n), mode(name) {}
};

// Dimensions of a device grid, by name: a mode of the same name is laid out along it; an op that lacks the mode is
// replicated over it. Later dimensions lie inside earlier ones.
struct dimension {
  mode_name name;
  int extent;
  constexpr dimension(std::string_view n, int e) : name(n), extent(e) {}
};
struct grid {
  dimension dimensions[max_levels]{{"", 1}, {"", 1}, {"", 1}, {"", 1}, {"", 1}, {"", 1}};
  int rank = 0;
  constexpr grid() = default;  // device 0 alone
  constexpr grid(std::initializer_list<dimension> all) {
    for (dimension const& d : all)
      if (rank++ < max_levels) dimensions[rank - 1] = d;  // op_assign says when there are too many
  }
};
// One coordinate of a dimension: `pt::at{"stage", 1, 4}` is stage 1 of 4.
struct at {
  mode_name name;
  int index, of;
  constexpr at(std::string_view n, int i, int extent) : name(n), index(i), of(extent) {}
};

// Devices one by one, in any order: place k of the grid, counted with its last dimension fastest, is device at[k].
// `plan.op_assign(ops, pt::device_list{{5, 2, 7}})` beside a grid of three.
struct device_list {
  int const* at;  // lives as long as the call that takes it
  int count;
  constexpr device_list(int const* list, int n) : at(list), count(n) {}
  template <std::size_t N> constexpr device_list(int const (&list)[N]) : at(list), count(static_cast<int>(N)) {}
};

// A coordinate in time: it takes no device and orders nothing. Orders speak of it as of a coordinate in space, so that any
// ops can be named together: a chunk of a pipeline, a pass of several, a part of the backward pass.
struct phase {
  mode_name name;
  int index;
  constexpr phase(std::string_view n, int i) : name(n), index(i) {}
};

// Axes as selections: `plan.ops(pt::with<ffn>)`.
template <class Axis> struct with_axis {};
template <class Axis> inline constexpr with_axis<Axis> with{};

// What completion puts between ops: the change of layout by which a tensor arrives at its readers (of a
// parameter: its use), and the sum of its pieces in time. `plan.moves(...)`, `plan.uses(...)` and `plan.accumulates(...)` make
// such keys.
enum class between : signed char { nothing, move, accumulate };
struct moment;
struct node_key {
  between what = between::nothing;
  int tensor = -1;
  int reader = -1;  // an op; -1: all of them
  constexpr bool operator==(node_key const&) const = default;
  constexpr operator moment() const;
};

// Some instances of ops: those at coordinates of a grid or of phases, of a pass, at indices of modes in time; what is not
// said is any. `plan.op_order(pt::moment{}.at("stage", 0).of(pass::forward).index("micro", 1), ...)`. A moment does not keep
// the names it is given: it is made where it is used.
inline constexpr int max_coordinates = 4;
struct moment {
  struct coordinate {
    std::string_view name;
    int index = -1;
  };
  int op = -1, when = -1;
  node_key node{};  // instead of an op
  coordinate places[max_coordinates]{}, indices[max_coordinates]{};
  int place_count = 0, index_count = 0;  // more than there is room for are counted, and refused by op_order
  constexpr moment at(std::string_view name, int c) const {
    moment m = *this;
    if (m.place_count++ < max_coordinates) m.places[m.place_count - 1] = {name, c};
    return m;
  }
  constexpr moment of(pass p) const {
    moment m = *this;
    m.when = static_cast<int>(p);
    return m;
  }
  constexpr moment index(std::string_view name, int i) const {
    moment m = *this;
    if (m.index_count++ < max_coordinates) m.indices[m.index_count - 1] = {name, i};
    return m;
  }
};
constexpr node_key::operator moment() const {
  moment m;
  m.node = *this;
  return m;
}
// Of instances that could start at the same time those of the higher priority go first; 0 where nothing is said. It is no
// edge: it changes neither what waits for what nor the result.
struct priority {
  int value = 0;
};

}  // namespace partita
