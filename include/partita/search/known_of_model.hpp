// What a search reads of a model, as constants of the model's type: which letters its ops may be cut along, in which ways on a
// grid of devices, which ops follow each other, which blocks repeat. Found by the functions that the run-time search calls.
//   static_assert(pt::repeated_blocks<gpt>.size() == 3);
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <partita/core/text.hpp>
#include <partita/search/check_constraints.hpp>
#include <partita/search/cut_options.hpp>
#include <partita/search/kinds.hpp>
#include <partita/search/space_rules.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

// A forward op and an axis that it may be cut along, by the letter of its annotation that is bound to it.
struct legal_cut {
  text<96> op{};
  axis_info const* axis = nullptr;
  char letter = 0;
};
// A way to cut a forward op on a grid of devices: the axis that each dimension of the grid cuts, null where it holds replicas.
struct candidate_cut {
  text<96> op{};
  axis_info const* outer = nullptr;
  axis_info const* inner = nullptr;
};
// Two forward ops of a segment, of which the second alone reads all that the first makes.
struct following_ops {
  text<96> first{}, second{};
};
// A block and an earlier one that has the same ops, wired alike: what is found out about one holds for both.
struct repeated_block {
  text<96> block{}, earlier{};
};

namespace detail::known_of_model {

struct cuts_of_ops {
  using entry = legal_cut;
  static constexpr void visit_all(spaces::segmented_model const& m, auto&& visit) {
    for (spaces::segment const& s : m.segments)
      for (spaces::searched_op const& x : s.ops)
        for (int l = 0; l < x.info->dim_count; ++l)
          if (x.may_cut[l]) visit(legal_cut{m.graph->name(x.op).view(), x.info->dims[l].axis, x.info->dims[l].letter});
  }
};
template <int Outer, int Inner, int MicroBatches, class... Constraint> struct cuts_on_a_grid {
  static_assert(Outer >= 1 && Inner >= 1 && MicroBatches >= 1, "a grid and a batch have at least one piece");
  using entry = candidate_cut;
  static constexpr void visit_all(spaces::segmented_model& m, auto&& visit) {
    const constraints given = constrained<Constraint...>();
    spaces::space_rules rules(*m.graph, given, m);
    rules.set();
    const spaces::device_grid grid(Outer, Inner);
    const std::vector<axis_info const*> boundary = spaces::cut_options::boundary_axes(m);
    const spaces::cut_options options(m, rules.on_cuts(), grid, MicroBatches, boundary);
    for (spaces::segment const& s : m.segments)
      for (spaces::searched_op const& x : s.ops) {
        auto axis = [&](std::int8_t letter) { return letter < 0 ? nullptr : x.info->dims[letter].axis; };
        for (spaces::cut_option const& c : options.op_options(x))
          visit(candidate_cut{m.graph->name(x.op).view(), axis(c[0]), axis(c[1])});
      }
  }
};
struct ops_that_follow {
  using entry = following_ops;
  static constexpr void visit_all(spaces::segmented_model const& m, auto&& visit) {
    for (spaces::segment const& s : m.segments)
      for (spaces::searched_op const& x : s.ops) {
        int reader = -1;
        bool alone = true;
        for (int o = 0; o < x.info->output_count; ++o) {
          const int tensor = m.graph->ops[x.op].first_output + o;
          alone = alone && std::find(s.leaves.begin(), s.leaves.end(), tensor) == s.leaves.end();
          for (spaces::searched_op const& y : s.ops)
            if (std::any_of(y.inputs.begin(), y.inputs.end(), [&](auto const& in) { return in.tensor == tensor; })) {
              alone = alone && (reader < 0 || reader == y.op);
              reader = y.op;
            }
        }
        if (alone && reader >= 0) visit(following_ops{m.graph->name(x.op).view(), m.graph->name(reader).view()});
      }
  }
};
struct blocks_that_repeat {
  using entry = repeated_block;
  static constexpr void visit_all(spaces::segmented_model const& m, auto&& visit) {
    for (std::size_t i = 0; i < m.segments.size(); ++i) {
      spaces::segment const& s = m.segments[i];
      const int first = m.first_of_kind[static_cast<std::size_t>(s.kind)];
      if (s.block >= 0 && first != static_cast<int>(i))
        visit(repeated_block{s.name, m.segments[static_cast<std::size_t>(first)].name});
    }
  }
};
// Asks the segments of a model, whose kinds have names.
template <class Model> constexpr auto ask(auto&& question) {
  recorder<planning_only, as_training<Model>> g;
  trace(g, as_training<Model>{});
  spaces::segmented_model m = spaces::find_segments(g, g.forward_count);
  spaces::name_kinds(m);
  return question(m);
}
// `Fact`: one of those above.
template <class Model, class Fact> constexpr void visit_facts(auto&& visit) {
  ask<Model>([&](spaces::segmented_model& m) { Fact::visit_all(m, visit); });
}
template <class Model, class Fact> constexpr std::size_t count() {
  std::size_t n = 0;
  visit_facts<Model, Fact>([&](auto const&) { ++n; });
  return n;
}
template <class Model, class Fact> constexpr auto list() {
  std::array<typename Fact::entry, count<Model, Fact>()> all{};
  std::size_t n = 0;
  visit_facts<Model, Fact>([&](auto const& x) { all[n++] = x; });
  return all;
}

template <class Model, int Outer, int Inner, int MicroBatches, class... Constraint> constexpr auto list_of_cuts() {
  constexpr bool named = ask<Model>(
      [](spaces::segmented_model const& m) { return spaces::unmatched_name(m, constrained<Constraint...>()).name.empty(); });
  constexpr bool equal = ask<Model>([](spaces::segmented_model const& m) { return m.samples % MicroBatches == 0; });
  static_assert(named, "a constraint names what the model does not have");
  static_assert(equal, "micro-batches are equal: their number divides the batch");
  return list<Model, cuts_on_a_grid<Outer, Inner, MicroBatches, Constraint...>>();
}

}  // namespace detail::known_of_model

// Of a model whose extents are static, in the order of the model's ops.
template <class Model>
inline constexpr auto legal_cuts = detail::known_of_model::list<Model, detail::known_of_model::cuts_of_ops>();
// Inside constraints on cuts (`pt::only`), of so many micro-batches.
template <class Model, int Outer, int Inner = 1, int MicroBatches = 1, class... Constraint>
inline constexpr auto candidate_cuts = detail::known_of_model::list_of_cuts<Model, Outer, Inner, MicroBatches, Constraint...>();
template <class Model>
inline constexpr auto followers = detail::known_of_model::list<Model, detail::known_of_model::ops_that_follow>();
template <class Model>
inline constexpr auto repeated_blocks = detail::known_of_model::list<Model, detail::known_of_model::blocks_that_repeat>();

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
