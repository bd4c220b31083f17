// Which memory each instruction of a program touches: for tests, whose machine knows what streams order.
#pragma once
#include <cstddef>
#include <span>

#include <partita/core/list.hpp>
#include <partita/device/cuda/memory_range.hpp>
#include <partita/program/program.hpp>

namespace partita::on_cuda {

class touched_ranges {
 public:
  // Of the next instruction.
  template <class Address> void add(program const& p, instruction const& i, Address address) {
    const stretch own{ranges_.size(), static_cast<std::size_t>(i.read_count), static_cast<std::size_t>(i.write_count)};
    for (int k = 0; k < i.read_count + i.write_count; ++k) {
      const int id = p.accesses[static_cast<std::size_t>(i.first_access + k)];
      ranges_.push_back({address({id, 0}), p.buffers[static_cast<std::size_t>(id)].bytes});
    }
    of_.push_back({own, own});
  }
  // One instruction of several does what all of them do.
  void join(std::span<std::size_t const> members, std::size_t puts) {
    stretch all{ranges_.size(), 0, 0};
    for (const bool writes : {false, true})
      for (std::size_t at : members) {
        stretch const own = of_[at].alone;
        for (std::size_t r = 0; r < (writes ? own.writes : own.reads); ++r) {
          const memory_range each = ranges_[own.first + (writes ? own.reads : 0) + r];
          ranges_.push_back(each);
        }
        (writes ? all.writes : all.reads) += writes ? own.writes : own.reads;
      }
    for (std::size_t at : members) of_[at].joined = at == puts ? all : stretch{};
  }
  // `alone`: without what it does for others, or they for it.
  std::span<memory_range const> reads(std::size_t at, bool alone) const {
    stretch const& s = alone ? of_[at].alone : of_[at].joined;
    return std::span(ranges_).subspan(s.first, s.reads);
  }
  std::span<memory_range const> writes(std::size_t at, bool alone) const {
    stretch const& s = alone ? of_[at].alone : of_[at].joined;
    return std::span(ranges_).subspan(s.first + s.reads, s.writes);
  }

 private:
  struct stretch {
    std::size_t first = 0, reads = 0, writes = 0;
  };
  struct both {
    stretch alone, joined;
  };
  list<memory_range> ranges_;
  list<both> of_;  // by instruction
};

}  // namespace partita::on_cuda
