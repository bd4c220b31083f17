// Timelines and graphs: what is drawn is what the plan says.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>

#include <partita/planning.hpp>
#include <partita/report/graphviz.hpp>
#include <partita/report/timeline_picture.hpp>

namespace {

namespace pt = partita;
struct batch : pt::axis<"batch", 4096> {};
struct in : pt::axis<"in", 256> {};
struct ffn : pt::axis<"ffn", 256> {};
struct out : pt::axis<"class", 256> {};

struct mlp {
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, batch, in>(g, "x");
    auto y = pt::input<pt::i32, batch>(g, "y");
    auto h = pt::relu(pt::linear(x, pt::param<pt::f32, in, ffn>(g, "fc1.weight")));
    return pt::cross_entropy(pt::linear(h, pt::param<pt::f32, ffn, out>(g, "fc2.weight")), y);
  }
};
using model = pt::training<mlp, pt::adamw, pt::clip_norm>;
using parts = pt::policy::compose<pt::policy::data_parallel<2>, pt::policy::pipeline<2, pt::schedule::one_f_one_b, 4>>;

std::size_t count(std::string const& text, std::string const& word) {
  std::size_t n = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("a planned timeline has every device, no lane does two things at once") {
  const auto p = pt::plan<model>::by(parts{});
  pt::completed c;
  REQUIRE(!pt::verify_plan(p.traced(), p, c));
  const pt::lowering shared(p.traced(), p, c);
  const pt::timeline t = pt::planned_timeline(shared, "a <title>");
  CHECK(t.devices == 4);
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> lanes;
  for (pt::timeline_event const& e : t.events) {
    CHECK(e.begin < e.end);
    lanes[{e.device, static_cast<int>(e.where)}].emplace_back(e.begin, e.end);
  }
  for (int d = 0; d < 4; ++d) CHECK(!lanes[{d, 0}].empty());
  for (auto& [lane, spans] : lanes) {
    std::sort(spans.begin(), spans.end());
    for (std::size_t i = 1; i < spans.size(); ++i) CHECK(spans[i].first >= spans[i - 1].second - 1e-12);
  }
  // Replicas do the same at the same time.
  CHECK(lanes[{0, 0}] == lanes[{2, 0}]);

  const auto trace = nlohmann::json::parse(pt::perfetto_json(t));
  CHECK(trace["traceEvents"].size() == t.events.size() + 4 * 3);
  const std::string page = pt::timeline_html(t);
  CHECK(page.find("a &lt;title&gt;") != std::string::npos);
  CHECK(page.find("http") == std::string::npos);  // nothing is fetched
  for (int d = 0; d < 4; ++d) CHECK(page.find("device " + std::to_string(d)) != std::string::npos);
  for (const char* index : {">0</text>", ">1</text>", ">2</text>", ">3</text>"}) CHECK(page.find(index) != std::string::npos);
}

TEST_CASE("graphs name every op, plans every move") {
  const auto p = pt::plan<model>::by(parts{});
  pt::completed c;
  REQUIRE(!pt::verify_plan(p.traced(), p, c));
  const std::string graph = pt::graph_dot(p.traced()), plan = pt::plan_dot(p.traced(), p, c);
  CHECK(count(graph, "[label=\"") >= static_cast<std::size_t>(p.traced().ops.size));
  int moves = 0;
  for (pt::node const& n : c.nodes) moves += n.kind == pt::node_kind::move;
  CHECK(moves > 0);
  CHECK(count(plan, "\\nmove") == static_cast<std::size_t>(moves));
  CHECK(count(plan, "subgraph") >= 3);  // two stages, and what spans both
  CHECK(count(pt::graph_dot(p.traced(), true), "backward") == 0);
}
