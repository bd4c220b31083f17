// Plan files: a round trip gives the same plan and programs; what a person may get wrong is refused in words.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <string>
#include <vector>

#include <partita/plan/digest.hpp>
#include <partita/plan/file.hpp>
#include <partita/planning.hpp>
#include <partita/program/lower.hpp>

namespace {

namespace pt = partita;
struct batch : pt::axis<"batch"> {};
struct in : pt::axis<"in", 12> {};
struct ffn : pt::axis<"ffn", 7> {};
struct out : pt::axis<"class", 5> {};

struct mlp {
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, batch, in>(g, "x");
    auto y = pt::input<pt::i32, batch>(g, "y");
    auto h = pt::relu(pt::linear(x, pt::param<pt::f32, in, ffn>(g, "fc1.weight")));
    return pt::cross_entropy(pt::linear(h, pt::param<pt::f32, ffn, out>(g, "fc2.weight")), y);
  }
};
using model = pt::training<mlp, pt::adamw, pt::clip_norm>;
using parts = pt::policy::compose<pt::policy::data_parallel<2>, pt::policy::tensor_parallel<2>,
                                  pt::policy::pipeline<2, pt::schedule::one_f_one_b, 2>, pt::policy::zero<1, 2>>;

std::vector<std::uint64_t> digests(pt::plan<model> const& p) {
  pt::completed c;
  CHECK(describe(pt::verify_plan(p.traced(), p, c)) == "");
  pt::lowering shared(p.traced(), p, c);
  std::vector<std::uint64_t> all{shared.digest(), pt::digest_of(p.traced(), p, c)};
  for (int rank = 0; rank < c.devices; ++rank) {
    const pt::program q = pt::lower(shared, rank);
    all.push_back(q.arena_bytes);
    all.push_back(q.state_bytes);
    for (pt::instruction const& i : q.instructions)
      all.push_back(static_cast<std::uint64_t>(i.node) << 32 | static_cast<std::uint64_t>(i.wait));
  }
  return all;
}
std::string refused(std::string text, std::string const& from, std::string const& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  try {
    (void)pt::plan_from_text<model>(text);
  } catch (pt::error const& e) { return e.what(); }
  return "accepted";
}

}  // namespace

TEST_CASE("a plan goes to a file and comes back the same") {
  auto plain = pt::plan<model>::by(parts{}, {}, pt::bind<batch>(8));
  const std::string text = pt::plan_text(plain);
  pt::plan<model> back = pt::plan_from_text<model>(text);
  CHECK(pt::plan_text(back) == text);
  CHECK(digests(back) == digests(plain));

  const std::string path = "plan_of_a_test.json";
  pt::save_plan(plain, path);
  CHECK(pt::plan_text(pt::load_plan<model>(path)) == text);
  std::remove(path.c_str());
}

TEST_CASE("plans that differ have different digests, whatever differs") {
  static constexpr int sizes[]{5, 3};
  const std::function<void(pt::plan<model>&)> changes[]{
      [](pt::plan<model>& p) {
        p.op_trans(p.ops(), pt::split<batch>{4, "data"}), p.op_assign(p.ops(), pt::grid{{"data", 4}});
      },
      [](pt::plan<model>& p) {
        p.op_trans(p.ops(), pt::split<batch>{2, "data"}), p.op_assign(p.ops(), pt::grid{{"data", 2}});
      },
      [](pt::plan<model>& p) {
        p.op_trans(p.ops(), pt::split<batch>{2, "data", sizes}), p.op_assign(p.ops(), pt::grid{{"data", 2}});
      },
      [](pt::plan<model>& p) {
        p.op_trans(p.ops(), pt::split<batch>{2, "micro"}), p.op_assign(p.ops(), pt::grid{});
      },
      [](pt::plan<model>& p) {
        p.op_trans(p.ops(pt::with<ffn>), pt::split<ffn>{2, "tensor"}), p.op_assign(p.ops(), pt::grid{{"tensor", 2}});
      },
  };
  std::vector<std::uint64_t> found;
  auto keep = [&](auto const& change, std::size_t extent) {
    pt::plan<model> p(model{}, pt::bind<batch>(extent));
    change(p);
    pt::completed c;
    CHECK(describe(pt::verify_plan(p.traced(), p, c)) == "");
    found.push_back(pt::digest_of(p.traced(), p, c));
  };
  for (auto const& change : changes) keep(change, 8);
  keep(changes[0], 9);  // the same cuts of a longer batch
  std::sort(found.begin(), found.end());
  CHECK(std::adjacent_find(found.begin(), found.end()) == found.end());
}

TEST_CASE("sizes, replicas, phases, orders and priorities survive") {
  auto p = pt::plan<model>(model{}, pt::bind<batch>(8));
  static constexpr int sizes[]{5, 2};
  p.op_trans(p.ops(pt::with<ffn>), pt::split<ffn>{2, "tensor", sizes});
  p.op_trans(p.ops("fc2"), pt::replicate{2, "again"});
  p.op_trans(p.ops("fc1"), pt::split<batch>{2, "micro"});
  p.op_trans(p.accumulates("fc1.weight"), pt::split<in>{2, "tensor"});
  p.op_trans(p.moves(p.ops("fc2"), p.ops("row_max")), pt::split<out>{2, "far", {2, 3}});
  p.op_assign(p.moves(p.ops("fc2"), p.ops("row_max")), pt::grid{{"far", 2}});
  p.op_assign(p.moves(p.ops("fc2"), p.ops("row_max")), pt::device_list{{4, 1}});
  p.op_assign(p.ops("fc2"), pt::device_list{{3, 0}});
  p.op_order(p.moves(p.ops("fc2"), p.ops("row_max")), *p.ops("fc2", pt::pass::backward).begin());
  p.op_trans(p.ops("relu"), pt::folded(pt::skewed(pt::split<batch>{3, "turn"}, "tensor")));
  p.op_assign(p.ops(), pt::grid{{"tensor", 2}});
  p.op_order(pt::moment{}.of(pt::pass::forward), pt::moment{}.of(pt::pass::update));
  p.op_assign(p.ops("fc1"), pt::phase{"half", 1});
  p.op_order(pt::moment{}.at("half", 1), pt::priority{-3});
  pt::sequence links(p);
  for (pt::pass when : {pt::pass::forward, pt::pass::backward, pt::pass::update}) links.then(pt::moment{}.at("half", 1).of(when));
  const std::string text = pt::plan_text(p);
  for (const char* key : {"\"sizes\"", "\"fold\": true", "\"skew\": \"tensor\"", "\"phases\"", "\"links\": true",
                          "\"priority\": -3", "\"what\": \"accumulate\"", "\"to\": \"row_max\"", "\"devices\""})
    CHECK(text.find(key) != std::string::npos);
  pt::plan<model> back = pt::plan_from_text<model>(text);
  CHECK(pt::plan_text(back) == text);
  CHECK(digests(back) == digests(p));
}

TEST_CASE("what is wrong in a file is said with its place") {
  auto p = pt::plan<model>::by(parts{}, {}, pt::bind<batch>(8));
  const std::string text = pt::plan_text(p);
  auto says = [&](std::string const& from, std::string const& to, std::string const& words) {
    const std::string message = refused(text, from, to);
    INFO(message);
    CHECK(message.find(words) != std::string::npos);
  };
  says("\"version\": 3", "\"version\": 7", "version 7 is not known");
  says("\"format\": \"partita plan\"", "\"format\": \"other\"", "format is 'other'");
  says("\"pieces\": 2", "\"pieces\": 3", "3 pieces under the mode \"data\", and its grid has a dimension of that name of 2");
  says("\"pieces\": 2", "\"pieces\": 0", "pieces is 0");
  says("\"pieces\": 2", "\"pieces\": \"two\"", "ops[0].cuts[0].pieces: a whole number is expected");
  says("\"pieces\": 2", "\"pieces\": 99999999999", "out of range");
  says("\"axis\": \"batch\"", "\"axis\": \"bat\"", "the op has no axis 'bat'");
  says("\"mode\"", "\"made\"", "ops[0].cuts[0]: 'mode' is missing");
  says("\"mode\": \"data\"", "\"colour\": 1, \"mode\": \"data\"", "'colour' is not known here");
  says("\"extent\": 2", "\"extent\": -2", "extent is -2");
  says("\"at\": 0", "\"at\": 5", "at is 5, the dimension has coordinates 0 to 1");
  says("\"name\": \"fc1.weight\"", "\"name\": \"fc9.weight\"", "the model has no op named 'fc9.weight'");
  says("\"name\": \"fc1.weight\"", "\"name\": \"fc2.weight\"", "stands twice");
  says("\"pass\": \"forward\"", "\"pass\": \"sideways\"", "pass is 'sideways'");
  says("\"stage\": 0", "\"stage\": -1", "moments[0].at.stage: -1 is below 0");
  says("\"micro\": 0", "\"a name of more than twenty-four characters\": 0", "is longer than 24 characters");
  says("\"orders\":", "\"nodes\": [{\"what\": \"jump\", \"of\": \"x\"}], \"orders\":",
       "nodes[0]: what is 'jump', not move or accumulate");
  says("\"orders\":", "\"nodes\": [{\"what\": \"move\", \"of\": \"z\"}], \"orders\":", "nodes[0]: the model has no op named 'z'");
  says("\"orders\":", "\"nodes\": [{\"what\": \"move\", \"of\": \"x\", \"output\": 1}], \"orders\":",
       "nodes[0]: output is 1, the op has 1");
  says("\"orders\":", "\"nodes\": [{\"what\": \"move\", \"of\": \"x\", \"to\": \"relu\"}], \"orders\":",
       "nodes[0]: op 'relu' does not read it");
  says(
      "\"orders\":",
      "\"nodes\": [{\"what\": \"move\", \"of\": \"x\", \"cuts\": [{\"mode\": \"data\", \"axis\": \"class\", \"pieces\": 2}]}], \"orders\":",
      "nodes[0].cuts[0]: the tensor has no axis 'class'");
  says("\"grid\": [", "\"devices\": [0, 0], \"grid\": [", "device 0 stands twice");
  const std::size_t ops = text.find("\"ops\":"), orders = text.find("\"orders\":");
  says(text.substr(ops, orders - ops), "\"ops\": [], ", "op x is put on no device; the plan may be of another model");
  says("{", "{{", "not JSON: parse error at line 1");
  says("\"batch\": 8", "\"batch\": 1", "is cut into");
  CHECK_THROWS_WITH_AS((void)pt::load_plan<model>("no such file"),
                       "plan file no such file cannot be read: No such file or directory", pt::error);
  CHECK_THROWS_WITH_AS((void)pt::load_plan<model>("."), "plan file . cannot be read: Is a directory", pt::error);
}

TEST_CASE("a mode's name that does not fit is refused, not cut off") {
  auto p = pt::plan<model>(model{}, pt::bind<batch>(8));
  p.op_trans(p.ops(), pt::split<batch>{2, "a name of far more than twenty-four characters"});
  p.op_assign(p.ops(), pt::grid{});
  CHECK(pt::describe(p.check()).find("more than 24 characters") != std::string::npos);
}
