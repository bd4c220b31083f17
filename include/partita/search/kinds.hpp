// Segments that differ in names alone are of one kind: what is found out about one holds for all.
#pragma once
#include <utility>
#include <vector>

#include <partita/search/segments.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::spaces {

namespace detail {
// Two segments are of one kind when they differ in names alone: the same ops, wired alike, under the same rules.
struct signature {
  std::vector<std::int64_t> numbers;
  std::vector<op_info const*> infos;
  bool operator==(signature const&) const = default;
};
constexpr signature signature_of(graph_data const& g, segment const& s) {
  signature all;
  auto put = [&](auto x) { all.numbers.push_back(static_cast<std::int64_t>(x)); };
  std::vector<std::pair<int, std::pair<int, int>>> made;  // tensor, where
  for (std::size_t i = 0; i < s.enters.size(); ++i) made.push_back({s.enters[i], {-1, static_cast<int>(i)}});
  auto where = [&](int t) {
    for (auto const& [tensor, place] : made)
      if (tensor == t) return place;
    return std::pair{-2, 0};
  };
  put(s.block >= 0);
  put(s.rule);
  put(s.enters.size());
  for (int t : s.enters) {
    operand const& x = g.operand_of(t);
    put(x.type);
    put(g.tensors[t].differentiable);
    for (int a = 0; a < x.rank; ++a) put(x.axes[a]->id);
  }
  for (std::size_t k = 0; k < s.ops.size(); ++k) {
    searched_op const& x = s.ops[k];
    all.infos.push_back(x.info);
    put(x.rule);
    put(x.backward.size());
    for (caused_op const& b : x.backward)
      for (int i = 0; i < b.info->input_count; ++i) {
        put(b.waits_with[i]);
        put(b.waits_again[i]);
      }
    for (searched_input const& in : x.inputs) {
      const auto from = where(in.tensor);
      put(from.first);
      put(from.second);
      put(in.weight);
      put(in.backward_reads);
      put(in.weights_read);
      put(in.given);
    }
    for (searched_weight const& w : x.weights) {
      put(w.owned);
      put(w.readers);
      for (double bytes : {w.stored_bytes, w.used_bytes, w.gradient_bytes, w.term_bytes}) put(bytes);
      put(w.conversions.size());
      put(w.outputs.size());
      auto put_letters = [&](caused_op const& of) {
        all.infos.push_back(of.info);
        for (int d = 0; d < of.info->dim_count; ++d) put(of.letter[d]);
      };
      for (given_out const& out : w.outputs) {
        put_letters(out.as);
        put(out.through.size());
        for (op_of_weight const& each : out.through) put_letters(each.as);
      }
      put(w.term_conversions.size());
      put(w.trained);
      put(w.updates.size());
    }
    for (int o = 0; o < x.info->output_count; ++o) {
      for (bool kept : {x.output_kept[o], x.output_read_by_own[o], x.output_read_inside[o], x.weights_read_output[o],
                        x.own_weights_read_output[o]})
        put(kept);
      made.push_back({g.ops[x.op].first_output + o, {static_cast<int>(k), o}});
    }
  }
  put(s.leaves.size());
  for (int t : s.leaves) {
    put(where(t).first);
    put(where(t).second);
  }
  return all;
}
}  // namespace detail

constexpr void name_kinds(segmented_model& m) {
  std::vector<detail::signature> known;
  for (std::size_t s = 0; s < m.segments.size(); ++s) {
    if (const int like = m.segments[s].like; like >= 0 && m.segments[static_cast<std::size_t>(like)].rule == m.segments[s].rule) {
      m.segments[s].kind = m.segments[static_cast<std::size_t>(like)].kind;
      continue;
    }
    auto own = detail::signature_of(*m.graph, m.segments[s]);
    const auto same = std::find(known.begin(), known.end(), own);
    m.segments[s].kind = static_cast<int>(same - known.begin());
    if (same != known.end()) continue;
    known.push_back(std::move(own));
    m.first_of_kind.push_back(static_cast<int>(s));
  }
}

}  // namespace partita::spaces

#include <partita/core/end_planning_code.hpp>
