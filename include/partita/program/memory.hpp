// The memory plan of a program: how long every buffer lives, where it lies, and what an instruction waits for in the
// other lane. All of it follows from the order of instructions and the buffers they name as accesses; scratch counts
// as written.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <span>
#include <string>

#include <partita/core/list.hpp>
#include <partita/core/words.hpp>
#include <partita/program/offsets.hpp>
#include <partita/program/program.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

// What a program's arena holds, for reports.
struct memory_report {
  struct holder {
    int tensor = -1;  // -1: staging and scratch
    std::size_t bytes = 0;
    int buffers = 0;
  };
  std::size_t arena_bytes = 0, state_bytes = 0;
  std::size_t lower_bound = 0;  // the most bytes that are live at once: no placement needs less
  int peak_position = -1;       // the first instruction where so much is live
  list<holder> at_peak;         // what is live there, largest first
};

namespace detail::memory {

inline std::span<int const> reads(program const& p, instruction const& i) {
  return {p.accesses.data() + i.first_access, static_cast<std::size_t>(i.read_count)};
}
inline std::span<int const> writes(program const& p, instruction const& i) {
  return {p.accesses.data() + i.first_access + i.read_count, static_cast<std::size_t>(i.write_count)};
}

inline std::string words(program const& p, int b) {
  return partita::words({"buffer ", b, " (tensor ", p.buffers[static_cast<std::size_t>(b)].tensor, ")"});
}

inline void find_lives(program& p) {
  const int count = static_cast<int>(p.instructions.size()), last = count > 0 ? count - 1 : 0;
  for (buffer& b : p.buffers) {
    const bool kept = b.where == region::state;
    b.first = kept || b.from_start ? 0 : -1;
    b.last = kept || b.to_end ? last : b.from_start ? 0 : -1;
  }
  for (int at = 0; at < count; ++at) {
    instruction const& i = p.instructions[static_cast<std::size_t>(at)];
    for (int b : reads(p, i)) {
      buffer& read = p.buffers[static_cast<std::size_t>(b)];
      if (read.first < 0 && read.bytes > 0)
        throw_error({"memory: instruction ", at, " reads ", words(p, b), ", which nothing has written before"});
      read.last = std::max(read.last, at);
    }
    for (int b : writes(p, i)) {
      buffer& written = p.buffers[static_cast<std::size_t>(b)];
      if (written.first < 0) written.first = at;
      written.last = std::max(written.last, at);
    }
  }
  for (std::size_t b = 0; b < p.buffers.size(); ++b)
    if (p.buffers[b].to_end && p.buffers[b].first < 0 && p.buffers[b].bytes > 0)
      throw_error({"memory: ", words(p, static_cast<int>(b)), " is read after the program, but nothing writes it"});
}

inline void place_state(program& p) {
  p.state_bytes = 0;
  for (buffer& b : p.buffers)
    if (b.where == region::state) {
      b.offset = p.state_bytes;
      p.state_bytes += aligned(b.bytes);
    }
}

inline void place_arena(program& p) {
  list<life> lives;
  list<std::size_t> ids;
  for (std::size_t b = 0; b < p.buffers.size(); ++b) {
    buffer& x = p.buffers[b];
    if (x.where != region::arena) continue;
    x.offset = 0;
    if (x.bytes == 0 || x.first < 0) continue;
    lives.push_back({aligned(x.bytes), x.first, x.last});
    ids.push_back(b);
  }
  const placed found = place(lives);
  for (std::size_t k = 0; k < ids.size(); ++k) p.buffers[ids[k]].offset = found.offsets[k];
  p.arena_bytes = found.peak;
}

// Which buffer the bytes of the arena belong to at one position of the program.
class occupants {
 public:
  // Gives [begin, end) to `owner` and calls f(previous owner) for each that held a part of it.
  template <class F> void claim(std::size_t begin, std::size_t end, int owner, F f) {
    auto at = ranges_.upper_bound(begin);
    if (at != ranges_.begin() && std::prev(at)->second.end > begin) --at;
    while (at != ranges_.end() && at->first < end) {
      const std::size_t from = at->first;
      const range old = at->second;
      f(old.owner);
      at = ranges_.erase(at);
      if (from < begin) ranges_[from] = {begin, old.owner};
      if (old.end > end) at = ranges_.insert_or_assign(end, range{old.end, old.owner}).first;
    }
    ranges_[begin] = {end, owner};
  }

 private:
  struct range {
    std::size_t end;
    int owner;
  };
  std::map<std::size_t, range> ranges_;
};

// An instruction waits for the last one of the other lane that wrote what it reads, or used what it writes, or used
// the bytes that it is the first to write for a new buffer. Earlier users of those bytes need no look: the first
// writer among the last users has waited for them. What an earlier instruction of the same lane has waited for is not
// waited for again.
inline void find_waits(program& p) {
  struct counts {
    int written[2]{}, used[2]{};
  };  // per lane: done when its last writer, or user, is
  list<counts> of(p.buffers.size());
  occupants bytes;
  auto claim = [&](int b, auto f) {
    buffer const& x = p.buffers[static_cast<std::size_t>(b)];
    if (x.where == region::arena && x.bytes > 0) bytes.claim(x.offset, x.offset + aligned(x.bytes), b, f);
  };
  for (std::size_t b = 0; b < p.buffers.size(); ++b)
    if (p.buffers[b].from_start) claim(static_cast<int>(b), [](int) {});
  int done[2]{}, waited[2]{};
  for (std::size_t at = 0; at < p.instructions.size(); ++at) {
    instruction& i = p.instructions[at];
    const std::size_t mine = i.where == lane::compute ? 0 : 1, other = 1 - mine;
    int need = 0;
    auto after = [&](int count) { need = std::max(need, count); };
    for (int b : reads(p, i)) after(of[static_cast<std::size_t>(b)].written[other]);
    for (int b : writes(p, i)) {
      buffer const& x = p.buffers[static_cast<std::size_t>(b)];
      after(of[static_cast<std::size_t>(b)].used[other]);
      if (x.first == static_cast<int>(at) && !x.from_start)
        claim(b, [&](int old) { after(of[static_cast<std::size_t>(old)].used[other]); });
    }
    const int number = ++done[mine];
    for (int b : reads(p, i)) of[static_cast<std::size_t>(b)].used[mine] = number;
    for (int b : writes(p, i))
      of[static_cast<std::size_t>(b)].used[mine] = of[static_cast<std::size_t>(b)].written[mine] = number;
    i.wait = need > waited[mine] ? need : 0;
    waited[mine] = std::max(waited[mine], need);
  }
}

}  // namespace detail::memory

// Fills in first, last, offset of buffers, wait of instructions, arena_bytes and state_bytes. Offsets are multiples of
// 64. Buffers of the state region lie one after the other by index, so that two programs whose first buffers are the
// same state share it. Throws error where a buffer is read that nothing has written.
inline void plan_memory(program& p) {
  detail::memory::find_lives(p);
  detail::memory::place_state(p);
  detail::memory::place_arena(p);
  detail::memory::find_waits(p);
}

// Of a program that plan_memory has seen.
inline memory_report report_memory(program const& p) {
  memory_report r;
  r.arena_bytes = p.arena_bytes;
  r.state_bytes = p.state_bytes;
  list<detail::memory::life> lives;
  for (buffer const& b : p.buffers)
    if (b.where == region::arena && b.bytes > 0 && b.first >= 0)
      lives.push_back({detail::memory::aligned(b.bytes), b.first, b.last});
  const detail::memory::most_live most = detail::memory::find_most_live(lives);
  r.lower_bound = most.bytes;
  r.peak_position = most.position;
  list<memory_report::holder> holders;
  list<int> holder_of;  // by tensor; the first place is of buffers of no tensor
  for (buffer const& b : p.buffers)
    if (b.where == region::arena && b.bytes > 0 && b.first >= 0 && b.first <= most.position && most.position <= b.last) {
      const std::size_t key = static_cast<std::size_t>(b.tensor + 1);
      if (holder_of.size() <= key) holder_of.resize(key + 1, -1);
      if (holder_of[key] < 0) {
        holder_of[key] = static_cast<int>(holders.size());
        holders.push_back({});
      }
      memory_report::holder& h = holders[static_cast<std::size_t>(holder_of[key])];
      h.tensor = b.tensor;
      h.bytes += detail::memory::aligned(b.bytes);
      ++h.buffers;
    }
  auto of = [&](int i) -> memory_report::holder const& { return holders[static_cast<std::size_t>(i)]; };
  for (int i : sorted_ids(holders.size(), [&](int a, int b) {
         return of(a).bytes != of(b).bytes ? of(a).bytes > of(b).bytes : of(a).tensor < of(b).tensor;
       }))
    r.at_peak.push_back(of(i));
  return r;
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
