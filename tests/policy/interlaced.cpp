// The interlaced pipeline: what is spread, what stands on stages, in which order, and for how long one waits.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <set>

#include "../support/simulated_order.hpp"

namespace pt = partita;
using namespace pt::testing;

namespace {
struct batch : pt::axis<"batch", 48> {};
struct features : pt::axis<"features", 4> {};
struct words : pt::axis<"words", 1024> {};
struct inner : pt::axis<"inner", 512> {};

// An embedding, `layers` linears, the logits by the same table.
struct chain {
  int layers = 4;
  bool decoder = false;  // a second embedding of the same table half way
  bool wide = false;     // layers of two products, which together have more parameters than the table
  constexpr auto operator()(auto& g) const {
    auto tokens = pt::input<pt::i32, batch>(g, "tokens");
    auto targets = pt::input<pt::i32, batch>(g, "targets");
    auto table = pt::param<pt::f32, words, features>(g, "table.weight");
    auto h = pt::embedding(tokens, table);
    for (int l = 0; l < layers; ++l) {
      auto s = pt::scope(g, "layer", l);
      if (decoder && l == layers / 2) h = h + pt::embedding(targets, table);
      if (wide) {
        auto norm = pt::layer_norm(h, pt::param<pt::f32, features>(g, "scale", pt::ones),
                                   pt::param<pt::f32, features>(g, "bias", pt::zeros));
        h = h + pt::linear(pt::linear(norm, pt::param<pt::f32, features, inner>(g, "up.weight")),
                           pt::param<pt::f32, inner, features>(g, "down.weight"));
      } else h = pt::linear(h, pt::param<pt::f32, features, features>(g, "fc.weight"));
    }
    return pt::cross_entropy(pt::linear(h, table), targets);
  }
};
using training = pt::training<chain>;
using plan = planned<training>;
plan interlaced(int stages, int micro, bool in_step, bool decoder = false) {
  return plan(pt::policy::interlaced_pipeline_of{stages, micro, nullptr, in_step},
              training{{stages, decoder, false}, {}, {}, {}});
}
constexpr std::int64_t unit = 100000;
enum part { embedding, layer, logits, other };
part part_of(plan const& p, pt::node const& n) {
  if (n.kind != pt::node_kind::compute) return other;
  const std::string_view kind = p.g.ops[n.op].info->kind;
  const auto name = p.g.name(n.op);
  if (kind == "embedding" || kind == "embedding.grad") return embedding;
  if (kind != "linear") return other;
  return name.view() == "table" ? logits : layer;
}
}  // namespace

TEST_CASE("the table is spread over all devices, the layers stand on stages") {
  for (bool decoder : {false, true}) {
    const plan p = interlaced(4, 4, decoder, decoder);
    REQUIRE(describe(p.wrong_with) == "");
    CHECK(p.c.devices == 4);
    const int table = p.find("table.weight", "param");
    CHECK(p.words_of_op(table) == "words/4:stage");
    const pt::placement everywhere = p.c.nodes[p.c.node_of_op[table]].over.where;
    std::set<int> stages;
    for (int op = 0; op < p.g.ops.size; ++op) {
      if (p.c.node_of_op[op] < 0) continue;
      pt::node const& n = p.c.nodes[p.c.node_of_op[op]];
      const part what = part_of(p, n);
      if (what == embedding || what == logits) CHECK(n.over.where == everywhere);
      if (what == layer) {
        CHECK(n.over.where.size() == 1);
        stages.insert(n.over.where.device_at(0));
      }
    }
    CHECK(stages == std::set{0, 1, 2, 3});
  }
}

// What all devices do together adds its own time and nothing else to the m + p - 1 forward and backward turns of 1F1B.
TEST_CASE("nobody waits longer than in 1F1B") {
  for (auto [stages, micro] : {std::pair{4, 8}, {2, 4}, {3, 7}, {4, 4}, {4, 2}, {6, 9}})
    for (auto [backward, embed, head] : {std::array{1, 1, 1}, {2, 3, 2}, {3, 1, 7}})
      for (bool in_step : {false, true}) {
        const plan p = interlaced(stages, micro, in_step);
        REQUIRE(describe(p.wrong_with) == "");
        const std::string shape = shape_of(stages, micro);
        INFO(shape, ", in step: ", in_step);
        const std::int64_t of_part[]{embed * unit, unit, head * unit, 1};
        const simulated s = run_in_order(p, [&, backward = backward](pt::node const& n) {
          return of_part[part_of(p, n)] * (part_of(p, n) == layer && p.g.ops[n.op].when == pt::pass::backward ? backward : 1);
        });
        const std::int64_t wanted = unit * ((1 + backward) * (micro + stages - 1) + 2 * micro * (embed + head));
        CHECK(s.makespan >= wanted);
        if (in_step || backward == 1) CHECK(s.makespan < wanted + unit / 10);
        else CHECK(s.makespan >= wanted + (micro - 1) / 2 * unit);  // slots are as long as the longer turn
      }
}

TEST_CASE("what a stage holds, and logits of one micro-batch alone") {
  for (auto [stages, micro] : {std::pair{4, 8}, {2, 5}, {3, 7}, {4, 3}})
    for (bool decoder : {false, true})
      for (bool in_step : {false, true}) {
        const plan p = interlaced(stages, micro, in_step, decoder);
        REQUIRE(describe(p.wrong_with) == "");
        const simulated s = run_in_order(p, [&](pt::node const& n) { return part_of(p, n) == other ? 1 : unit; });
        std::vector<ran> turns = s.all;
        std::stable_sort(turns.begin(), turns.end(), [](ran const& a, ran const& b) { return a.begin < b.begin; });
        std::vector<int> held(static_cast<std::size_t>(stages), 0), most = held;
        int of_logits = 0, seen = 0;
        for (ran const& r : turns) {
          pt::node const& n = p.c.nodes[r.node];
          const int more = r.when == pt::pass::forward ? 1 : -1;
          if (const part what = part_of(p, n); what == layer) {
            const std::size_t d = static_cast<std::size_t>(r.device);
            held[d] += more;
            most[d] = std::max(most[d], held[d]);
            ++seen;
          } else if (what == logits) {
            of_logits += more;
            CHECK(of_logits <= 1);
          }
        }
        CHECK(seen == 2 * stages * micro);
        for (int d = 0; d < stages; ++d)
          CHECK(most[static_cast<std::size_t>(d)] == std::min(micro, in_step ? 2 * (stages - d) - 1 : stages - d));
      }
}

TEST_CASE("what is spread is the axis of the largest parameter, however many smaller ones another axis has") {
  const plan p(pt::policy::interlaced_pipeline_of{4, 4}, training{{8, false, true}, {}, {}, {}});
  REQUIRE(describe(p.wrong_with) == "");
  CHECK(p.words_of_op(p.find("table.weight", "param")) == "words/4:stage");
  CHECK(p.words_of_op(p.find("layer.0.up.weight", "param")).find("inner") == std::string::npos);
}

// A backward turn sends before it makes the gradients of weights, which fill what the next one would wait.
TEST_CASE("with backward turns of two halves a step takes no more than 1F1B's slots") {
  for (int stages : {2, 3, 4, 5, 7, 8})
    for (int micro : {8, 20}) {
      const plan p = interlaced(stages, micro, false);
      const simulated s = run_in_order(p, [&](pt::node const& n) {
        const part what = part_of(p, n);
        const bool weights = n.kind == pt::node_kind::compute && p.g.ops[n.op].info->kind == "linear.weight";
        return what == layer || (weights && p.g.name(n.op).view() != "table") ? unit : what == other ? 1 : unit / 2;
      });
      const std::string shape = shape_of(stages, micro);
      INFO(shape);
      CHECK(s.makespan < unit * 3 * (micro + stages - 1) + 2 * micro * unit + unit / 10);
    }
}

TEST_CASE("an axis may be named; without one to spread it is said") {
  const plan named(pt::policy::interlaced_pipeline<2, 4, features>{}, training{{2}, {}, {}, {}});
  REQUIRE(describe(named.wrong_with).find("features") != std::string::npos);  // a square weight has it under two letters
  const plan words_named(pt::policy::interlaced_pipeline<2, 4, words>{}, training{{2}, {}, {}, {}});
  CHECK(describe(words_named.wrong_with) == "");
  const plan many(pt::policy::interlaced_pipeline_of{2000, 1}, training{{2}, {}, {}, {}});  // more stages than words
  CHECK(describe(many.wrong_with).find("finds no axis to spread") != std::string::npos);
  CHECK(describe(plan(pt::policy::interlaced_pipeline_of{0, 1}).wrong_with).find("less than one stage") != std::string::npos);
  CHECK(describe(plan(pt::policy::interlaced_pipeline_of{2, 0}).wrong_with).find("less than one micro-batch") !=
        std::string::npos);
}

namespace {
constexpr chain two{2};
}
static_assert(pt::verify<two, pt::policy::interlaced_pipeline<2, 3>>());
static_assert(pt::verify<two, pt::policy::interlaced_pipeline<2, 3, words, true>>());
static_assert(pt::verify<two, pt::policy::compose<pt::policy::data_parallel<2>, pt::policy::interlaced_pipeline<2, 2>,
                                                  pt::policy::zero<1, 2>>>());
