// Pipelines of equal stages take the time, and hold the micro-batches, that their formulas say.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include <partita/cost/presets.hpp>
#include <partita/planning.hpp>
#include <partita/simulate/simulate.hpp>

namespace pt = partita;

namespace {

struct sample : pt::axis<"sample", 240> {};
struct feature : pt::axis<"feature", 16> {};
struct label : pt::axis<"class", 4> {};

struct tower {
  int layers = 4;
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, sample, feature>(g, "x");
    auto y = pt::input<pt::i32, sample>(g, "y");
    auto scale = pt::param<pt::f32, feature>(g, "first.scale", pt::ones);
    auto h = pt::bias(x, scale);
    for (int l = 0; l < layers; ++l) {
      auto s = pt::scope(g, "block", l);
      h = pt::relu(pt::rename<out, feature>(pt::linear(h, pt::param<pt::f32, feature, out>(g, "weight", pt::normal{0.1}))));
    }
    auto s = pt::scope(g, "head");
    return pt::cross_entropy(pt::linear(h, pt::param<pt::f32, feature, label>(g, "weight", pt::normal{0.1})), y);
  }
  struct out : pt::axis<"out", 16> {};
};

// Block l is stage l; the rest stands beside its neighbours.
struct stages {
  int count, micro_batches;
  void (*order)(pt::plan_base&, int, int);
  void operator()(auto& plan) const {
    plan.op_trans(plan.ops(), pt::cut_axis{plan.batch_axis(), micro_batches, pt::mode_name("micro")});
    for (pt::op_ref op : plan.ops()) {
      const std::string name(op.name().view());
      int stage = count - 1;
      if (name.rfind("block.", 0) == 0) stage = std::stoi(name.substr(6));
      else if (name == "x" || name.rfind("first", 0) == 0) stage = 0;
      plan.op_assign(op, pt::at{"stage", stage, count});
    }
    order(plan, count, micro_batches);
  }
};

struct result {
  pt::simulation s;
  std::vector<int> held;  // by stage: the most forward outputs of its relu at once
};
result run(stages const& how, double forward, double backward) {
  auto plan = pt::plan<tower>::by(how, {tower{how.count}});
  pt::graph_data const& g = plan.traced();
  auto seconds_of = [&](int op) {
    pt::op_entry const& e = g.ops[op];
    if (g.ops[e.origin].info->kind != "relu") return 0.0;
    return e.when == pt::pass::forward ? forward : backward;
  };
  pt::simulate_options options;
  options.seconds = [&](pt::program const& p, pt::instruction const& i) {
    return i.kind == pt::instruction_kind::compute ? seconds_of(p.computes[static_cast<std::size_t>(i.payload)].op) : 0.0;
  };
  pt::lowering_options lowering;
  lowering.fuse = false;
  lowering.seconds = [&](pt::node const& n) { return n.kind == pt::node_kind::compute ? seconds_of(n.op) : 0.0; };
  result r{pt::simulate<tower>(plan, pt::costs(pt::preset::dgx_a100(2)), options, lowering), {}};
  for (int rank = 0; rank < how.count; ++rank) {
    pt::program const& p = r.s.of_rank(rank).what;
    std::vector<int> live(p.instructions.size() + 1);
    for (pt::buffer const& x : p.buffers) {
      if (x.tensor < 0 || x.first < 0) continue;
      pt::op_entry const& e = g.ops[g.tensors[x.tensor].op];
      if (e.info->kind != "relu" || e.when != pt::pass::forward || g.name(g.tensors[x.tensor].op).view() != "block." + std::to_string(rank) + ".relu") continue;
      for (int at = x.first; at <= x.last; ++at) ++live[static_cast<std::size_t>(at)];
    }
    r.held.push_back(*std::max_element(live.begin(), live.end()));
  }
  return r;
}

}  // namespace

TEST_CASE("GPipe and 1F1B: m + p - 1 slots, a bubble of (p - 1) / (m + p - 1)") {
  const double f = 1, b = 2;
  for (int p : {1, 2, 4, 7})
    for (int m : {2, 5, 8, 24})
      for (auto order : {&pt::schedule::gpipe::order, &pt::schedule::one_f_one_b::order}) {
        const result r = run({p, m, order}, f, b);
        CAPTURE(p);
        CAPTURE(m);
        CHECK(r.s.seconds == doctest::Approx((m + p - 1) * (f + b)).epsilon(1e-12));
        CHECK(r.s.parts.bubble / r.s.seconds == doctest::Approx((p - 1.0) / (m + p - 1)).epsilon(1e-12));
        CHECK(r.s.parts.exposed == doctest::Approx(0));
        for (int rank = 0; rank < p; ++rank) CHECK(r.s.of_rank(rank).parts.compute == doctest::Approx(m * (f + b)));
        const bool one = order == &pt::schedule::one_f_one_b::order;
        for (int i = 0; i < p; ++i) CHECK(r.held[static_cast<std::size_t>(i)] == (one ? std::min(m, p - i) : m));
      }
}
