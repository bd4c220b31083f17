// Whether kernels may run a program that was damaged: without it an interpreter would write where it must not.
#pragma once
#include <algorithm>
#include <cstddef>
#include <vector>

#include <partita/program/program.hpp>

namespace partita::testing {

// Is every place that an instruction names inside its buffer? Only then may kernels run.
inline bool is_in_bounds(graph_data const& g, program const& p, program const& good) {
  auto inside = [&](partita::reference const& at, std::size_t bytes) {
    if (bytes == 0) return true;
    if (at.buffer < 0 || static_cast<std::size_t>(at.buffer) >= p.buffers.size()) return false;
    const std::size_t room = p.buffers[static_cast<std::size_t>(at.buffer)].bytes;
    return at.offset <= room && bytes <= room - at.offset;
  };
  auto sum = [](list<std::size_t> const& counts) {
    std::size_t n = 0;
    for (std::size_t c : counts) n += c;
    return n;
  };
  auto computed = [&](compute_call const& c) {
    op_info const& f = *g.ops[c.op].info;
    auto bytes = [&](operand const& x) {
      std::size_t n = size_of(x.type);
      for (int a = 0; a < x.rank; ++a) n *= c.extents[x.dims[a]] * (x.inner[a] >= 0 ? c.extents[x.inner[a]] : 1);
      return n;
    };
    bool good_call = true;
    for (int d = 0; d < f.dim_count; ++d) good_call = good_call && c.offsets[d] + c.extents[d] <= c.wholes[d];
    for (int k = 0; k < c.input_count; ++k)
      good_call = good_call && inside(p.references[static_cast<std::size_t>(c.first_input + k)], bytes(f.input(k)));
    for (int k = 0; k < c.output_count; ++k)
      good_call = good_call && inside(p.references[static_cast<std::size_t>(c.first_output + k)], bytes(f.outputs[k]));
    return good_call;
  };
  for (std::size_t b = 0; b < p.buffers.size(); ++b)
    if (p.buffers[b].bytes < good.buffers[b].bytes) return false;
  for (instruction const& i : p.instructions) {
    const std::size_t payload = static_cast<std::size_t>(i.payload), size = size_of(i.type);
    bool fits = true;
    switch (i.kind) {
      case instruction_kind::compute: fits = computed(p.computes[payload]); break;
      case instruction_kind::chain:
        for (int l = 0; l < p.chains[payload].link_count; ++l)
          fits = fits && computed(p.computes[static_cast<std::size_t>(
                             p.links[static_cast<std::size_t>(p.chains[payload].first_link + l)].compute)]);
        break;
      case instruction_kind::fill: fits = inside(p.fills[payload].to, p.fills[payload].elements * size); break;
      case instruction_kind::copy:
        for (int k = 0; k < i.box_count; ++k) {
          box_copy const& b = p.boxes[static_cast<std::size_t>(i.first_box + k)];
          std::size_t from = size, to = size;
          for (int a = 0; a < b.rank; ++a) {
            from += (b.extents[a] - 1) * b.from_strides[a] * size;
            to += (b.extents[a] - 1) * b.to_strides[a] * size;
          }
          fits = fits && inside(b.from, from) && inside(b.to, to);
        }
        break;
      case instruction_kind::exchange:
        for (auto const* list : {&p.exchanges[payload].sends, &p.exchanges[payload].receives})
          for (transfer const& t : *list) fits = fits && inside(t.at, t.bytes);
        break;
      default: {
        if (i.call_count < 1 || payload + static_cast<std::size_t>(i.call_count) > p.collectives.size()) return false;
        for (int k = 0; k < i.call_count; ++k) {
          collective_call const& c = p.collectives[payload + static_cast<std::size_t>(k)];
          list<int> const& members = p.groups[static_cast<std::size_t>(c.group)];
          const auto me = std::find(members.begin(), members.end(), p.rank);
          if (me == members.end()) return false;
          const std::size_t all = sum(c.counts) * size,
                            own = i.kind == instruction_kind::all_reduce
                                      ? all
                                      : c.counts[static_cast<std::size_t>(me - members.begin())] * size;
          switch (i.kind) {
            case instruction_kind::all_reduce: fits = fits && inside(c.to, all); break;
            case instruction_kind::all_gather: fits = fits && inside(c.from, own) && inside(c.to, all); break;
            case instruction_kind::reduce_scatter: fits = fits && inside(c.from, all) && inside(c.to, own); break;
            default: fits = fits && inside(c.from, all) && inside(c.to, sum(c.receive_counts) * size);
          }
        }
      }
    }
    if (!fits) return false;
  }
  return true;
}

}  // namespace partita::testing
