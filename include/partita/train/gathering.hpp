// Whole tensors from their pieces on the devices of all processes.
#pragma once
#include <algorithm>
#include <cstddef>
#include <map>
#include <numeric>
#include <string_view>
#include <tuple>

#include <partita/core/list.hpp>
#include <partita/core/words.hpp>
#include <partita/layout/box.hpp>
#include <partita/train/devices.hpp>
#include <partita/train/tensors.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail {

// All processes ask for the same tensors in the same order, and each gets the whole.
class gathering {
 public:
  using outsides = list<outside> program::*;

  gathering(graph_data const& g, local_devices const& devices, processes& together)
      : graph_(g), devices_(devices), together_(together) {}

  // Throws error where no device holds some part of it; `when` is said behind its name then.
  host_tensor whole(std::size_t set, outsides part, int tensor, std::string_view name, std::string_view when = "") {
    operand const& x = graph_.operand_of(tensor);
    host_tensor h;
    h.name = name;
    h.type = x.type;
    for (int a = 0; a < x.rank; ++a) h.extents.push_back(graph_.extent(x.axes[a]));
    h.bytes.resize(std::accumulate(h.extents.begin(), h.extents.end(), size_of(x.type), std::multiplies<>{}));
    pieces const& from = pieces_of(set, part, tensor, name);
    if (from.elements < h.size()) throw_error({"no device holds all of ", name, when});
    for (mine const& m : from.here) devices_.read(set, m.rank, *m.piece, x.type, h.bytes.data());
    if (together_.size() > 1) complete(h, from);
    return h;
  }

 private:
  struct mine {
    int rank;
    outside const* piece;
  };
  struct pieces {
    list<mine> here;
    list<list<box>> boxes;     // by process; each of the whole's elements in one or more
    std::size_t elements = 0;  // of all boxes
  };

  // Replicas are equal: one of each box, of the lowest process. Asked for once, since programs stay.
  pieces const& pieces_of(std::size_t set, outsides part, int tensor, std::string_view name) {
    outsides const known[]{&program::outputs, &program::stored, &program::gradients};
    const auto kind = static_cast<int>(std::find(std::begin(known), std::end(known), part) - std::begin(known));
    const auto [at, first] = known_.try_emplace({set, kind, tensor});
    pieces& p = at->second;
    if (!first) return p;
    list<box> own;
    list<mine> candidates;
    for (int r : devices_.here())
      for (outside const& o : devices_.what(set, r).*part)
        if (const box b = box_of(o); o.tensor == tensor && std::find(own.begin(), own.end(), b) == own.end()) {
          own.push_back(b);
          candidates.push_back({r, &o});
        }
    list<box> taken;
    for (auto const& offered : gather_lists(together_, own, name)) {
      const bool is_here = p.boxes.size() == static_cast<std::size_t>(together_.rank());
      p.boxes.emplace_back();
      for (std::size_t i = 0; i < offered.size(); ++i) {
        if (std::find(taken.begin(), taken.end(), offered[i]) != taken.end()) continue;
        taken.push_back(offered[i]);
        p.boxes.back().push_back(offered[i]);
        p.elements += offered[i].elements();
        if (is_here) p.here.push_back(candidates[i]);
      }
    }
    return p;
  }
  static box box_of(outside const& o) {
    box b;
    b.rank = o.rank;
    for (int d = 0; d < o.rank; ++d) b.at[d] = {o.begin[d], o.extents[d]};
    return b;
  }

  // From the parts that each process has, in `h`, to the whole everywhere.
  void complete(host_tensor& h, pieces const& from) {
    const std::size_t width = size_of(h.type);
    list<std::size_t> bytes;
    for (auto const& boxes : from.boxes) {
      bytes.push_back(0);
      for (box const& b : boxes) bytes.back() += b.elements() * width;
    }
    const auto me = static_cast<std::size_t>(together_.rank());
    list<std::byte> own(bytes[me]), all(std::accumulate(bytes.begin(), bytes.end(), std::size_t{0}));
    std::byte* packed = own.data();
    for (box const& b : from.boxes[me])
      each_row(h, b, [&](std::byte* in_whole, std::size_t row) {
        std::copy_n(in_whole, row, packed);
        packed += row;
      });
    together_.all_gather(own.data(), all.data(), bytes, h.name);
    std::byte const* arrived = all.data();
    for (auto const& boxes : from.boxes)
      for (box const& b : boxes)
        each_row(h, b, [&](std::byte* in_whole, std::size_t row) {
          std::copy_n(arrived, row, in_whole);
          arrived += row;
        });
  }
  // f(where a row along the last axis begins in the whole, its bytes), in row-major order.
  template <class F> static void each_row(host_tensor& h, box const& b, F f) {
    const std::size_t width = size_of(h.type);
    if (b.elements() == 0) return;
    if (b.rank == 0) return f(h.bytes.data(), width);
    std::size_t index[max_rank]{};
    for (bool more = true; more;) {
      std::size_t at = 0;
      for (int d = 0; d < b.rank; ++d) at = at * h.extents[static_cast<std::size_t>(d)] + b.at[d].begin + index[d];
      f(h.bytes.data() + at * width, b.at[b.rank - 1].size * width);
      int d = b.rank - 2;
      while (d >= 0 && ++index[d] == b.at[d].size) index[d--] = 0;
      more = d >= 0;
    }
  }

  graph_data const& graph_;
  local_devices const& devices_;
  processes& together_;
  std::map<std::tuple<std::size_t, int, int>, pieces> known_;  // set, list, tensor
};

}  // namespace partita::detail

#include <partita/core/end_planning_code.hpp>
