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

// Block l is stage l, or, of several chunks, one after another round the stages; the rest stands beside its neighbours.
struct stages {
  int count, micro_batches;
  void (*order)(pt::plan_base&, int, int);
  int chunks = 1;
  void operator()(auto& plan) const {
    plan.op_trans(plan.ops(), pt::cut_axis{plan.batch_axis(), micro_batches, pt::mode_name("micro")});
    for (pt::op_ref op : plan.ops()) {
      const std::string name(op.name().view());
      int part = count * chunks - 1;
      if (name.rfind("block.", 0) == 0) part = std::stoi(name.substr(6));
      else if (name == "x" || name.rfind("first", 0) == 0) part = 0;
      plan.op_assign(op, pt::at{"stage", part % count, count});
      if (chunks > 1) plan.op_assign(op, pt::phase{"chunk", part / count});
    }
    order(plan, count, micro_batches);
  }
};

struct result {
  pt::simulation s;
  std::vector<int> held;  // by stage: the most forward outputs of its relu at once
};
// `weights`: of the backward pass, what the gradients of weights take. `reuse`: memory is used again, and what arrives in it
// waits for the one op, here as long as a turn, that used it last.
result run(stages const& how, double forward, double backward, double weights = 0, bool reuse = true) {
  auto plan = pt::plan<tower>::by(how, {tower{how.count * how.chunks}});
  pt::graph_data const& g = plan.traced();
  auto seconds_of = [&](int op) {
    pt::op_entry const& e = g.ops[op];
    if (e.info->kind == "linear.weight" && g.name(op).view().rfind("block.", 0) == 0) return weights;
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
  const pt::costs costs(pt::preset::dgx_a100(2));
  pt::completed done;
  REQUIRE_FALSE(pt::verify_plan(g, plan, done));
  const pt::lowering shared(g, plan, done, lowering);
  const pt::rank_classes classes = pt::find_rank_classes(shared, costs);
  std::vector<pt::program> programs;
  for (pt::rank_class const& c : classes.all) {
    programs.push_back(pt::lower(shared, c.rank));
    if (reuse) continue;
    for (pt::buffer& x : programs.back().buffers) x.to_end = x.to_end || x.first >= 0;
    pt::plan_memory(programs.back());
  }
  result r{pt::simulate(shared, costs, classes, std::move(programs), options), {}};
  for (int rank = 0; rank < how.count; ++rank) {
    pt::program const& p = r.s.of_rank(rank).what;
    std::vector<int> live(p.instructions.size() + 1);
    for (pt::buffer const& x : p.buffers) {
      if (x.tensor < 0 || x.first < 0) continue;
      pt::op_entry const& e = g.ops[g.tensors[x.tensor].op];
      if (e.info->kind != "relu" || e.when != pt::pass::forward ||
          g.name(g.tensors[x.tensor].op).view() != "block." + std::to_string(rank) + ".relu")
        continue;
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

namespace {
// From a device's first work to its last, less the work.
double idle_inside(pt::simulated_class const& c) {
  double begin = 1e9, end = 0;
  for (std::size_t i = 0; i < c.times.size(); ++i) {
    if (c.what.instructions[i].where != pt::lane::compute || c.times[i].end <= c.times[i].begin) continue;
    begin = std::min(begin, c.times[i].begin);
    end = std::max(end, c.times[i].end);
  }
  return end - begin - c.parts.compute;
}
}  // namespace

TEST_CASE("interleaved: the bubble of 1F1B, divided by the chunks of a stage") {
  for (int p : {2, 4})
    for (int rounds : {1, 2, 4}) {
      const int m = p * rounds;
      for (int v : {2, 3}) {
        stages how{p, m, nullptr, v};
        how.order = v == 2 ? &pt::schedule::interleaved<2>::order : &pt::schedule::interleaved<3>::order;
        const result r = run(how, 1, 2, 0, false);
        CAPTURE(p);
        CAPTURE(m);
        CAPTURE(v);
        // Of a device: v chunks of m micro-batches, and (p - 1) turns of one chunk.
        CHECK(r.s.seconds == doctest::Approx((v * m + p - 1) * 3.0).epsilon(1e-12));
        CHECK(r.s.parts.bubble / r.s.parts.compute == doctest::Approx((p - 1.0) / (v * m)).epsilon(1e-12));
      }
    }
}

TEST_CASE("zero bubble: H1 leaves (p - 1)(TF + TB - TW), H2 (p - 1)(TF + TB - 2 TW)") {
  for (int p : {2, 4, 6})
    for (int m : {2 * p, 3 * p + 1}) {
      CAPTURE(p);
      CAPTURE(m);
      auto idle = [&](auto order, double f, double b, double w) {
        const result r = run({p, m, order}, f, b, w, false);
        double most = 0;
        for (int rank = 0; rank < p; ++rank) most = std::max(most, idle_inside(r.s.of_rank(rank)));
        return most;
      };
      CHECK(idle(&pt::schedule::zero_bubble<pt::schedule::h1>::order, 1, 1, 1) == doctest::Approx(p - 1.0));
      CHECK(idle(&pt::schedule::zero_bubble<pt::schedule::h2>::order, 1, 1, 1) == doctest::Approx(0));
    }
}
