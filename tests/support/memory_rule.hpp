// What a memory plan must fulfil, from the instructions and their waits alone: conflicting accesses are ordered, and
// buffers that share bytes do not live at once. Shares nothing with the planner.
#pragma once
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <partita/program/program.hpp>

namespace partita::testing {

// Empty when all is well.
inline std::string memory_fault(program const& p) {
  const std::size_t n = p.instructions.size(), buffers = p.buffers.size();
  // A lane works in order, so that what has certainly ended is one number a lane.
  std::vector<std::array<int, 2>> ended(n);
  std::vector<int> number(n);
  int count[2]{}, waited[2]{};
  for (std::size_t i = 0; i < n; ++i) {
    instruction const& x = p.instructions[i];
    const std::size_t mine = x.where == lane::compute ? 0 : 1, other = 1 - mine;
    if (x.wait > count[other]) return "instruction " + std::to_string(i) + " waits for a later one";
    waited[mine] = std::max(waited[mine], x.wait);
    number[i] = ++count[mine];
    ended[i][mine] = number[i] - 1;
    ended[i][other] = waited[mine];
  }
  auto lane_of = [&](std::size_t i) { return p.instructions[i].where == lane::compute ? std::size_t{0} : std::size_t{1}; };
  auto before = [&](std::size_t a, std::size_t b) { return number[a] <= ended[b][lane_of(a)]; };
  struct uses {
    std::array<int, 2> first{-1, -1}, last{-1, -1}, written{-1, -1};  // per lane: instructions
    bool any() const { return first[0] >= 0 || first[1] >= 0; }
  };
  std::vector<uses> of(buffers);
  for (std::size_t i = 0; i < n; ++i) {
    instruction const& x = p.instructions[i];
    const std::size_t mine = lane_of(i);
    for (int a = 0; a < x.read_count + x.write_count; ++a) {
      const std::size_t b = static_cast<std::size_t>(p.accesses[static_cast<std::size_t>(x.first_access + a)]);
      uses& u = of[b];
      const bool writes = a >= x.read_count;
      auto conflicts = [&](int j) {
        return j >= 0 && static_cast<std::size_t>(j) != i && !before(static_cast<std::size_t>(j), i);
      };
      if (conflicts(u.written[1 - mine]) || (writes && conflicts(u.last[1 - mine])))
        return "instruction " + std::to_string(i) + " races on buffer " + std::to_string(b);
      if (u.first[mine] < 0) u.first[mine] = static_cast<int>(i);
    }
    for (int a = 0; a < x.read_count + x.write_count; ++a) {
      uses& u = of[static_cast<std::size_t>(p.accesses[static_cast<std::size_t>(x.first_access + a)])];
      u.last[mine] = static_cast<int>(i);
      if (a >= x.read_count) u.written[mine] = static_cast<int>(i);
    }
  }
  for (std::size_t b = 0; b < buffers; ++b) {
    partita::buffer const& x = p.buffers[b];
    const std::size_t size = x.where == region::arena ? p.arena_bytes : p.state_bytes;
    const bool lives = of[b].any() || x.from_start || x.to_end || x.where == region::state;
    if (!lives) continue;
    if (x.offset + x.bytes > size) return "buffer " + std::to_string(b) + " lies outside its region";
    if (x.offset % 64 != 0) return "buffer " + std::to_string(b) + " is not aligned";
    for (std::size_t c = 0; c < b; ++c) {
      partita::buffer const& y = p.buffers[c];
      if (x.where != y.where || x.offset >= y.offset + y.bytes || y.offset >= x.offset + x.bytes) continue;
      auto precedes = [&](std::size_t one, std::size_t two) {
        if (p.buffers[one].to_end || p.buffers[two].from_start) return false;
        for (int last : of[one].last)
          for (int first : of[two].first)
            if (last >= 0 && first >= 0 && !before(static_cast<std::size_t>(last), static_cast<std::size_t>(first))) return false;
        return true;
      };
      const bool other_lives = of[c].any() || y.from_start || y.to_end || y.where == region::state;
      if (other_lives && !precedes(b, c) && !precedes(c, b))
        return "buffers " + std::to_string(c) + " and " + std::to_string(b) + " share bytes while both live";
    }
  }
  return "";
}

// Empty when nobody reads what is stored after it has been renewed; a node renews one box of a piece after the other.
inline std::string late_reader(program const& p) {
  std::vector<int> renewed(p.buffers.size(), -1);  // by which node
  for (instruction const& i : p.instructions) {
    auto accessed = [&](int a) { return static_cast<std::size_t>(p.accesses[static_cast<std::size_t>(i.first_access + a)]); };
    for (int a = 0; a < i.read_count; ++a)
      if (const int by = renewed[accessed(a)]; by >= 0 && by != i.node)
        return "an instruction of node " + std::to_string(i.node) + " reads what has been renewed";
    for (int a = i.read_count; a < i.read_count + i.write_count; ++a)
      if (p.buffers[accessed(a)].where == region::state) renewed[accessed(a)] = i.node;
  }
  return "";
}

}  // namespace partita::testing
