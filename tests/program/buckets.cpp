// Moves that wait at the same time are one collective: fewer calls, the same elements, nobody kept waiting.
#include <doctest/doctest.h>

#include <partita/cost/presets.hpp>
#include <partita/policy/data_parallel.hpp>
#include <partita/policy/pipeline.hpp>
#include <partita/policy/zero.hpp>
#include <partita/program/check.hpp>
#include <partita/program/lower.hpp>
#include <partita/simulate/simulate.hpp>

#include "../support/memory_rule.hpp"
#include "../support/planned.hpp"

namespace pt = partita;
using namespace pt::testing;
using namespace pt::policy;

namespace {
using gpt = planned<pt::training<planned_gpt, pt::adamw, pt::clip_norm>>;

struct calls {
  int collectives = 0, parts = 0, largest = 0;
  std::size_t elements = 0;
};
calls count(pt::program const& p) {
  calls n;
  for (pt::instruction const& i : p.instructions) {
    if (!pt::is_communication(i.kind) || i.kind == pt::instruction_kind::exchange) continue;
    ++n.collectives;
    n.parts += i.call_count;
    n.largest = std::max(n.largest, i.call_count);
    for (int k = 0; k < i.call_count; ++k)
      for (std::size_t c : p.collectives[static_cast<std::size_t>(i.payload + k)].counts) n.elements += c;
  }
  return n;
}
pt::lowering_options with(double bucket_bytes, double flops = 5e10) {
  pt::lowering_options how;
  how.bucket_bytes = bucket_bytes;
  how.speed.flops = flops;
  return how;
}
struct programs {
  pt::lowering shared;
  std::vector<pt::program> all;
  std::int64_t seconds = 0;  // of the order
  programs(gpt const& p, pt::lowering_options how) : shared(p.g, p.plan, p.c, std::move(how)) {
    for (int rank = 0; rank < p.c.devices; ++rank) all.push_back(pt::lower(shared, rank));
    for (pt::instance const& i : shared.order()) seconds = std::max(seconds, i.end);
    for (pt::program const& x : all) CHECK(memory_fault(x) == "");
    const pt::program_finding f = pt::check_programs(p.g, all);
    CHECK_MESSAGE(!f, f.words);
  }
};
template <class... Policies> gpt under(int layers, Policies... policies) {
  gpt p(pt::training<planned_gpt, pt::adamw, pt::clip_norm>{{.layers = layers}});
  (policies(p.plan), ...);
  p.complete();
  REQUIRE_FALSE(p.wrong_with);
  return p;
}
double bytes_of(gpt const& p, pt::lowering const& shared, int node) {
  pt::route const& way = shared.route_of(node);
  pt::operand const& x = p.g.operand_of(p.c.values[p.c.nodes[node].first_value].tensor);
  double most = 0;
  for (pt::layout const* l : {&way.start, &way.steps[0].after}) {
    double bytes = static_cast<double>(size_of(x.type));
    for (int a = 0; a < x.rank; ++a) bytes *= static_cast<double>(p.g.extent(x.axes[a]));
    for (int q = 0; q < l->count; ++q)
      if (!l->parts[q].partial()) bytes /= l->parts[q].pieces;
    most = std::max(most, bytes);
  }
  return most;
}
constexpr double usual = 25 * 1024 * 1024.0;
}  // namespace

TEST_CASE("collectives of many small tensors become few, of the same elements, and a step shorter") {
  auto compare = [](gpt const& p, int most) {
    const programs each(p, with(0)), together(p, with(usual)), small(p, with(4000));
    for (std::size_t r = 0; r < each.all.size(); ++r) {
      const calls a = count(each.all[r]), b = count(together.all[r]), s = count(small.all[r]);
      CHECK(a.collectives == a.parts);
      CHECK(a.largest <= 1);
      CHECK(b.parts == a.parts);
      CHECK(b.elements == a.elements);
      CHECK(s.parts == a.parts);
      CHECK(s.elements == a.elements);
      CHECK(b.collectives <= most);
      CHECK(b.collectives < s.collectives);
      CHECK(s.collectives < a.collectives);
    }
    CHECK(together.seconds < each.seconds);
    CHECK(each.shared.digest() != together.shared.digest());  // ranks that were lowered otherwise are told apart
  };
  compare(under(24, data_parallel_of{4}), 60);
  compare(under(24, data_parallel_of{2}, zero_of{1, 2}), 120);
  compare(under(24, data_parallel_of{2}, zero_of{2, 2}), 120);
  compare(under(24, data_parallel_of{3}, micro_batches_of{2}), 60);
}

TEST_CASE("members of a bucket are alike, follow one another and fit into it") {
  for (double most : {usual, 20'000.0}) {
    const gpt p = under(8, data_parallel_of{2}, pipeline_of{2, 3, &pt::schedule::one_f_one_b::order}, zero_of{3, 2});
    const programs made(p, with(most));
    pt::list<pt::instance> const& order = made.shared.order();
    int buckets = 0;
    for (std::size_t k = 0; k < order.size();) {
      std::size_t end = k + 1;
      if (order[k].bucket >= 0) {
        double bytes = bytes_of(p, made.shared, order[k].node);
        for (; end < order.size() && order[end].bucket == order[k].bucket; ++end) {
          pt::route const &a = made.shared.route_of(order[k].node), &b = made.shared.route_of(order[end].node);
          CHECK(a.steps[0].kind == b.steps[0].kind);
          CHECK(a.steps[0].levels == b.steps[0].levels);
          CHECK(a.start.where == b.start.where);
          CHECK(order[k].begin == order[end].begin);
          CHECK(order[k].end == order[end].end);
          bytes += bytes_of(p, made.shared, order[end].node);
        }
        CHECK(end - k > 1);
        CHECK(bytes <= most);
        CHECK(order[k].bucket == buckets);
        ++buckets;
      }
      k = end;
    }
    CHECK(buckets > 1);
  }
}

TEST_CASE("a bucket waits for nothing: gradients are on their way while later ones are computed") {
  // Ops so slow that the links are idle: nothing is joined that is not ready within a latency.
  const gpt p = under(12, data_parallel_of{2});
  const pt::lowering slow(p.g, p.plan, p.c, with(usual, 1e7)), each(p.g, p.plan, p.c, with(0, 1e7));
  std::int64_t last_gradient = 0, first_sum = 0, end = 0, end_of_each = 0;
  int latest = 0, largest = 0, now = 0, bucket = -1;
  for (pt::instance const& i : slow.order()) {
    pt::node const& n = p.c.nodes[i.node];
    end = std::max(end, i.end);
    now = i.bucket >= 0 && i.bucket == bucket ? now + 1 : 1;
    bucket = i.bucket;
    largest = std::max(largest, now);
    if (p.g.ops[n.op].when != pt::pass::backward) continue;
    if (n.kind == pt::node_kind::compute) last_gradient = std::max(last_gradient, i.begin);
    if (n.kind == pt::node_kind::move && latest++ == 0) first_sum = i.begin;
  }
  for (pt::instance const& i : each.order()) end_of_each = std::max(end_of_each, i.end);
  CHECK(first_sum < last_gradient / 2);
  CHECK(largest < 12);
  CHECK(end <= end_of_each + 10'000);  // one latency
}

TEST_CASE("what an op waits for is not kept by much that others want") {
  // ZeRO 3: the first op's parameter is gathered alone or with what takes no longer than a latency.
  const gpt p = under(6, data_parallel_of{2}, zero_of{3, 2});
  pt::lowering_options how = with(usual);
  how.speed.link.seconds_per_byte = 1e-8;  // a matrix takes longer than a latency
  const pt::lowering made(p.g, p.plan, p.c, how);
  how.bucket_bytes = 0;
  const pt::lowering each(p.g, p.plan, p.c, how);
  auto first_reader = [&](pt::lowering const& s) {
    for (pt::instance const& i : s.order())
      if (p.c.nodes[i.node].kind == pt::node_kind::compute && p.g.ops[p.c.nodes[i.node].op].info->kind == "embedding")
        return i.begin;
    return std::int64_t{-1};
  };
  CHECK(first_reader(made) >= 0);
  CHECK(first_reader(made) <= first_reader(each) + 10'000);
  std::int64_t end = 0, end_of_each = 0;
  for (pt::instance const& i : made.order()) end = std::max(end, i.end);
  for (pt::instance const& i : each.order()) end_of_each = std::max(end_of_each, i.end);
  CHECK(end <= end_of_each);
}

TEST_CASE("the simulator counts the latency of a bucket once") {
  const gpt p = under(24, data_parallel_of{4});
  const pt::cluster box = pt::preset::dgx_a100(1);
  const pt::costs k(box);
  auto seconds = [&](double bucket_bytes) {
    const pt::lowering s(p.g, p.plan, p.c, with(bucket_bytes));
    const int calls = count(pt::lower(s, 0)).collectives;
    return std::pair{calls, pt::simulate(s, k, {.lanes = 1, .seconds = {}}).seconds};
  };
  const auto [calls, each] = seconds(0);
  const auto [fewer, together] = seconds(usual);
  CHECK(fewer < calls);
  CHECK(each - together > 0.5 * (calls - fewer) * box.links[0].latency);
}
