// What expert parallelism cuts, and what moves between devices because of it.
#include <doctest/doctest.h>

#include <partita/policy/expert_parallel.hpp>
#include <partita/policy/pipeline.hpp>

#include "../support/planned.hpp"

namespace pt = partita;
using namespace pt::testing;
using namespace planned_axes;

namespace {
struct expert : pt::axis<"expert", 4> {};
struct slot : pt::axis<"slot", 3> {};

struct mixture {
  constexpr auto operator()(auto& g) const {
    auto x = pt::linear(pt::input<pt::f32, sample, position, in>(g, "x"), pt::param<pt::f32, in, hidden>(g, "in.weight"));
    auto router = pt::param<pt::f32, hidden, expert>(g, "router.weight");
    auto bias = pt::param<pt::f32, expert>(g, "router.bias");
    auto probabilities = pt::softmax<expert>(pt::linear(x, router, bias));
    auto gates = pt::top_k<expert>(probabilities, 2);
    auto slots = pt::assign_slots<slot>(gates);
    auto w1 = pt::param<pt::f32, expert, hidden, ffn>(g, "up.weight");
    auto h = pt::gelu(pt::einsum<"... e c h, e h f -> ... e c f">(pt::dispatch(x, slots), w1));
    auto w2 = pt::param<pt::f32, expert, ffn, hidden>(g, "down.weight");
    auto z = pt::einsum<"... e c f, e f h -> ... e c h">(h, w2);
    auto y = pt::combine(z, gates, slots);
    return pt::outputs(pt::loss("loss", pt::mean(y * y)), pt::loss("balance", pt::mean(pt::load_balance(probabilities, gates))));
  }
};
}  // namespace

TEST_CASE("experts are cut along their axis, all else along the batch") {
  planned<mixture> p(pt::policy::expert_parallel<4, expert>{});
  REQUIRE(describe(p.wrong_with) == "");
  CHECK(p.c.devices == 4);
  auto cut = [&](const char* name, const char* kind) { return p.words_of_op(p.find(name, kind)); };
  CHECK(cut("up.weight", "param") == "expert/4:expert");
  CHECK(cut("down.weight", "param") == "expert/4:expert");
  CHECK(cut("up", "einsum") == "expert/4:expert");
  CHECK(cut("gelu", "gelu") == "expert/4:expert");
  CHECK(cut("down", "einsum") == "expert/4:expert");
  CHECK(cut("router.weight", "param") == "");
  CHECK(cut("router.bias", "param") == "");
  for (auto [name, kind] : {std::pair{"router", "linear"},
                            {"router", "bias"},
                            {"softmax", "softmax"},
                            {"top_k", "top_k"},
                            {"assign_slots", "assign_slots"},
                            {"dispatch", "dispatch"},
                            {"combine", "combine"}})
    CHECK(cut(name, kind) == "sample/4:expert");
}

TEST_CASE("tokens go to their experts and back by an all-to-all, forwards and backwards") {
  planned<mixture> p(pt::policy::expert_parallel<4, expert>{});
  auto forward = p.count_moves(pt::pass::forward), backward = p.count_moves(pt::pass::backward);
  CHECK(forward["all_to_all(expert)"] == 2);
  CHECK(backward["all_to_all(expert)"] == 2);
  // Experts hold all tokens of their own: their gradients are whole. All others are summed over the devices.
  int sums = 0;
  for (moved const& m : p.moves())
    if (m.parameter_gradient) {
      CHECK((m.op == "router" || m.op == "in"));
      ++sums;
    }
  CHECK(sums == 3);
}

TEST_CASE("inside data parallelism an expert's replicas are summed over that dimension alone") {
  planned<mixture> p(pt::policy::compose<pt::policy::data_parallel<2>, pt::policy::expert_parallel<2, expert>>{});
  REQUIRE(describe(p.wrong_with) == "");
  CHECK(p.c.devices == 4);
  CHECK(p.count_moves(pt::pass::forward)["all_to_all(expert)"] == 2);
  bool found = false;
  for (moved const& m : p.moves())
    if (m.parameter_gradient && m.op == "up") {
      CHECK(m.what == "all_reduce(data)");
      found = true;
    }
  CHECK(found);
}

TEST_CASE("micro-batches that experts are composed with stay micro-batches") {
  planned<mixture> p(pt::policy::compose<pt::policy::micro_batches<2>, pt::policy::expert_parallel<4, expert>>{});
  REQUIRE(describe(p.wrong_with) == "");
  for (moved const& m : p.moves())
    if (m.what.find("all_to_all") != std::string::npos) CHECK(m.times == 2);
}

TEST_CASE("a pipeline behind the experts says that it has to stand before them") {
  using staged = pt::policy::pipeline<2, pt::schedule::one_f_one_b, 2>;
  using experts = pt::policy::expert_parallel<2, expert>;
  planned<mixture> before(pt::policy::compose<staged, experts>{}), behind(pt::policy::compose<experts, staged>{});
  CHECK(describe(before.wrong_with) == "");
  CHECK(describe(behind.wrong_with).find("compose expert_parallel and the like after it") != std::string::npos);
}

static_assert(pt::verify<mixture, pt::policy::expert_parallel<2, expert>>());
