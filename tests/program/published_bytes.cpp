// Bytes of planned memory beside published formulas, the difference explained to the byte.
//
// Korthikanti et al. 2022, activations kept per transformer layer in f16 (s sequence, b micro-batch, h hidden, a heads, t
// tensor parallel): sbh(34 + 5as/h); with tensor parallelism sbh(10 + 24/t + 5as/(ht)), with sequence parallelism too
// sbh(34/t + 5as/(ht)); recomputed in full 2sbh. Of the 34, 32 are 16 tensors of sbh elements of 2 bytes and 2 are masks of
// dropout; 5as/h are the attention's probabilities, their mask and their softmax. Here elements have 4 bytes, masks are
// drawn again and probabilities made again, so that 64 sbh are left, and what the two are made again from: the log of
// each query's sum (4 abs), mean and deviation of each row of two norms (16 sb).
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include <partita/plan/verify.hpp>
#include <partita/policy/data_parallel.hpp>
#include <partita/policy/recompute.hpp>
#include <partita/policy/sequence_parallel.hpp>
#include <partita/policy/tensor_parallel.hpp>
#include <partita/policy/zero.hpp>
#include <partita/program/check.hpp>
#include <partita/program/lower.hpp>

#include "../support/models/gpt.hpp"

namespace pt = partita;
namespace te = partita::testing;
namespace models = partita::testing::models;

namespace {

template <pt::dtype Type> using training_in = pt::training<models::gpt_of<Type>, pt::adamw, pt::no_clip>;
using policy = std::function<void(pt::plan_base&)>;

struct shape {
  std::size_t s, b, h, a;
};

template <pt::dtype Type = pt::f32> struct lowered {  // the program of rank 0
  using training = training_in<Type>;
  pt::recorder<pt::planning_only, training> g;
  pt::program p;
  std::string wrong;  // with the programs of all ranks
  lowered(int layers, shape const& x, policy const& make, std::size_t vocabulary = 512, bool check = false) {
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
    p = pt::lower(shared, 0);
    std::vector<pt::program> all;
    for (int rank = 0; check && rank < c.devices; ++rank) all.push_back(pt::lower(shared, rank));
    if (check) wrong = pt::check_programs(g, all).words;
  }
  bool is_parameter(int tensor) const { return g.ops[g.tensors[tensor].op].info->source == pt::source_kind::parameter; }
  // A parameter in its type of use: the weights are counted apart.
  bool is_used_parameter(int tensor) const {
    pt::op_entry const& e = g.ops[g.tensors[tensor].op];
    return e.info->kind == "cast" && e.when == pt::pass::forward && is_parameter(g.input(e, 0));
  }
  // What rank 0 keeps from the forward to the backward pass: made by the one, read by the other.
  std::size_t kept() const {
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
      if (b.where == pt::region::arena && !b.from_start && b.first >= 0 && b.first < first_backward && b.last > first_backward &&
          !(b.tensor >= 0 && is_used_parameter(b.tensor)))
        bytes += b.bytes;
    return bytes;
  }
};
// One layer more, so that what stands before the first and behind the last does not count.
template <pt::dtype Type = pt::f32> std::size_t kept_per_layer(shape const& x, policy const& make) {
  return lowered<Type>(4, x, make).kept() - lowered<Type>(3, x, make).kept();
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
  // read them. So does the policy where it is told to; else the gathered ones are kept, 4 sbh (1 - 1/t) bytes more each.
  const std::size_t gathered = 2 * (4 * sbh - 4 * sbh / t);
  CHECK(kept_per_layer(x, [&](pt::plan_base& p) {
          tensor(p);
          along(p);
        }) == 2 * published(16) / t + norms / t + sums / t + gathered);
  pt::policy::sequence_parallel_of again = along;
  again.gather_again = true;
  CHECK(kept_per_layer(x, [&](pt::plan_base& p) {
          tensor(p);
          again(p);
        }) == 2 * published(16) / t + norms / t + sums / t);
  CHECK(kept_per_layer(x, [](pt::plan_base& p) {
          pt::policy::single_device{}(p);
          pt::policy::recompute_of{"block.*"}(p);
        }) == 2 * published(1));
}

// The same in two bytes an element, as published: their formula is ours but for what they keep and we do not (the masks of
// two dropouts, sbh bytes each; probabilities, their mask and their softmax, 5abss), and what we keep instead.
TEST_CASE("activations kept per layer in bf16 are Korthikanti's, with selective recompute too") {
  const shape x{.s = 2048, .b = 4, .h = 6144, .a = 64};
  const std::size_t s = x.s, b = x.b, h = x.h, a = x.a, t = 8, sbh = s * b * h, norms = 16 * s * b, sums = 4 * a * b * s;
  const std::size_t masks = 2 * sbh, attention = 5 * a * b * s * s;
  const std::size_t MiB = 1024 * 1024;
  const std::size_t none = 34 * sbh + attention, tensor_cut = 10 * sbh + 24 * sbh / t + attention / t,
                    both_cut = 34 * sbh / t + attention / t, selective = 10 * sbh + 24 * sbh / t, both_selective = 34 * sbh / t,
                    full = 2 * sbh;
  // Their 22B model, as they print it.
  CHECK(none / MiB == 6752);
  CHECK(tensor_cut / MiB == 1264);
  CHECK(both_cut / MiB == 844);
  CHECK(selective / MiB == 624);
  CHECK(both_selective / MiB == 204);
  CHECK(full / MiB == 96);
  const pt::policy::tensor_parallel_of tensor{static_cast<int>(t)};
  const pt::policy::sequence_parallel_of along{static_cast<int>(t), &pt::axis_of<models::position>::info};
  auto both = [&](pt::plan_base& p) {
    tensor(p);
    along(p);
  };
  auto core_again = [](pt::plan_base& p) { pt::policy::recompute_of{"block.*.attention*"}(p); };
  const std::size_t gathered = 2 * (2 * sbh - 2 * sbh / t);  // of the two norms' outputs, as above
  CHECK(kept_per_layer<pt::bf16>(x, [](pt::plan_base& p) { pt::policy::single_device{}(p); }) ==
        none - masks - attention + norms + sums);
  CHECK(kept_per_layer<pt::bf16>(x, [&](pt::plan_base& p) { tensor(p); }) ==
        tensor_cut - masks - attention / t + norms + sums / t);
  CHECK(kept_per_layer<pt::bf16>(x, both) == both_cut - masks / t - attention / t + norms / t + sums / t + gathered);
  // Attention makes its probabilities again in any case, so that what is kept is their selective row without the policy.
  // With it the sums are made again too.
  CHECK(kept_per_layer<pt::bf16>(x, [&](pt::plan_base& p) { tensor(p); }) == selective - masks + norms + sums / t);
  CHECK(kept_per_layer<pt::bf16>(x, [&](pt::plan_base& p) {
          tensor(p);
          core_again(p);
        }) == selective - masks + norms);
  CHECK(kept_per_layer<pt::bf16>(x, [&](pt::plan_base& p) {
          both(p);
          core_again(p);
        }) == both_selective - masks / t + norms / t + gathered);
  pt::policy::sequence_parallel_of gathered_again = along;
  gathered_again.gather_again = true;
  CHECK(kept_per_layer<pt::bf16>(x, [&](pt::plan_base& p) {
          tensor(p);
          gathered_again(p);
          core_again(p);
        }) == both_selective - masks / t + norms / t);
  CHECK(kept_per_layer<pt::bf16>(x, [](pt::plan_base& p) {
          pt::policy::single_device{}(p);
          pt::policy::recompute_of{"block.*"}(p);
        }) == full);
}

// ZeRO (Rajbhandari et al. 2020, figure 1): n parameters, Adam in mixed precision, N devices; bytes per device of parameters and
// gradients in two bytes each and of 12 for the optimizer (a copy in f32 and two moments): 16n; optimizer cut 4n + 12n/N;
// gradients too 2n + 14n/N; parameters too 16n/N. For 7.5B on 64: 120, 31.4, 16.6 and 1.9 GB.
// Here the copy in f32 is the parameter, and what is used is made from it; gradients reach the update in f32.
TEST_CASE("bytes of ZeRO's stages at 64 devices, 7.5B parameters") {
  const shape x{.s = 64, .b = 64, .h = 4096, .a = 32};
  constexpr std::size_t N = 64;
  struct bytes {
    std::size_t n = 0, stored = 0, used = 0, gathered = 0, gradients = 0;
  };
  auto of = [&](int stage) {
    const lowered<pt::bf16> l(
        37, x,
        [&](pt::plan_base& p) {
          pt::policy::data_parallel_of{static_cast<int>(N)}(p);
          if (stage > 0) pt::policy::zero_of{stage, static_cast<int>(N)}(p);
        },
        12'800);
    bytes r;
    for (pt::op_entry const& e : l.g.ops)
      if (e.info->source == pt::source_kind::parameter) {
        std::size_t elements = 1;
        for (int axis = 0; axis < e.info->outputs[0].rank; ++axis) elements *= l.g.extent(e.info->outputs[0].axes[axis]);
        r.n += elements;
      }
    for (pt::outside const& o : l.p.stored) {
      if (l.g.ops[l.g.tensors[o.tensor].op].info->source == pt::source_kind::constant) continue;
      std::size_t size = 4;
      for (int axis = 0; axis < o.rank; ++axis) size *= o.extents[axis];
      r.stored += size;
    }
    // Parameters in their type of use: all that are converted (those of biases are given back after their forward op), and
    // the most that is gathered at one time.
    std::vector<std::size_t> copies(l.p.instructions.size());
    for (pt::buffer const& b : l.p.buffers)
      if (b.where == pt::region::arena && b.first >= 0 && b.tensor >= 0 && l.is_used_parameter(b.tensor)) {
        const pt::instruction_kind made = l.p.instructions[static_cast<std::size_t>(b.first)].kind;
        const bool arrives = made != pt::instruction_kind::compute && made != pt::instruction_kind::chain;
        if (!arrives) r.used += b.bytes;
        for (int at = b.first; arrives && at <= b.last; ++at) copies[static_cast<std::size_t>(at)] += b.bytes;
      }
    for (std::size_t now : copies) r.gathered = std::max(r.gathered, now);
    // The gradients as they reach the update.
    std::vector<std::size_t> gradient(static_cast<std::size_t>(l.g.tensors.size));
    for (pt::buffer const& b : l.p.buffers)
      if (b.tensor >= 0)
        gradient[static_cast<std::size_t>(b.tensor)] = std::max(gradient[static_cast<std::size_t>(b.tensor)], b.bytes);
    for (pt::op_entry const& e : l.g.ops)
      if (e.info->source == pt::source_kind::parameter)
        r.gradients += gradient[static_cast<std::size_t>(l.g.tensors[e.first_output].gradient)];
    return r;
  };
  bytes each[4];
  for (int stage = 0; stage < 4; ++stage) each[stage] = of(stage);
  const std::size_t n = each[0].n;
  CHECK(std::abs(static_cast<double>(n) / 7.5e9 - 1) < 0.01);
  auto published = [&](int stage) {
    return stage == 0 ? 16 * n : stage == 1 ? 4 * n + 12 * n / N : stage == 2 ? 2 * n + 14 * n / N : 16 * n / N;
  };
  const double printed[]{120, 31.4, 16.6, 1.9};
  for (int stage = 0; stage < 4; ++stage)
    CHECK(std::abs(static_cast<double>(published(stage)) * 1e-9 / printed[stage] - 1) < 0.02);
  auto all = [&](int stage) { return each[stage].stored + each[stage].used + each[stage].gradients; };
  // The parameter in f32 is what the optimizer's copy is: stages 1 and 2 leave it whole, 4n (1 - 1/N) more. Gradients in f32:
  // 2n more, or 2n/N. Stage 1 sums gradients whole, in bf16: what is made of that for the update is a piece in f32.
  CHECK(each[0].stored == 12 * n);
  CHECK(each[0].gradients == 4 * n);
  CHECK(all(0) == published(0) + 2 * n);
  for (int stage : {0, 1, 2}) CHECK(each[stage].used == 2 * n);
  CHECK(each[1].stored == 4 * n + 8 * n / N);
  CHECK(each[1].gradients == 4 * n / N);
  CHECK(all(1) == published(1) + 4 * (n - n / N) - 2 * n + 4 * n / N);  // the sums, 2n there, are not counted here
  CHECK(each[2].stored == 4 * n + 8 * n / N);
  CHECK(each[2].gradients == 4 * n / N);
  CHECK(all(2) == published(2) + 4 * (n - n / N) + 2 * n / N);
  CHECK(each[3].stored == 12 * n / N);
  CHECK(each[3].gradients == 4 * n / N);
  CHECK(each[3].used == 2 * n / N);
  CHECK(all(3) == published(3) + 2 * n / N);
  // What stage 3 has gathered at a time: no more than what three ops read.
  for (int stage = 0; stage < 3; ++stage) CHECK(each[stage].gathered == 0);
  CHECK(each[3].gathered > 0);
  CHECK(each[3].gathered <= 3 * 2 * 4 * x.h * x.h);
}

TEST_CASE("ZeRO of a model in bf16 computes what its graph says") {
  for (int stage : {1, 2, 3})
    for (int replicas : {2, 3})
      for (int micro : {1, 2}) {
        const lowered<pt::bf16> l(
            2, {.s = 5, .b = 7, .h = 12, .a = 3},
            [&](pt::plan_base& p) {
              pt::policy::data_parallel_of{replicas}(p);
              pt::policy::micro_batches_of{micro}(p);
              pt::policy::zero_of{stage, replicas}(p);
            },
            13, true);
        CHECK(l.wrong == "");
      }
}

// Adam in f32: 16 bytes a parameter (itself, its gradient, two moments); with the optimizer over d replicas 8 + 8/d.
TEST_CASE("bytes of parameters, gradients and optimizer are those of a distributed optimizer") {
  const shape x{.s = 32, .b = 8, .h = 64, .a = 4};
  auto bytes = [&](policy const& make) {
    const lowered<> l(2, x, make);
    pt::program const& p = l.p;
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
