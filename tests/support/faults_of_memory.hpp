// Faults of the memory plan and of what lanes wait for.
#pragma once
#include "faults_of_instructions.hpp"

namespace partita::testing {

namespace faults {
inline bool wait_otherwise(injection& x, int which) {
  place_of_instruction p;
  if (!pick(x, x.places([=](program const&, instruction const& i) { return which == 2 || i.wait > 0; }), p,
            which == 0   ? "a wait left out"
            : which == 1 ? "a wait for one less"
                         : "a wait for what comes later"))
    return false;
  instruction& i = x.at(p);
  if (which == 0) i.wait = 0;
  else if (which == 1) --i.wait;
  else {
    int before = 0;
    for (int k = 0; k < p.at; ++k) before += x.of(p).instructions[static_cast<std::size_t>(k)].where != i.where;
    i.wait = before + 1;
  }
  return true;
}
// Two buffers on one place, or by a cache line too near.
inline bool overlapping(injection& x, bool whole) {
  const int rank = x.below(static_cast<int>(x.programs.size()));
  program& p = x.programs[static_cast<std::size_t>(rank)];
  std::vector<std::pair<int, int>> pairs;
  for (std::size_t a = 0; a < p.buffers.size(); ++a)
    for (std::size_t b = 0; b < p.buffers.size(); ++b) {
      buffer const &u = p.buffers[a], &v = p.buffers[b];
      const bool both = u.where == v.where && a != b && u.bytes > 0 && v.bytes > 0 && u.first >= 0 && v.first >= 0 &&
                        u.first <= v.last && v.first <= u.last;
      if (both && (whole ? u.offset + v.bytes <= p.arena_bytes
                         : u.offset + u.bytes > 64 && v.offset == (u.offset + u.bytes + 63) / 64 * 64))
        pairs.push_back({static_cast<int>(a), static_cast<int>(b)});
    }
  if (pairs.empty()) return false;
  const auto [a, b] = x.any(pairs);
  buffer &u = p.buffers[static_cast<std::size_t>(a)], &v = p.buffers[static_cast<std::size_t>(b)];
  x.words = "buffers " + std::to_string(a) + " and " + std::to_string(b) + " of rank " + std::to_string(rank) +
            (whole ? " in one place" : " too near");
  v.offset = whole ? u.offset : v.offset - 64;
  return true;
}
inline bool other_offset(injection& x) {
  const int rank = x.below(static_cast<int>(x.programs.size()));
  program& p = x.programs[static_cast<std::size_t>(rank)];
  if (p.buffers.empty()) return false;
  const std::size_t b = static_cast<std::size_t>(x.below(static_cast<int>(p.buffers.size())));
  buffer& u = p.buffers[b];
  const std::size_t room = u.where == region::arena ? p.arena_bytes : p.state_bytes;
  if (u.bytes == 0 || room < 64) return false;
  x.words = "buffer " + std::to_string(b) + " of rank " + std::to_string(rank) + " at another offset";
  u.offset = static_cast<std::size_t>(x.below(static_cast<int>(room / 64))) * 64;
  return true;
}
inline bool smaller_region(injection& x) {
  const int rank = x.below(static_cast<int>(x.programs.size()));
  program& p = x.programs[static_cast<std::size_t>(rank)];
  x.words = "a smaller arena or state of rank " + std::to_string(rank);
  std::size_t& bytes = x.below(2) == 0 && p.state_bytes > 0 ? p.state_bytes : p.arena_bytes;
  if (bytes < 128) return false;
  bytes -= 128;
  return true;
}
inline bool smaller_buffer(injection& x) {
  const int rank = x.below(static_cast<int>(x.programs.size()));
  program& p = x.programs[static_cast<std::size_t>(rank)];
  if (p.buffers.empty()) return false;
  const std::size_t b = static_cast<std::size_t>(x.below(static_cast<int>(p.buffers.size())));
  if (p.buffers[b].bytes == 0 || p.buffers[b].first < 0) return false;
  x.words = "buffer " + std::to_string(b) + " of rank " + std::to_string(rank) + " too small";
  p.buffers[b].bytes -= 4;
  return true;
}
// An update moved before the last one that reads what it renews.
inline bool state_too_early(injection& x) {
  struct found {
    place_of_instruction update;
    int reader;
  };
  std::vector<found> all;
  for (place_of_instruction const &p : computes(x, [&](program const&q, compute_call const&c) {
         for (int o = 0; o < c.output_count; ++o)
           if (q.buffers[static_cast<std::size_t>(q.references[static_cast<std::size_t>(c.first_output + o)].buffer)].where ==
               region::state)
             return true;
         return false;
       })) {
    compute_call const& c = x.compute_at(p);
    const int stored = reference_of(x, p, c.first_output).buffer;
    for (int i = p.at - 1; i >= 0; --i) {
      instruction const& now = x.of(p).instructions[static_cast<std::size_t>(i)];
      if (now.kind != instruction_kind::compute) continue;
      compute_call const& reader = x.of(p).computes[static_cast<std::size_t>(now.payload)];
      bool reads = false;
      for (int k = 0; k < reader.input_count; ++k) reads = reads || reference_of(x, p, reader.first_input + k).buffer == stored;
      if (!reads) continue;
      all.push_back({p, i});
      break;
    }
  }
  if (all.empty()) return false;
  const found f = x.any(all);
  x.say(f.update, "an update before the last reader");
  const instruction update = x.at(f.update);
  x.remove(f.update);
  x.insert(f.update.rank, f.reader, update);
  return true;
}
// Two neighbours of one lane that have to do with the same buffer.
inline bool other_order(injection& x) {
  std::vector<std::pair<place_of_instruction, int>> pairs;
  for (std::size_t r = 0; r < x.programs.size(); ++r) {
    program const& p = x.programs[r];
    int last[2]{-1, -1};
    for (std::size_t i = 0; i < p.instructions.size(); ++i) {
      instruction const& now = p.instructions[i];
      int& before = last[now.where == lane::compute ? 0 : 1];
      if (before >= 0) {
        instruction const& old = p.instructions[static_cast<std::size_t>(before)];
        bool depends = false;
        for (int a = old.read_count; a < old.read_count + old.write_count; ++a)
          for (int b = 0; b < now.read_count; ++b)
            depends = depends || p.accesses[static_cast<std::size_t>(old.first_access + a)] ==
                                     p.accesses[static_cast<std::size_t>(now.first_access + b)];
        if (depends) pairs.push_back({{static_cast<int>(r), before}, static_cast<int>(i)});
      }
      before = static_cast<int>(i);
    }
  }
  if (pairs.empty()) return false;
  const auto [p, second] = x.any(pairs);
  x.say(p, "after the one that reads it");
  instruction &a = x.at(p), &b = x.of(p).instructions[static_cast<std::size_t>(second)];
  std::swap(a, b);
  std::swap(a.wait, b.wait);
  return true;
}
}  // namespace faults

inline std::vector<fault_kind> faults_of_memory() {
  using namespace faults;
  return {
      {"a lane does not wait", [](injection& x) { return wait_otherwise(x, 0); }},
      {"a lane waits for one less", [](injection& x) { return wait_otherwise(x, 1); }},
      {"a lane waits for what comes later", [](injection& x) { return wait_otherwise(x, 2); }},
      {"two buffers lie in one place", [](injection& x) { return overlapping(x, true); }},
      {"two buffers lie too near", [](injection& x) { return overlapping(x, false); }},
      {"a buffer lies at another offset", other_offset},
      {"a region is too small", smaller_region},
      {"a buffer is too small", smaller_buffer},
      {"the next step's state is read too early", state_too_early},
      {"neighbours are in another order", other_order},
  };
}

}  // namespace partita::testing
