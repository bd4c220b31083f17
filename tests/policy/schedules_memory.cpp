// What schedules hold, in planned bytes: it grows with the number of micro-batches under GPipe alone.
#include <doctest/doctest.h>

#include <cstdlib>

#include "../support/planned.hpp"

#include <partita/program/lower.hpp>

namespace pt = partita;
using namespace pt::testing;

namespace {
template <int Samples> struct batch : pt::axis<"batch", Samples> {};
struct features : pt::axis<"features", 64> {};
constexpr int micro_batch = 12;

// Linears, and 12 samples a micro-batch.
template <int MicroBatches> struct chain {
  int layers = 4;
  constexpr auto operator()(auto& g) const {
    auto h = pt::input<pt::f32, batch<MicroBatches * micro_batch>, features>(g, "x");
    auto first = pt::param<pt::f32, features>(g, "first.bias");
    h = pt::bias(h, first);
    for (int l = 0; l < layers; ++l) {
      auto s = pt::scope(g, "layer", l);
      auto w = pt::param<pt::f32, features, features>(g, "fc.weight");
      h = pt::linear(h, w);
    }
    return pt::sum(h);
  }
};
template <int MicroBatches> std::vector<std::int64_t> arenas(pt::schedule::recipe how) {
  planned<pt::training<chain<MicroBatches>>> p(pt::policy::pipeline_of{4, MicroBatches, how}, {{4 * how.chunks}, {}, {}, {}});
  REQUIRE(describe(p.wrong_with) == "");
  const pt::lowering shared(p.g, p.plan, p.c, {});
  std::vector<std::int64_t> bytes;
  for (int rank = 0; rank < 4; ++rank) bytes.push_back(static_cast<std::int64_t>(pt::lower(shared, rank).arena_bytes));
  return bytes;
}
}  // namespace

TEST_CASE("memory does not grow with the number of micro-batches, but under GPipe") {
  constexpr std::int64_t activation = micro_batch * 64 * 4;  // what a layer keeps of a micro-batch: its input
  struct named {
    const char* name;
    pt::schedule::recipe how;
    bool grows;
  };
  const named all[]{{"gpipe", pt::schedule::gpipe{}, true},
                    {"1f1b", pt::schedule::one_f_one_b{}, false},
                    {"interleaved", pt::schedule::interleaved<2>{}, false},
                    {"h1", pt::schedule::zero_bubble<pt::schedule::h1>{}, false},
                    {"h2", pt::schedule::zero_bubble<pt::schedule::h2>{}, false},
                    {"v", pt::schedule::zero_bubble<pt::schedule::v_shaped>{}, false}};
  for (named const& s : all) {
    INFO(std::string(s.name));
    const std::vector<std::int64_t> few = arenas<16>(s.how), many = arenas<32>(s.how);
    for (std::size_t stage : {1, 2}) {  // the first stage has all of the input, the last one terms of the loss
      if (s.grows) CHECK(many[stage] - few[stage] >= 16 * activation);
      else CHECK(std::abs(many[stage] - few[stage]) <= activation);  // one may have arrived early
    }
  }
}

TEST_CASE("1F1B holds less than GPipe by m - (p - s) micro-batches on stage s, H2 more than H1") {
  constexpr std::int64_t activation = micro_batch * 64 * 4;
  const auto gpipe = arenas<16>(pt::schedule::gpipe{}), turns = arenas<16>(pt::schedule::one_f_one_b{}),
             h1 = arenas<16>(pt::schedule::zero_bubble<pt::schedule::h1>{}),
             h2 = arenas<16>(pt::schedule::zero_bubble<pt::schedule::h2>{});
  for (int stage : {1, 2}) {
    const auto s = static_cast<std::size_t>(stage);
    CHECK(gpipe[s] - turns[s] >= (16 - (4 - stage) - 1) * activation);
    CHECK(h1[s] > turns[s]);
    CHECK(h2[s] >= h1[s] + 3 * activation);  // 2 p - 1 in place of p
  }
}
