// What was measured comes back, and what lies between is between.
#include <doctest/doctest.h>

#include <cstdio>

#include <partita/cost/costs.hpp>
#include <partita/cost/presets.hpp>
#include <partita/cost/profile_file.hpp>
#include <partita/planning.hpp>

namespace pt = partita;

namespace {

struct row : pt::axis<"row", 64> {};
struct in : pt::axis<"in", 32> {};
struct out : pt::axis<"out", 16> {};
struct model {
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, row, in>(g, "x");
    auto y = pt::input<pt::i32, row>(g, "y");
    return pt::cross_entropy(pt::relu(pt::linear(x, pt::param<pt::f32, in, out>(g, "weight"))), y);
  }
};
pt::op_info const& op_of(pt::plan<model> const& p, std::string_view kind) {
  for (pt::op_entry const& e : p.traced().ops)
    if (e.info->kind == kind) return *e.info;
  throw pt::error("no such op");
}
// Letters of the linear: row, in, out.
pt::profile some(pt::op_info const& linear) {
  pt::profile p;
  p.format = "partita profile";
  p.version = pt::profile_file_version;
  p.machine = "made up";
  p.devices = p.threads = 1;
  p.memory = 1e9;
  p.flops = {{"f32", 1e11}};
  p.ops = {{pt::op_key(linear, false), {{{64, 32, 16}, 4e-6}, {{32, 32, 16}, 3e-6}, {{16, 32, 16}, 2.5e-6}}, {}}};
  p.transfers = {{"all_reduce", 2, {{1000, 1e-6}, {64, 5e-7}, {3000, 2e-6}}}, {"copy", 1, {{1000, 1e-7}, {2000, 2e-7}}}};
  return p;
}

}  // namespace

TEST_CASE("samples come back, other pieces lie between, other ops fall to the roofline") {
  const pt::plan<model> p;
  pt::op_info const &linear = op_of(p, "linear"), &relu = op_of(p, "relu");
  const pt::costs plain(pt::preset::dgx_a100(1)), k(pt::preset::dgx_a100(1), some(linear));
  auto seconds = [&](std::size_t rows) {
    const std::size_t extents[pt::max_dims]{rows, 32, 16};
    return k.op(linear, extents);
  };
  CHECK(seconds(64) == 4e-6);
  CHECK(seconds(32) == 3e-6);
  CHECK(seconds(48) > 3e-6);
  CHECK(seconds(48) < 4e-6);
  CHECK(seconds(128) == doctest::Approx(8e-6).epsilon(0.2));
  CHECK(seconds(0) == 0);
  double last = 0;
  for (std::size_t rows = 1; rows < 200; ++rows) {
    CHECK(seconds(rows) > last);
    last = seconds(rows);
  }
  const std::size_t points[pt::max_dims]{64, 16};
  CHECK(k.op(relu, points) == plain.op(relu, points));
  CHECK(k.tile(relu, points) < 0);

  const std::vector<int> pair{0, 1}, four{0, 1, 2, 3};
  CHECK(k.collective(pt::collective_kind::all_reduce, pair, 1000) == 1e-6);
  CHECK(k.collective(pt::collective_kind::all_reduce, pair, 2000) == doctest::Approx(1.5e-6));
  CHECK(k.collective(pt::collective_kind::all_reduce, pair, 5000) == doctest::Approx(3e-6));
  CHECK(k.collective(pt::collective_kind::all_reduce, pair, 8) == 5e-7);
  CHECK(k.collective(pt::collective_kind::all_reduce, four, 1000) ==
        plain.collective(pt::collective_kind::all_reduce, four, 1000));
  CHECK(k.pass_over(1500) == doctest::Approx(1.5e-7));
}

TEST_CASE("profile files keep profiles, and say what is wrong in them") {
  const pt::plan<model> p;
  const pt::profile made = some(op_of(p, "linear"));
  const pt::profile again = pt::profile_from_text(pt::profile_text(made));
  CHECK(pt::profile_text(again) == pt::profile_text(made));
  const std::string path = "partita-test-profile.json";
  made.save(path);
  CHECK(pt::profile::load(path).ops.size() == 1);
  std::remove(path.c_str());

  auto message = [](pt::profile const& x) {
    try {
      pt::profile_from_text(pt::profile_text(x));
    } catch (pt::error const& e) { return std::string(e.what()); }
    return std::string();
  };
  pt::profile wrong = made;
  wrong.version = 7;
  CHECK(message(wrong).find("version 7") != std::string::npos);
  wrong = made;
  wrong.ops[0].samples[1].seconds = 0;
  CHECK(message(wrong).find("a sample of 0") != std::string::npos);
  wrong = made;
  wrong.ops.push_back(wrong.ops[0]);
  CHECK_THROWS_AS(pt::costs(pt::preset::dgx_a100(1), wrong), pt::error);
  CHECK_THROWS_WITH_AS(pt::profile::load("none.json"), "profile file none.json cannot be read: No such file or directory",
                       pt::error);
}
