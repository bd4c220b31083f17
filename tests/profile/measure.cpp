// Profiles of a small model: every op, cut as plans cut it, and no time that is nothing.
#include <doctest/doctest.h>

#include <set>

#include <partita/cost/cluster_file.hpp>
#include <partita/cost/costs.hpp>
#include <partita/cost/profile_file.hpp>
#include <partita/planning.hpp>
#include <partita/profile/host.hpp>
#include <partita/simulate/simulate.hpp>

namespace pt = partita;

namespace {

struct sample : pt::axis<"sample"> {};
struct position : pt::axis<"position", 6> {};
struct word : pt::axis<"word", 11> {};
struct hidden : pt::axis<"hidden", 12> {};
struct head : pt::axis<"head", 3> {};
struct width : pt::axis<"width", 4> {};
struct model {
  constexpr auto operator()(auto& g) const {
    auto tokens = pt::input<pt::i32, sample, position>(g, "tokens");
    auto targets = pt::input<pt::i32, sample, position>(g, "targets");
    auto table = pt::param<pt::f32, word, hidden>(g, "table");
    auto x = pt::layer_norm(pt::embedding(tokens, table), pt::param<pt::f32, hidden>(g, "scale", pt::ones));
    auto q = pt::linear(x, pt::param<pt::f32, hidden, head, width>(g, "q.weight"));
    auto y = pt::linear(pt::causal_attention(q, q, q), pt::param<pt::f32, head, width, hidden>(g, "out.weight"));
    return pt::cross_entropy(pt::linear(pt::dropout(pt::gelu(x + y), 0.1), table), targets);
  }
};
using training = pt::training<model, pt::adamw, pt::clip_norm>;

}  // namespace

TEST_CASE("a profile holds every op of the model") {
  pt::measure_options how;
  how.repetitions = 1;
  how.most_batches = 4;
  how.pool = 1 << 20;
  for (int devices : {1, 2}) {
    const pt::profile p = pt::measure<training>(pt::cpu{.devices = devices, .threads = 1}, {}, how, pt::bind<sample>(5));
    CHECK(p.devices == devices);
    CHECK(pt::profile_text(pt::profile_from_text(pt::profile_text(p))) == pt::profile_text(p));
    std::set<std::string> keys;
    for (pt::op_profile const& o : p.ops) keys.insert(o.op);
    auto g = std::make_unique<pt::recorder<pt::planning_only, training>>();
    g->bindings.push(pt::bind<sample>(5));
    pt::trace(*g, training{});
    const pt::costs k(pt::host_cluster(p), p);
    for (pt::op_entry const& e : g->ops) {
      if (e.info->source != pt::source_kind::none || e.info->is_view || e.info->variadic) continue;
      CAPTURE(e.info->kind);
      CHECK(keys.count(pt::op_key(*e.info, false)) == 1);
      CHECK(keys.count(pt::op_key(*e.info, true)) == (e.info->accumulates ? 1u : 0u));
    }
    // The batch in 1, 2 and 4 pieces, alone and beside one and two halves.
    std::set<std::vector<int>> linear;
    for (pt::op_profile const& o : p.ops) {
      for (auto const* list : {&o.samples, &o.tiles})
        for (pt::op_sample const& s : *list) CHECK(s.seconds > 0);
      if (o.op.rfind("linear f32[abc] f32[cde]", 0) == 0)
        for (pt::op_sample const& s : o.samples) linear.insert(s.extents);
    }
    CHECK(linear.count({5, 6, 12, 3, 4}) == 1);
    CHECK(linear.count({3, 6, 12, 3, 4}) == 1);
    CHECK(linear.count({2, 3, 12, 2, 4}) == 1);
    std::set<std::string> transfers;
    for (pt::transfer_profile const& t : p.transfers) transfers.insert(t.kind);
    CHECK(transfers.count("copy") == 1);
    CHECK(transfers.count("all_reduce") == (devices > 1 ? 1u : 0u));
    CHECK(transfers.count("send") == (devices > 1 ? 1u : 0u));
    // This machine as a cluster, good for a simulation of what was not measured too.
    const pt::cluster host = pt::host_cluster(p);
    CHECK(host.size() == devices);
    CHECK(host.kinds[0].flops.at("f32") > 1e6);
    CHECK(pt::cluster_text(pt::cluster_from_text(pt::cluster_text(host))) == pt::cluster_text(host));
    const auto plan = pt::plan<training>::by(pt::policy::data_parallel_of{devices}, {}, pt::bind<sample>(5));
    CHECK(pt::simulate(plan, k).seconds > 0);
    CHECK(pt::simulate(plan, host).seconds > 0);
  }
}

TEST_CASE("no op is begun when the time is over") {
  pt::measure_options how;
  how.seconds = 0;
  how.repetitions = 1;
  how.pool = 1 << 16;
  const pt::profile p = pt::measure<training>(pt::cpu{.devices = 1, .threads = 1}, {}, how, pt::bind<sample>(2));
  CHECK(p.ops.empty());
  CHECK_THROWS_AS(pt::measure<training>(pt::cpu{}, {}, how), pt::error);  // an axis has no extent
}
