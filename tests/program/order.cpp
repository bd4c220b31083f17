// The order of instances, over random plans: every instance once, behind all that it waits for.
#include <doctest/doctest.h>

#include "../support/number_of.hpp"
#include "../support/planned.hpp"
#include "../support/random_plan.hpp"

#include <partita/program/order.hpp>

namespace pt = partita;
using namespace pt::testing;

namespace {
using gpt = pt::training<planned_gpt, pt::adamw, pt::clip_norm>;

struct ordered {
  pt::instance_graph ig;
  pt::list<pt::instance> order;
  std::vector<int> position;  // of every instance
};
template <class P> ordered make_order(P const& p, std::function<std::int64_t(pt::node const&)> const& duration) {
  ordered o;
  REQUIRE_FALSE(pt::build_instances(p.g, p.plan, p.c, o.ig));
  o.order = pt::order_instances(p.g, p.c, o.ig, duration);
  REQUIRE(static_cast<int>(o.order.size()) == o.ig.instances);
  o.position.assign(static_cast<std::size_t>(o.ig.instances), -1);
  for (std::size_t i = 0; i < o.order.size(); ++i) {
    int& at = o.position[static_cast<std::size_t>(o.ig.first[o.order[i].node] + o.order[i].index)];
    CHECK(at == -1);
    at = static_cast<int>(i);
  }
  return o;
}
// The index of a mode in an instance, by the mode's name alone.
int index_of(pt::node const& n, int instance, short mode) {
  for (int m = n.time.count - 1; m >= 0; --m) {
    if (n.time.modes[m] == mode) return instance % n.time.extents[m];
    instance /= n.time.extents[m];
  }
  return -1;
}
// Counts, by the meaning of time modes and not by the graph of instances, the pairs in the wrong order.
template <class P> int wrong_pairs(P const& p, ordered const& o) {
  int wrong = 0;
  auto at = [&](int node, int instance) { return o.position[static_cast<std::size_t>(o.ig.first[node] + instance)]; };
  for (int id = 0; id < p.c.nodes.size; ++id) {
    pt::node const& n = p.c.nodes[id];
    for (int k = 0; k < n.input_count; ++k) {
      pt::node_value const& v = p.c.values[p.c.input(n, k)];
      pt::node const& made = p.c.nodes[v.node];
      for (int r = 0; r < n.time.size(); ++r)
        for (int w = 0; w < made.time.size(); ++w) {
          bool needed = true;
          for (int m = 0; m < made.time.count; ++m) {
            bool stored = false;
            for (int q = 0; q < v.lay.count; ++q)
              stored = stored || (v.lay.parts[q].in_time() && v.lay.parts[q].mode == made.time.modes[m]);
            const int mine = index_of(n, r, made.time.modes[m]);
            if (stored && mine >= 0 && mine != index_of(made, w, made.time.modes[m])) needed = false;
          }
          if (needed && at(v.node, w) >= at(id, r)) ++wrong;
        }
    }
  }
  // A stored tensor is read before it is renewed.
  for (int id = 0; id < p.c.nodes.size; ++id)
    for (int k = 0; k < p.c.nodes[id].input_count; ++k) {
      const int v = p.c.input(p.c.nodes[id], k), tensor = p.c.values[v].tensor;
      if (p.c.source_value[tensor] != v) continue;
      for (int t = 0; t < p.g.tensors.size; ++t)
        if (p.g.tensors[t].carried == tensor && p.c.renewed_by[tensor] != id)
          for (int r = 0; r < p.c.nodes[id].time.size(); ++r)
            for (int w = 0; w < p.c.nodes[p.c.renewed_by[tensor]].time.size(); ++w)
              if (at(id, r) >= at(p.c.renewed_by[tensor], w)) ++wrong;
    }
  return wrong;
}
}  // namespace

TEST_CASE("random plans: every edge is respected, whatever ops take") {
  const unsigned plans = pt::testing::drawn_sanitized(40, 120);
  int wishes = 0;
  for (unsigned seed = 0; seed < plans; ++seed) {
    std::mt19937 random(seed);
    planned<gpt> p(gpt{{1 + static_cast<int>(seed % 2), seed % 3 != 0}, {}, {}, {}});
    const std::string words = random_plan(p.plan, random, 8).make();
    p.complete();
    INFO("seed ", seed, ": ", words);
    REQUIRE(describe(p.wrong_with) == "");
    wishes += p.plan.wishes().size;
    std::vector<std::int64_t> ticks;
    for (int id = 0; id < p.c.nodes.size; ++id) ticks.push_back(static_cast<std::int64_t>(random() % 1000));
    const ordered o = make_order(p, [&](pt::node const& n) { return ticks[static_cast<std::size_t>(&n - p.c.nodes.begin())]; });
    CHECK(wrong_pairs(p, o) == 0);
    pt::finding first;
    int broken = 0;
    // A wish has a vertex of its own: before it stands all of one moment, behind it all of the other.
    std::vector<int> latest(static_cast<std::size_t>(o.ig.vertices), -1),
        earliest(static_cast<std::size_t>(o.ig.vertices), 1 << 30);
    pt::detail::each_edge(p.g, p.plan, p.c, o.ig, first, [&](int from, int to) {
      if (from < o.ig.instances && to < o.ig.instances)
        broken += o.position[static_cast<std::size_t>(from)] >= o.position[static_cast<std::size_t>(to)];
      else if (from >= o.ig.instances && to >= o.ig.instances)  // a sequence: what is before the one is before the other
        latest[static_cast<std::size_t>(to)] =
            std::max(latest[static_cast<std::size_t>(to)], latest[static_cast<std::size_t>(from)]);
      else if (to >= o.ig.instances)
        latest[static_cast<std::size_t>(to)] =
            std::max(latest[static_cast<std::size_t>(to)], o.position[static_cast<std::size_t>(from)]);
      else
        earliest[static_cast<std::size_t>(from)] =
            std::min(earliest[static_cast<std::size_t>(from)], o.position[static_cast<std::size_t>(to)]);
    });
    CHECK(broken == 0);
    for (int w = o.ig.instances; w < o.ig.vertices; ++w)
      CHECK(latest[static_cast<std::size_t>(w)] < earliest[static_cast<std::size_t>(w)]);
  }
  CHECK(wishes > static_cast<int>(plans / 2));
}

TEST_CASE("the order is the same every time it is made") {
  auto names = [] {
    planned<gpt> p(pt::policy::compose<pt::policy::data_parallel<2>, pt::policy::pipeline<2, pt::schedule::one_f_one_b, 4>>{},
                   {{2}, {}, {}, {}});
    const ordered o = make_order(p, [&](pt::node const& n) { return n.op % 7 + 1; });
    std::vector<std::pair<int, int>> all;
    for (pt::instance const& i : o.order) all.emplace_back(i.node, i.index);
    return all;
  };
  CHECK(names() == names());
}

TEST_CASE("micro-batches are finished one after the other on one device") {
  planned<planned_mlp> p(pt::policy::micro_batches<4>{});
  REQUIRE(describe(p.wrong_with) == "");
  const ordered o = make_order(p, [](pt::node const&) { return 1; });
  // Forward activations of one micro-batch are gone before the next begins: what holds memory down.
  int last = 0, turns = 0;
  for (pt::instance const& i : o.order) {
    pt::node const& n = p.c.nodes[i.node];
    if (n.time.size() == 1 || n.kind != pt::node_kind::compute) continue;
    if (i.index != last) {
      CHECK(i.index == last + 1);
      ++turns;
      last = i.index;
    }
  }
  CHECK(turns == 3);
}
