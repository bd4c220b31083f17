#include <doctest/doctest.h>

#include <chrono>
#include <cmath>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <partita/train/thread_devices.hpp>

#include "hand_made.hpp"

namespace pt = partita;
using namespace partita_test;
using pt::instruction_kind;
using pt::lane;
using kind = pt::instruction_kind;
using numbers = std::vector<std::int32_t>;

namespace {

std::int32_t wrapped(std::int64_t x) { return static_cast<std::int32_t>(static_cast<std::uint64_t>(x) & 0x3fffffff); }

// y = 3 x0 + 7 x1 + 11 x2 ... + key
std::int32_t mixed_element(std::uint64_t key, std::vector<std::int32_t> const& inputs) {
  std::int64_t sum = static_cast<std::int64_t>(key), factor = 3;
  for (std::int32_t x : inputs) sum += factor * x, factor += 4;
  return wrapped(sum);
}
void mix(pt::on_cpu::launch_arguments const& a) {
  auto* out = static_cast<std::int32_t*>(a.outputs[0]);
  std::vector<std::int32_t> inputs(static_cast<std::size_t>(a.input_count));
  for (std::size_t i = 0; i < a.extents[0]; ++i) {
    for (std::size_t k = 0; k < inputs.size(); ++k) inputs[k] = static_cast<std::int32_t const*>(a.inputs[k])[i];
    out[i] = mixed_element(a.key, inputs);
  }
}
void slow_mix(pt::on_cpu::launch_arguments const& a) {
  std::this_thread::sleep_for(std::chrono::microseconds(50));
  mix(a);
}

// Programs of several ranks in one order, and what their buffers hold after them, worked out without lanes or plan.
struct random_programs {
  static constexpr std::size_t n = 40;
  std::mt19937 random;
  int ranks;
  pt::list<pt::list<int>> groups;
  std::vector<program_maker> makers;
  std::vector<std::vector<numbers>> values;  // by rank and buffer
  std::vector<std::vector<int>> known;       // by rank: buffers that hold something

  int below(int limit) { return std::uniform_int_distribution<int>(0, limit - 1)(random); }
  program_maker& at(int rank) { return makers[static_cast<std::size_t>(rank)]; }
  numbers& value(int rank, int b) { return values[static_cast<std::size_t>(rank)][static_cast<std::size_t>(b)]; }
  std::vector<int>& known_of(int rank) { return known[static_cast<std::size_t>(rank)]; }
  int make(int rank, std::size_t elements, int tensor = 0, pt::region where = pt::region::arena) {
    values[static_cast<std::size_t>(rank)].push_back(numbers(elements));
    return at(rank).buffer(elements, pt::i32, tensor, where);
  }
  int some(int rank, std::size_t elements) {  // one that is known and has so many elements, or -1
    for (int tries = 0; tries < 20 && !known_of(rank).empty(); ++tries) {
      const int size = static_cast<int>(known_of(rank).size());
      const int b = known_of(rank)[static_cast<std::size_t>(size - 1 - below(std::min(size, 8)))];
      if (value(rank, b).size() == elements) return b;
    }
    return -1;
  }
  lane some_lane() { return below(4) == 0 ? lane::communication : lane::compute; }

  explicit random_programs(unsigned seed) : random(seed), ranks(1 + static_cast<int>(seed % 4)) {
    pt::list<int> all, even;
    for (int r = 0; r < ranks; ++r) {
      all.push_back(r);
      if (r % 2 == 0) even.push_back(r);
    }
    groups = {all, even};
    values.resize(static_cast<std::size_t>(ranks));
    known.resize(static_cast<std::size_t>(ranks));
    for (int r = 0; r < ranks; ++r) {
      makers.emplace_back(r, groups);
      for (int k = 0; k < 2; ++k) {  // one state, one input
        const int b = make(r, n, k, k == 0 ? pt::region::state : pt::region::arena);
        if (k == 0) at(r).made.stored.push_back(at(r).seen(b, 0));
        else at(r).at(b).from_start = true, at(r).made.inputs.push_back(at(r).seen(b, 1));
        known_of(r).push_back(b);
      }
    }
  }

  // Builds and, with the same draws, computes: called again it gives the values after one more step.
  void build(int events) {
    for (int e = 0; e < events; ++e) {
      const int group = below(2), what = below(10), r = below(ranks);
      pt::list<int> const& members = groups[static_cast<std::size_t>(group)];
      const std::size_t count = members.size();
      if (what < 4) {
        std::vector<int> inputs;
        for (int k = 1 + below(3); k > 0; --k) inputs.push_back(some(r, n));
        if (inputs[0] < 0 || inputs.back() < 0 || inputs[inputs.size() / 2] < 0) continue;
        const int out = below(6) == 0 ? 0 : make(r, n);  // now and then the state
        const int op = below(3);
        at(r).compute(op, inputs, out, below(8) == 0 ? lane::communication : lane::compute);
        numbers result(n);
        for (std::size_t i = 0; i < n; ++i) {
          std::vector<std::int32_t> x;
          for (int b : inputs) x.push_back(value(r, b)[i]);
          result[i] = mixed_element(static_cast<std::uint64_t>(op) + 1, x);
        }
        value(r, out) = result;
        known_of(r).push_back(out);
      } else if (what == 4) {
        const int out = make(r, n);
        at(r).fill(out, e, some_lane());
        value(r, out).assign(n, e);
        known_of(r).push_back(out);
      } else if (what == 5) {
        const int from = some(r, n), to = some(r, n);
        if (from < 0 || to < 0 || from == to) continue;
        const std::size_t length = static_cast<std::size_t>(below(20)), source = static_cast<std::size_t>(below(20)),
                          target = static_cast<std::size_t>(below(20));
        const bool combine = below(2) == 0;
        at(r).copy(from, source, to, target, length, combine, pt::reduction::max, some_lane());
        for (std::size_t i = 0; i < length; ++i) {
          std::int32_t& x = value(r, to)[target + i];
          x = combine ? std::max(x, value(r, from)[source + i]) : value(r, from)[source + i];
        }
      } else if (what == 6) {  // all_reduce
        std::vector<int> buffers;
        for (int m : members) buffers.push_back(some(m, n));
        if (std::find(buffers.begin(), buffers.end(), -1) != buffers.end()) continue;
        numbers most = value(members[0], buffers[0]);
        for (std::size_t m = 0; m < count; ++m)
          for (std::size_t i = 0; i < n; ++i) most[i] = std::max(most[i], value(members[m], buffers[m])[i]);
        for (std::size_t m = 0; m < count; ++m) {
          at(members[m]).all_reduce(group, buffers[m], pt::reduction::max);
          value(members[m], buffers[m]) = most;
        }
      } else if (what == 7) {  // all_gather
        std::vector<int> buffers;
        for (int m : members) buffers.push_back(some(m, n));
        if (std::find(buffers.begin(), buffers.end(), -1) != buffers.end()) continue;
        numbers all;
        for (std::size_t m = 0; m < count; ++m)
          all.insert(all.end(), value(members[m], buffers[m]).begin(), value(members[m], buffers[m]).end());
        for (std::size_t m = 0; m < count; ++m) {
          const int out = make(members[m], n * count);
          at(members[m]).collective(kind::all_gather, group, buffers[m], out, pt::list<std::size_t>(count, n));
          value(members[m], out) = all;
          known_of(members[m]).push_back(out);
        }
      } else if (what == 8) {  // reduce_scatter
        std::vector<int> buffers;
        for (int m : members) buffers.push_back(some(m, n * count));
        if (std::find(buffers.begin(), buffers.end(), -1) != buffers.end()) continue;
        std::vector<numbers> results(count, numbers(n));
        for (std::size_t m = 0; m < count; ++m)
          for (std::size_t i = 0; i < n; ++i) {
            std::int32_t most = value(members[0], buffers[0])[m * n + i];
            for (std::size_t k = 1; k < count; ++k) most = std::max(most, value(members[k], buffers[k])[m * n + i]);
            results[m][i] = most;
          }
        for (std::size_t m = 0; m < count; ++m) {
          const int out = make(members[m], n);
          at(members[m])
              .collective(kind::reduce_scatter, group, buffers[m], out, pt::list<std::size_t>(count, n), pt::reduction::max);
          value(members[m], out) = results[m];
          known_of(members[m]).push_back(out);
        }
      } else {  // everybody sends to the next
        std::vector<int> buffers;
        for (int m : members) buffers.push_back(some(m, n));
        if (std::find(buffers.begin(), buffers.end(), -1) != buffers.end()) continue;
        for (std::size_t m = 0; m < count; ++m) {
          const std::size_t before = (m + count - 1) % count, after = (m + 1) % count;
          const int out = make(members[m], n);
          at(members[m]).exchange({{members[after], buffers[m]}}, {{members[before], out}}, static_cast<std::uint64_t>(e));
          value(members[m], out) = value(members[before], buffers[before]);
          known_of(members[m]).push_back(out);
        }
      }
    }
    for (int r = 0; r < ranks; ++r)
      for (int b : known_of(r))
        if (b > 1 && below(6) == 0 && !at(r).at(b).to_end) {
          at(r).at(b).to_end = true;
          at(r).made.outputs.push_back(at(r).seen(b, 0));
        }
  }
};

struct mixing_graph : hand_made_graph {
  mixing_graph() {
    op("first", &mix, pt::i32);
    op("second", &slow_mix, pt::i32);
    op("third", &mix, pt::i32);
  }
};

}  // namespace

TEST_CASE("random programs of several ranks give what they give without lanes and plan") {
  mixing_graph graph;
  for (unsigned seed = 0; seed < 60; ++seed)
    for (int lanes : {1, 2}) {
      random_programs r(seed);
      for (int rank = 0; rank < r.ranks; ++rank) {  // what the input holds in every step, the state before the first
        r.value(rank, 0) = numbers(r.n, 100 * rank + 5);
        for (std::size_t i = 0; i < r.n; ++i) r.value(rank, 1)[i] = static_cast<std::int32_t>(i) + 7 * rank;
      }
      std::vector<numbers> inputs;
      for (int rank = 0; rank < r.ranks; ++rank) inputs.push_back(r.value(rank, 1));
      r.build(80);
      pt::list<pt::program> programs;
      for (program_maker& m : r.makers) {
        pt::plan_memory(m.made);
        programs.push_back(m.made);
      }
      pt::on_cpu::thread_devices devices({.devices = r.ranks, .threads = 1, .lanes = lanes}, graph.data, graph.launchers,
                                         graph.keys, {programs});
      for (int step = 0; step < 3; ++step) {
        devices.on_each([&](int rank) {
          pt::program const& p = devices.what(0, rank);
          const numbers state(r.n, 100 * rank + 5);  // the same before every step, so that the results are
          pt::on_cpu::copy_in(p.stored[0], pt::i32, state.data(), devices.address(rank, 0, p.stored[0].at));
          pt::on_cpu::copy_in(p.inputs[0], pt::i32, inputs[static_cast<std::size_t>(rank)].data(),
                              devices.address(rank, 0, p.inputs[0].at));
        });
        devices.run(0, {});
        INFO("seed ", seed, ", lanes ", lanes, ", step ", step);
        for (int rank = 0; rank < r.ranks; ++rank) {
          pt::program const& p = devices.what(0, rank);
          pt::list<pt::outside> seen = p.outputs;
          seen.push_back(p.stored[0]);
          for (pt::outside const& o : seen) {
            numbers found(o.extents[0]);
            pt::on_cpu::copy_out(o, pt::i32, devices.address(rank, 0, o.at), found.data());
            REQUIRE(found == r.value(rank, o.at.buffer));
          }
        }
      }
    }
}
