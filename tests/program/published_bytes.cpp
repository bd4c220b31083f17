// Bytes of planned memory beside published formulas, the difference explained to the byte.
//
// Korthikanti et al. 2022, activations kept per transformer layer in f16 (s sequence, b micro-batch, h hidden, a heads, t
// tensor parallel): sbh(34 + 5as/h); with tensor parallelism sbh(10 + 24/t + 5as/(ht)), with sequence parallelism too
// sbh(34/t + 5as/(ht)); recomputed in full 2sbh. Of the 34, 32 are 16 tensors of sbh elements of 2 bytes and 2 are masks of
// dropout; 5as/h are the attention's probabilities, their mask and their softmax. Here elements have 4 bytes, masks are
// drawn again and probabilities made again, so that 64 sbh are left, and what the two are made again from: the log of
// each query's sum (4 abs), mean and deviation of each row of two norms (16 sb).
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include <partita/plan/verify.hpp>
#include <partita/policy/data_parallel.hpp>
#include <partita/policy/recompute.hpp>
#include <partita/policy/sequence_parallel.hpp>
#include <partita/policy/tensor_parallel.hpp>
#include <partita/policy/zero.hpp>
#include <partita/program/lower.hpp>

#include "../support/models/gpt.hpp"

namespace pt = partita;
namespace te = partita::testing;
namespace models = partita::testing::models;

namespace {

using training = pt::training<models::gpt, pt::adamw, pt::no_clip>;
using policy = std::function<void(pt::plan_base&)>;

struct shape {
  std::size_t s, b, h, a;
};

struct lowered {
  pt::recorder<pt::planning_only, training> g;
  std::vector<pt::program> programs;
  lowered(int layers, shape const& x, policy const& make, std::size_t vocabulary = 512) {
    te::models::sizes n;
    n.samples = x.b;
    n.positions = x.s;
    n.vocabulary = vocabulary;
    n.hidden = x.h;
    n.heads = x.a;
    n.width = x.h / x.a;
    n.inner = 4 * x.h;
    for (pt::binding const& b : n.extents()) g.bindings.push(b);
    pt::trace(g, training{.model = {.layers = layers}, .optimizer = {}, .clip = {}, .frozen = {}});
    pt::plan_base plan(g);
    make(plan);
    pt::completed c;
    REQUIRE(describe(pt::verify_plan(g, plan, c)) == "");
    const pt::lowering shared(g, plan, c);
    for (int rank = 0; rank < c.devices; ++rank) programs.push_back(pt::lower(shared, rank));
  }
  // What rank 0 keeps from the forward to the backward pass: made by the one, read by the other.
  std::size_t kept() const {
    pt::program const& p = programs[0];
    auto pass_of = [&](pt::instruction const& i) {
      if (i.kind == pt::instruction_kind::compute) return g.ops[p.computes[static_cast<std::size_t>(i.payload)].op].when;
      if (i.kind == pt::instruction_kind::chain)
        return g
            .ops[p
                     .computes[static_cast<std::size_t>(
                         p.links[static_cast<std::size_t>(p.chains[static_cast<std::size_t>(i.payload)].first_link)].compute)]
                     .op]
            .when;
      return pt::pass::update;
    };
    int first_backward = -1;
    for (std::size_t i = 0; i < p.instructions.size() && first_backward < 0; ++i)
      if (pass_of(p.instructions[i]) == pt::pass::backward) first_backward = static_cast<int>(i);
    std::size_t bytes = 0;
    for (pt::buffer const& b : p.buffers)
      if (b.where == pt::region::arena && !b.from_start && b.first >= 0 && b.first < first_backward && b.last > first_backward)
        bytes += b.bytes;
    return bytes;
  }
};
// One layer more, so that what stands before the first and behind the last does not count.
std::size_t kept_per_layer(shape const& x, policy const& make) {
  return lowered(4, x, make).kept() - lowered(3, x, make).kept();
}

}  // namespace

TEST_CASE("activations kept per layer are Korthikanti's") {
  const shape x{.s = 2048, .b = 4, .h = 6144, .a = 64};  // their 22B model
  const std::size_t s = x.s, b = x.b, h = x.h, a = x.a, t = 8, sbh = s * b * h, norms = 16 * s * b, sums = 4 * a * b * s;
  auto published = [&](std::size_t sixteenths) {
    return 2 * sixteenths * sbh;
  };  // without masks and probabilities, 2 bytes an element
  const pt::policy::tensor_parallel_of tensor{static_cast<int>(t)};
  const pt::policy::sequence_parallel_of along{static_cast<int>(t), &pt::axis_of<models::position>::info};
  CHECK(kept_per_layer(x, [](pt::plan_base& p) { pt::policy::single_device{}(p); }) == 2 * published(16) + norms + sums);
  CHECK(kept_per_layer(x, [&](pt::plan_base& p) { tensor(p); }) == 2 * (2 * 4 * sbh + 2 * 12 * sbh / t) + norms + sums / t);
  // Megatron keeps each device's part of the two norms' outputs and gathers them again for the gradients of the weights that
  // read them; here the gathered ones are kept, 4 sbh (1 - 1/t) bytes more each.
  const std::size_t gathered = 2 * (4 * sbh - 4 * sbh / t);
  CHECK(kept_per_layer(x, [&](pt::plan_base& p) {
          tensor(p);
          along(p);
        }) == 2 * published(16) / t + norms / t + sums / t + gathered);
  CHECK(kept_per_layer(x, [](pt::plan_base& p) {
          pt::policy::single_device{}(p);
          pt::policy::recompute_of{"block.*"}(p);
        }) == 2 * published(1));
}

// Adam in f32: 16 bytes a parameter (itself, its gradient, two moments); with the optimizer over d replicas 8 + 8/d.
TEST_CASE("bytes of parameters, gradients and optimizer are those of a distributed optimizer") {
  const shape x{.s = 32, .b = 8, .h = 64, .a = 4};
  auto bytes = [&](policy const& make) {
    const lowered l(2, x, make);
    pt::program const& p = l.programs[0];
    std::size_t parameters = 0, all = 0;
    for (pt::op_entry const& e : l.g.ops)
      if (e.info->source == pt::source_kind::parameter) {
        std::size_t n = 1;
        for (int axis = 0; axis < e.info->outputs[0].rank; ++axis) n *= l.g.extent(e.info->outputs[0].axes[axis]);
        parameters += n;
      }
    for (pt::outside const& o : p.stored) {
      if (l.g.ops[l.g.tensors[o.tensor].op].info->source == pt::source_kind::constant) continue;
      std::size_t n = 4;
      for (int axis = 0; axis < o.rank; ++axis) n *= o.extents[axis];
      all += n;
    }
    return std::pair{parameters, all};
  };
  const auto [n, one] = bytes([](pt::plan_base& p) { pt::policy::single_device{}(p); });
  CHECK(one == 12 * n);  // and 4 for the gradient, which lives in the arena until its update
  for (std::size_t d : {2u, 4u, 8u}) {
    const auto [m, each] = bytes([&](pt::plan_base& p) {
      pt::policy::data_parallel_of{static_cast<int>(d)}(p);
      pt::policy::zero_of{1, static_cast<int>(d)}(p);
    });
    CHECK(m == n);
    CHECK(each == 4 * n + 8 * n / d);
    const auto [k, whole_cut] = bytes([&](pt::plan_base& p) {
      pt::policy::data_parallel_of{static_cast<int>(d)}(p);
      pt::policy::zero_of{3, static_cast<int>(d)}(p);
    });
    CHECK(k == n);
    CHECK(whole_cut == 12 * n / d);
  }
}
