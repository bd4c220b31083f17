// The page about a plan, and the table on it.
#include <doctest/doctest.h>

#include <limits>

#include <partita/cost/presets.hpp>
#include <partita/planning.hpp>
#include <partita/report/plan_report.hpp>
#include <partita/simulate/simulate.hpp>

namespace {
namespace pt = partita;
struct batch : pt::axis<"batch", 64> {};
struct width : pt::axis<"width", 256> {};
struct inner : pt::axis<"inner", 512> {};

struct tower {
  int layers = 5;
  constexpr auto operator()(auto& g) const {
    auto x = pt::relu(pt::linear(pt::input<pt::f32, batch, width>(g, "x"), pt::param<pt::f32, width, width>(g, "first<.weight")));
    for (int l = 0; l < layers; ++l) {
      auto block = pt::scope(g, "block", l);
      x = x + pt::linear(pt::relu(pt::linear(x, pt::param<pt::f32, width, inner>(g, "up.weight"))),
                         pt::param<pt::f32, inner, width>(g, "down.weight"));
    }
    return pt::mean(x);
  }
};
using model = pt::training<tower, pt::adamw>;
using pt::policy::compose;
using policy = compose<pt::policy::data_parallel<2>, pt::policy::tensor_parallel<2>,
                       pt::policy::pipeline<2, pt::schedule::one_f_one_b, 4>, pt::policy::recompute<>, pt::policy::zero<1, 2>>;

std::size_t count(std::string const& text, std::string const& word) {
  std::size_t n = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}
}  // namespace

TEST_CASE("layers that are planned alike are one entry of the table") {
  const auto p = pt::plan<model>::by(policy{});
  pt::completed c;
  REQUIRE(!pt::verify_plan(p.traced(), p, c));
  const std::vector<pt::planned_layers> table = pt::plan_table(p.traced(), p, c);
  int layers = 0, ops = 0;
  for (pt::planned_layers const& l : table) {
    layers += l.alone ? 0 : l.count;
    ops += l.count * static_cast<int>(l.ops.size());
  }
  int wanted = 0;
  for (int op = 0; op < p.traced().ops.size; ++op) {
    pt::op_info const& f = *p.traced().ops[op].info;
    wanted += p.traced().ops[op].when == pt::pass::forward && f.source == pt::source_kind::none && !f.is_view && !f.is_output;
  }
  CHECK(ops == wanted);
  CHECK(layers >= 5);  // a layer that two stages share is listed for each
  REQUIRE(table.size() >= 3);
  CHECK(table[0].alone);
  CHECK(table[1].first == "block.0");
  CHECK(table[1].count > 1);
  bool found = false;
  for (pt::planned_op const& o : table[1].ops)
    if (o.name == "up" && o.kind == "linear") {
      found = true;
      CHECK(o.again);
      CHECK(o.cuts == "batch 2 over data, inner 2 over tensor, batch 4 in time (micro)");
      CHECK(o.weight == "inner 2 over tensor");
      CHECK(o.state.find("over data") != std::string::npos);
    }
  CHECK(found);
  CHECK(table[0].devices != table.back().devices);
}

TEST_CASE("the page about a plan") {
  const auto p = pt::plan<model>::by(policy{});
  const pt::simulation s = pt::simulate<model>(p, pt::preset::dgx_a100());
  const std::string page =
      pt::plan_report({.title = "a <plan>",
                       .simulated = &s,
                       .facts = {{"model", "five layers"}},
                       .why = "memory",
                       .considered = {{"data 8", 2 * s.seconds, std::size_t{1} << 30, false, "does not fit"}},
                       .lower_bound = s.seconds / 2});
  CHECK(page.find("a &lt;plan&gt;") != std::string::npos);
  CHECK(page.find("first&lt;") != std::string::npos);
  CHECK(page.find("http") == std::string::npos);  // nothing is fetched
  CHECK(page.find("2.00 times") != std::string::npos);
  CHECK(count(page, "class=\"event\"") > 20);
  CHECK(count(page, ": peak ") == s.classes.size());
  CHECK(count(page, "<svg") == count(page, "</svg>"));
  CHECK(count(page, "<table>") == count(page, "</table>"));
  CHECK(count(page, "<details") == count(page, "</details>"));

  const pt::timeline t = pt::simulated_timeline(s);
  for (pt::timeline_event const& e : t.events) {
    CHECK(e.begin <= e.end);
    CHECK(e.end <= s.seconds * (1 + 1e-9));
  }
  pt::search_report found;
  found.configurations = 120;
  found.bound_by = "stage 1 works longest";
  found.of_stages = {{.blocks = 3, .outer = 2, .inner = 4, .seconds = 0.5}, {.first_block = 3, .blocks = 1, .memory = 3 << 20}};
  found.considered = {{2, 8, 1, "1F1B", 1.25, 1.5}, {1, 16, 4, "", 1.75, 0}};
  const std::string of_search = pt::plan_report({.simulated = &s, .searched = &found});
  for (const char* part :
       {"stage 1 works longest", "120 configurations", ">0 to 2<", ">3 to 3<", ">2 x 4<", ">500.00 ms<", ">3.00 MiB<",
        "2 stages of 8 devices, 1 micro-batch, 1F1B</td><td class=\"n\">1.50 s</td><td class=\"n\">1.25 s<",
        "1 stage of 16 devices, 4 micro-batches</td><td class=\"n\"></td><td class=\"n\">1.75 s<"})
    CHECK_MESSAGE(of_search.find(part) != std::string::npos, part);
  CHECK(page.find("What the search looked at") == std::string::npos);
  const std::string ablated = pt::plan_report({.simulated = &s,
                                               .searched = &found,
                                               .ablations = {{"co-shard", true, true, 1.5, 1.25, 3 << 20},
                                                             {"ZeRO", true, false, std::numeric_limits<double>::infinity(),
                                                              std::numeric_limits<double>::infinity(), 5 << 20},
                                                             {"blocks that run again", false, true, 1, 1, 1 << 20},
                                                             {"pipeline stages", true, true, 1.001, 1, 3 << 20},
                                                             {"ZeRO 2 and 3", true, true, 0.9, 0.9, 3 << 20}},
                                               .found_seconds = 1});
  for (
      const char* part :
      {">co-shard</td><td class=\"n\">1.50 s</td><td class=\"n\">50.0% more</td><td class=\"n\">1.25 s</td><td class=\"n\">3.00 MiB<",
       "no plan fits</span></td><td class=\"n\"></td><td class=\"n\">5.00 MiB would do<", "<td class=\"n muted\">not used<",
       "no more than 0.1%, if anything", ">900.00 ms</td><td class=\"n\">faster, where the constraints allow it<"})
    CHECK_MESSAGE(ablated.find(part) != std::string::npos, part);
  CHECK(of_search.find("What each freedom is worth") == std::string::npos);

  pt::simulation without = s;
  without.lowered = nullptr;
  CHECK_THROWS_WITH_AS(pt::plan_report({.simulated = &without}),
                       "plan_report: a simulation made by pt::simulate is needed, which knows the plan's names", pt::error);
}
