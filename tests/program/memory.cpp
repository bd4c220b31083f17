// Plans of random programs, judged by a check that shares nothing with the planner: reachability between instructions
// by vector clocks, and every pair of buffers and accesses looked at.
#include <doctest/doctest.h>

#include <array>
#include <random>
#include <string>
#include <vector>

#include <partita/program/memory.hpp>

#include "../support/number_of.hpp"

namespace pt = partita;

namespace {

pt::buffer make_buffer(std::size_t bytes, int tensor = -1) {
  pt::buffer b;
  b.bytes = bytes;
  b.tensor = tensor;
  return b;
}

void add(pt::program& p, pt::lane where, std::vector<int> reads, std::vector<int> writes) {
  pt::instruction i;
  i.where = where;
  i.first_access = static_cast<int>(p.accesses.size());
  i.read_count = static_cast<int>(reads.size());
  i.write_count = static_cast<int>(writes.size());
  p.accesses.append(reads);
  p.accesses.append(writes);
  p.instructions.push_back(i);
}

pt::program random_program(std::mt19937& random) {
  auto below = [&](int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); };
  pt::program p;
  const int buffers = 1 + below(24), count = below(40), percent_communication = below(3) == 0 ? 0 : below(100);
  std::vector<int> known;  // may be read
  for (int b = 0; b < buffers; ++b) {
    p.buffers.push_back(make_buffer(static_cast<std::size_t>(below(5) == 0 ? 0 : below(1000)), b));
    pt::buffer& made = p.buffers.back();
    if (below(6) == 0) made.where = pt::region::state;
    else if (below(5) == 0) made.from_start = true;
    if (made.where == pt::region::state || made.from_start) known.push_back(b);
  }
  const int reach = 1 + below(6);  // how old a buffer is that one still reads: short lives and long ones
  for (int i = 0; i < count; ++i) {
    std::vector<int> reads, writes;
    for (int r = below(4); r > 0 && !known.empty(); --r) {
      const int n = static_cast<int>(known.size());
      reads.push_back(known[static_cast<std::size_t>(n - 1 - below(std::min(n, reach)))]);
    }
    for (int w = below(3); w > 0; --w) writes.push_back(below(buffers));
    add(p, below(100) < percent_communication ? pt::lane::communication : pt::lane::compute, reads, writes);
    known.insert(known.end(), writes.begin(), writes.end());
  }
  for (int b : known)
    if (below(8) == 0) p.buffers[static_cast<std::size_t>(b)].to_end = true;
  return p;
}

// The instructions that are certain to have ended before each one begins.
std::vector<std::vector<bool>> happens_before(pt::program const& p) {
  const std::size_t n = p.instructions.size();
  std::vector<std::vector<bool>> before(n, std::vector<bool>(n));
  for (std::size_t i = 0; i < n; ++i) {
    auto follow = [&](std::size_t j) {
      before[i][j] = true;
      for (std::size_t k = 0; k < n; ++k)
        if (before[j][k]) before[i][k] = true;
    };
    int seen = 0;
    for (std::size_t j = 0; j < i; ++j) {
      if (p.instructions[j].where == p.instructions[i].where) follow(j);
      else if (++seen <= p.instructions[i].wait) follow(j);
    }
    REQUIRE(p.instructions[i].wait <= seen);  // never for what comes later in the order
  }
  return before;
}

std::string fault(pt::program const& p) {
  const std::size_t n = p.instructions.size();
  const auto before = happens_before(p);
  auto touches = [&](std::size_t i, std::size_t b, bool writes_only) {
    pt::instruction const& x = p.instructions[i];
    for (int a = writes_only ? x.read_count : 0; a < x.read_count + x.write_count; ++a)
      if (p.accesses[static_cast<std::size_t>(x.first_access + a)] == static_cast<int>(b)) return true;
    return false;
  };
  for (std::size_t b = 0; b < p.buffers.size(); ++b) {
    pt::buffer const& x = p.buffers[b];
    const std::size_t size = x.where == pt::region::arena ? p.arena_bytes : p.state_bytes;
    const bool used = x.from_start || x.to_end || x.where == pt::region::state || [&] {
      for (std::size_t i = 0; i < n; ++i)
        if (touches(i, b, false)) return true;
      return false;
    }();
    if (used && x.offset + x.bytes > size) return "outside its region";
    if (x.offset % 64 != 0) return "not aligned";
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < i; ++j)
        if (((touches(i, b, true) && touches(j, b, false)) || (touches(i, b, false) && touches(j, b, true))) && !before[i][j])
          return "instructions " + std::to_string(j) + " and " + std::to_string(i) + " race on buffer " + std::to_string(b);
    for (std::size_t c = 0; c < b; ++c) {
      pt::buffer const& y = p.buffers[c];
      if (x.where != y.where || x.offset >= y.offset + y.bytes || y.offset >= x.offset + x.bytes) continue;
      if (x.where == pt::region::state) return "state overlaps";
      // They share bytes: all uses of one end before all uses of the other begin, the outside counted.
      auto precedes = [&](std::size_t one, std::size_t two) {
        if (p.buffers[one].to_end || p.buffers[two].from_start) return false;
        for (std::size_t i = 0; i < n; ++i)
          for (std::size_t j = 0; j < n; ++j)
            if (touches(i, one, false) && touches(j, two, false) && !before[j][i]) return false;
        return true;
      };
      auto unused = [&](std::size_t one) {  // of no instruction; what the outside fills is then read by nobody
        for (std::size_t i = 0; i < n; ++i)
          if (touches(i, one, false)) return false;
        return !p.buffers[one].from_start && !p.buffers[one].to_end;
      };
      if (!unused(b) && !unused(c) && !precedes(b, c) && !precedes(c, b))
        return "buffers " + std::to_string(c) + " and " + std::to_string(b) + " share bytes while both live";
    }
  }
  return "";
}

std::size_t most_live(pt::program const& p) {
  std::size_t most = 0;
  for (int at = 0; at < std::max(1, static_cast<int>(p.instructions.size())); ++at) {
    std::size_t live = 0;
    for (pt::buffer const& b : p.buffers)
      if (b.where == pt::region::arena && b.first >= 0 && b.first <= at && at <= b.last) live += (b.bytes + 63) / 64 * 64;
    most = std::max(most, live);
  }
  return most;
}

}  // namespace

TEST_CASE("random programs: nothing that lives at once overlaps, and every conflict is ordered") {
  std::mt19937 random(11);
  std::size_t planned = 0, bound = 0;
  for (int round = 0; round < static_cast<int>(pt::testing::drawn_sanitized(1000, 4000)); ++round) {
    pt::program p = random_program(random);
    pt::plan_memory(p);
    const std::string found = fault(p);
    INFO("round ", round);
    REQUIRE(found == "");
    const pt::memory_report report = pt::report_memory(p);
    CHECK(report.lower_bound == most_live(p));
    CHECK(report.arena_bytes >= report.lower_bound);
    std::size_t held = 0;
    for (auto const& holder : report.at_peak) held += holder.bytes;
    CHECK(held == report.lower_bound);
    planned += report.arena_bytes;
    bound += report.lower_bound;
  }
  CHECK(static_cast<double>(planned) < 1.02 * static_cast<double>(bound));
}

TEST_CASE("the check finds a missing wait and an overlap") {
  std::mt19937 random(5);
  int without_wait = 0, overlapping = 0;
  for (int round = 0; round < 300; ++round) {
    pt::program p = random_program(random);
    pt::plan_memory(p);
    for (pt::instruction& i : p.instructions)
      if (i.wait > 0) {
        const int kept = i.wait--;
        without_wait += fault(p) != "";
        i.wait = kept;
        break;
      }
    for (pt::buffer& b : p.buffers) b.offset = 0;
    overlapping += fault(p) != "";
  }
  CHECK(without_wait > 100);
  CHECK(overlapping > 200);
}

TEST_CASE("no wait can be one less") {
  std::mt19937 random(6);
  int needed = 0, all = 0;
  for (int round = 0; round < 500; ++round) {
    pt::program p = random_program(random);
    pt::plan_memory(p);
    for (pt::instruction& i : p.instructions)
      if (i.wait > 0) {
        ++all;
        --i.wait;
        needed += fault(p) != "";
        ++i.wait;
      }
  }
  CHECK(needed == all);
}

TEST_CASE("lives, offsets and waits of a small program") {
  pt::program p;
  p.buffers = {make_buffer(100, 0), make_buffer(64, 1), make_buffer(64, 2), make_buffer(64, 3), make_buffer(10, 4)};
  p.buffers[0].where = p.buffers[4].where = pt::region::state;
  p.buffers[1].from_start = true;
  p.buffers[3].to_end = true;
  add(p, pt::lane::compute, {0, 1}, {2});
  add(p, pt::lane::communication, {2}, {2});
  add(p, pt::lane::compute, {2}, {3});
  add(p, pt::lane::compute, {3}, {4});
  pt::plan_memory(p);
  CHECK(p.state_bytes == 192);
  CHECK(p.buffers[0].offset == 0);
  CHECK(p.buffers[4].offset == 128);
  CHECK(p.arena_bytes == 128);
  CHECK(p.buffers[3].offset == p.buffers[1].offset);
  CHECK((p.buffers[2].first == 0 && p.buffers[2].last == 2));
  CHECK((p.buffers[3].first == 2 && p.buffers[3].last == 3));
  CHECK(
      (p.instructions[0].wait == 0 && p.instructions[1].wait == 1 && p.instructions[2].wait == 1 && p.instructions[3].wait == 0));
  const pt::memory_report report = pt::report_memory(p);
  CHECK(report.peak_position == 0);
  CHECK(report.at_peak.size() == 2);
  CHECK(report.at_peak[0].tensor == 1);
}

TEST_CASE("what nobody wrote is not read") {
  pt::program p;
  p.buffers = {make_buffer(8, 7), make_buffer(8)};
  add(p, pt::lane::compute, {0}, {1});
  CHECK_THROWS_WITH_AS(pt::plan_memory(p), "memory: instruction 0 reads buffer 0 (tensor 7), which nothing has written before",
                       pt::error);
  p.buffers[0].from_start = true;
  pt::plan_memory(p);
  p.buffers.push_back(make_buffer(8, 9));
  p.buffers[2].to_end = true;
  CHECK_THROWS_WITH_AS(pt::plan_memory(p), "memory: buffer 2 (tensor 9) is read after the program, but nothing writes it",
                       pt::error);
}
