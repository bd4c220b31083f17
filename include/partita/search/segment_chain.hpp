// The segments of a model in order, with what is asked of the stages that they make.
#pragma once
#include <algorithm>
#include <cstddef>
#include <limits>
#include <vector>

namespace partita::spaces {

// Devices, `last` among them.
struct device_range {
  int first = 0, last = std::numeric_limits<int>::max();
};

struct segment_chain {
  std::vector<int> chain;             // kinds of segments, in order
  std::vector<char> may_begin;        // a stage may begin with this segment; empty: with any
  std::vector<int> blocks;            // where stages have equal numbers of blocks: which block a segment is, or -1; empty: any
  std::vector<device_range> regions;  // per segment, the devices that it must lie on; empty: any

  constexpr int segments() const { return static_cast<int>(chain.size()); }
  // Stage s has the devices from s * devices on.
  constexpr bool lies(int segment, int stage, int devices) const {
    if (regions.empty()) return true;
    device_range const& r = regions[static_cast<std::size_t>(segment)];
    const long first = static_cast<long>(stage) * devices;
    return first >= r.first && first + devices - 1 <= r.last;
  }
  // May one of so many stages, not the first, begin with it?
  constexpr bool begins(int segment, int stages) const {
    if (!may_begin.empty() && !may_begin[static_cast<std::size_t>(segment)]) return false;
    if (blocks.empty()) return true;
    const auto last = std::find_if(blocks.rbegin(), blocks.rend(), [](int b) { return b >= 0; });  // they are in order
    const long block = blocks[static_cast<std::size_t>(segment)], all = last == blocks.rend() ? 0 : *last + 1L;
    const long stage = block < 1 ? 0 : (block * stages + all - 1) / all;  // which begins with block floor(stage * all / stages)
    return stage > 0 && stage * all / stages == block;
  }
};

}  // namespace partita::spaces
