// Which pieces of a model's ops are measured: every distinct op at its whole extents, and cut as plans cut it.
#pragma once
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <partita/cost/profile.hpp>
#include <partita/model/graph_entries.hpp>
#include <partita/program/fuse.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

struct piece_to_measure {
  int op = -1;  // of the graph
  std::string key;
  std::size_t extents[max_dims]{}, wholes[max_dims]{};
  bool accumulates = false, tile = false;
};

namespace detail::measuring {

inline constexpr std::size_t tile_bytes = 48 << 10;  // of one op: a chain's tile holds two of them or so

class pieces {
 public:
  explicit pieces(graph_data const& g, int most_batches) : g_(g), most_batches_(most_batches) {
    for (op_entry const& e : g.ops)
      if (e.info->source == source_kind::input && e.info->dim_count > 0) {
        batch_ = e.info->dims[0].axis;
        break;
      }
  }
  std::vector<piece_to_measure> find() {
    for (int op = 0; op < g_.ops.size; ++op) {
      op_info const& f = *g_.ops[op].info;
      if (f.source != source_kind::none || f.is_view || f.variadic) continue;
      std::size_t whole[max_dims]{};
      for (int d = 0; d < f.dim_count; ++d) whole[d] = g_.extent(f.dims[d].axis);
      cut(op, f, whole);
    }
    return std::move(found_);
  }

 private:
  // The batch into 1, 2, 4, ... pieces, and beside that any two other letters into two.
  void cut(int op, op_info const& f, std::size_t const* whole) {
    int batch = -1;
    std::vector<int> others{-1};
    for (int d = 0; d < f.dim_count; ++d) {
      if (f.dims[d].axis->id == batch_->id) batch = d;
      else if (!f.dims[d].whole && whole[d] > 1) others.push_back(d);
    }
    for (int n = 1; n <= most_batches_; n *= 2) {
      if (n > 1 && (batch < 0 || whole[batch] < static_cast<std::size_t>(n))) break;
      for (std::size_t i = 0; i < others.size(); ++i)
        for (std::size_t j = 0; j <= i; ++j) {  // -1, which is no letter, stands first: none, one and two letters
          std::size_t extents[max_dims]{};
          std::copy(whole, whole + max_dims, extents);
          const std::size_t batches = static_cast<std::size_t>(n);
          if (n > 1) extents[batch] = (extents[batch] + batches - 1) / batches;
          if (others[i] >= 0) extents[others[i]] = (extents[others[i]] + 1) / 2;
          if (others[j] >= 0 && j != i) extents[others[j]] = (extents[others[j]] + 1) / 2;
          add(op, f, extents, whole);
        }
    }
  }
  void add(int op, op_info const& f, std::size_t const* extents, std::size_t const* whole) {
    auto put = [&](std::size_t const* e, bool accumulates, bool tile) {
      piece_to_measure p;
      p.op = op;
      p.key = op_key(f, accumulates);
      std::copy(e, e + max_dims, p.extents);
      std::copy(whole, whole + max_dims, p.wholes);
      p.accumulates = accumulates;
      p.tile = tile;
      if (known_.insert({p.key, tile, std::vector<std::size_t>(e, e + max_dims)}).second) found_.push_back(std::move(p));
    };
    put(extents, false, false);
    if (f.accumulates) put(extents, true, false);
    compute_call c;
    std::copy(extents, extents + max_dims, c.extents);
    signed char letters[max_rank]{};
    const int depth = fuse::shared_depth(f, letters);
    if (depth == 0 || g_.ops[op].when == partita::pass::update || !fuse::is_one_pass(f, c)) return;
    // As in a chain, which shares one axis less where an op that it joins knows fewer.
    for (int shared = depth; shared >= std::max(1, depth - 1); --shared) {
      std::size_t tile[max_dims]{}, row = 0;
      std::copy(extents, extents + max_dims, tile);
      for (int d = 0; d < shared; ++d) tile[static_cast<int>(letters[d])] = 1;
      auto bytes = [&](operand const& x) { row += static_cast<std::size_t>(elements_of(x, tile)) * size_of(x.type); };
      for (int i = 0; i < f.input_count; ++i) bytes(f.input(i));
      for (int o = 0; o < f.output_count; ++o) bytes(f.outputs[o]);
      const int last = static_cast<int>(letters[shared - 1]);
      tile[last] = std::clamp<std::size_t>(tile_bytes / std::max<std::size_t>(1, row), 1, extents[last]);
      put(tile, false, true);
    }
  }

  graph_data const& g_;
  int most_batches_;
  axis_info const* batch_ = nullptr;
  std::set<std::tuple<std::string, bool, std::vector<std::size_t>>> known_;
  std::vector<piece_to_measure> found_;
};

}  // namespace detail::measuring

// `most_batches`: the batch is cut into as many pieces, in halves.
inline std::vector<piece_to_measure> pieces_to_measure(graph_data const& g, int most_batches = 8) {
  return detail::measuring::pieces(g, most_batches).find();
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
