// Which buffer the bytes of a rank belong to, and whether its two lanes may touch a buffer at the same time. The accesses
// are those that the executor makes, not those that the program lists for the memory plan.
#pragma once
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include <partita/program/check/finding.hpp>
#include <partita/program/program.hpp>

namespace partita::detail::checking {

class bytes_of_rank {
 public:
  explicit bytes_of_rank(program const& p) : p_(p), uses_(p.buffers.size()) {
    ended_.reserve(p.instructions.size());
    int count[2]{}, waited[2]{};
    for (std::size_t i = 0; i < p.instructions.size(); ++i) {
      instruction const& x = p.instructions[i];
      const int mine = lane_of(x), other = 1 - mine;
      if (x.wait > count[other])
        fail(program_fault::deadlock, p.rank, static_cast<int>(i),
             words({"it waits for ", x.wait, " instructions of the other lane, of which only ", count[other],
                    " come before it: lower `wait`"}));
      waited[mine] = std::max(waited[mine], x.wait);
      ++count[mine];
      ended_.push_back({count[mine], waited[mine]});
    }
    for (int region = 0; region < 2; ++region) {
      const std::size_t room = region == 0 ? p.state_bytes : p.arena_bytes;
      for (std::size_t b = 0; b < p.buffers.size(); ++b) {
        buffer const& x = p.buffers[b];
        if (number(x.where) != region || x.bytes == 0) continue;
        if (x.offset > room || x.bytes > room - x.offset) outside_.push_back(static_cast<int>(b));
      }
    }
  }

  // The buffer is used from the beginning of the step on.
  void begin(int b) {
    buffer const& x = p_.buffers[static_cast<std::size_t>(b)];
    use& u = uses_[static_cast<std::size_t>(b)];
    if (x.bytes == 0 || u.begun) return;
    check_region(b, -1);
    u.begun = true;
    claim(b, -1);
  }
  void read(int b, int instruction) { touch(b, instruction, false); }
  void write(int b, int instruction) { touch(b, instruction, true); }
  // Throws unless the buffer's bytes are still its own.
  void check_kept(int b, int instruction) const {
    use const& u = uses_[static_cast<std::size_t>(b)];
    if (u.lost_to < 0) return;
    fail(program_fault::shared_bytes, p_.rank, instruction,
         words({buffer_words(b), " is needed here, but ", buffer_words(u.lost_to),
                " lies on its bytes and has been written since: give them other offsets"}));
  }
  std::string buffer_words(int b) const {
    buffer const& x = p_.buffers[static_cast<std::size_t>(b)];
    return words(
        {"buffer ", b, " (", x.where == region::state ? "state" : "arena", " bytes ", x.offset, " to ", x.offset + x.bytes, ")"});
  }

 private:
  struct use {
    bool begun = false;
    int lost_to = -1;             // the buffer that was written over it
    int at = -1;                  // instruction of the last use
    int used[2]{}, written[2]{};  // by lane: the number of the last that did, counted from 1
  };
  struct times {
    int own, other;
  };  // its number in its lane; how many of the other lane have ended by then
  struct range {
    std::size_t end;
    int owner;
  };

  static int lane_of(instruction const& i) { return i.where == lane::compute ? 0 : 1; }
  static int number(region where) { return where == region::state ? 0 : 1; }

  void check_region(int b, int instruction) const {
    for (int o : outside_)
      if (o == b) fail(program_fault::out_of_bounds, p_.rank, instruction, words({buffer_words(b), " ends outside its region"}));
  }
  void touch(int b, int instruction, bool writes) {
    buffer const& x = p_.buffers[static_cast<std::size_t>(b)];
    if (x.bytes == 0) return;
    use& u = uses_[static_cast<std::size_t>(b)];
    const int mine = lane_of(p_.instructions[static_cast<std::size_t>(instruction)]);
    times const& now = ended_[static_cast<std::size_t>(instruction)];
    if (!u.begun) {
      check_region(b, instruction);
      if (!writes)
        fail(program_fault::undefined, p_.rank, instruction,
             words({"it reads ", buffer_words(b), ", which nothing has written"}));
      u.begun = true;
      claim(b, instruction);
    }
    check_kept(b, instruction);
    check_lanes(b, b, instruction, writes ? u.used[1 - mine] : u.written[1 - mine]);
    u.used[mine] = now.own;
    if (writes) u.written[mine] = now.own;
    u.at = instruction;
  }
  // Has the other lane's instruction of that number ended?
  void check_lanes(int b, int other, int instruction, int number_there) const {
    if (number_there <= ended_[static_cast<std::size_t>(instruction)].other) return;
    fail(program_fault::race, p_.rank, instruction,
         words({"it uses ", buffer_words(b), " and does not wait for instruction ", number_there,
                " of the other lane, which uses ", b == other ? std::string("the same bytes") : buffer_words(other),
                ": raise `wait` to ", number_there}));
  }
  void claim(int b, int instruction) {
    buffer const& x = p_.buffers[static_cast<std::size_t>(b)];
    auto& ranges = ranges_[number(x.where)];
    const std::size_t begin = x.offset, end = x.offset + x.bytes;
    auto at = ranges.upper_bound(begin);
    if (at != ranges.begin() && std::prev(at)->second.end > begin) --at;
    while (at != ranges.end() && at->first < end) {
      const std::size_t from = at->first;
      const range old = at->second;
      take_over(old.owner, b, instruction);
      at = ranges.erase(at);
      if (from < begin) ranges[from] = {begin, old.owner};
      if (old.end > end) at = ranges.insert_or_assign(end, range{old.end, old.owner}).first;
    }
    ranges[begin] = {end, b};
  }
  void take_over(int old, int b, int instruction) {
    use& u = uses_[static_cast<std::size_t>(old)];
    if (u.lost_to < 0) u.lost_to = b;
    if (instruction < 0 || p_.buffers[static_cast<std::size_t>(old)].where == region::state) {
      fail(program_fault::shared_bytes, p_.rank, instruction,
           words({buffer_words(b), " and ", buffer_words(old), " are both needed from the beginning and lie on the same bytes"}));
    }
    if (u.at == instruction)
      fail(program_fault::shared_bytes, p_.rank, instruction,
           words({"it writes ", buffer_words(b), " over ", buffer_words(old), ", which it uses too"}));
    const int mine = lane_of(p_.instructions[static_cast<std::size_t>(instruction)]);
    check_lanes(b, old, instruction, u.used[1 - mine]);
  }

  program const& p_;
  std::vector<use> uses_;
  std::vector<times> ended_;
  std::vector<int> outside_;
  std::map<std::size_t, range> ranges_[2];
};

}  // namespace partita::detail::checking
