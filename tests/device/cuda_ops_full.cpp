// Ops whose kernels on a GPU are others than on the CPU, run one by one and compared with the CPU: on the pretended machine,
// and in tests/cuda, where nvcc compiles this, on a GPU.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include <partita/ops/concatenate.hpp>
#include <partita/ops/einsum.hpp>
#include <partita/ops/experts.hpp>
#include <partita/ops/routing.hpp>
#include <partita/ops/slice.hpp>
#include <partita/ops/top_k.hpp>
#include <partita/ops/transpose.hpp>

#include "../support/kernel_on_gpu.hpp"
#include "../support/pieces.hpp"

namespace pt = partita;
using namespace pt::testing;

namespace {
using pt::bf16;
using pt::f32;
using pt::f64;
using pt::i32;
struct batch : pt::axis<"batch", 2> {};
struct query : pt::axis<"query", 7> {};
struct key : pt::axis<"key", 9> {};
struct head : pt::axis<"head", 3> {};
struct width : pt::axis<"width", 5> {};
struct other : pt::axis<"other", 11> {};
struct joined : pt::axis<"joined", 16> {};
struct single : pt::axis<"single", 1> {};
struct many : pt::axis<"many", 300> {};
struct expert : pt::axis<"expert", 4> {};
struct slot : pt::axis<"slot", 3> {};
struct eight : pt::axis<"eight", 8> {};
struct large : pt::axis<"large", 520> {};

using gpu::kernel_run;
// The whole op.
kernel_run run_on_gpu(lone_op const& op, pt::on_cuda::launcher const& launcher, bool accumulate = false, double before = 0) {
  const std::size_t none[pt::max_dims]{};
  return gpu::run_kernel(op, launcher, none, op.wholes, accumulate, accumulate ? before : -77, 0);
}

// As on the CPU; in bf16 both round once. Returns what was run.
template <class Op, class... In>
kernel_run check_gpu(pt::attributes const& given = {}, std::function<double(int, std::size_t)> const& fill = number) {
  const auto op = lone_op::make<Op, In...>(given, {}, fill);
  INFO(op.info.kind, " ", Op::annotation);
  const double tolerance = pt::is_narrow(op.info.outputs[0].type) ? 0x1p-7 : 2e-6;
  const auto launcher = gpu::backend::launch<Op, In::type...>();
  const kernel_run run = run_on_gpu(op, launcher);
  CHECK(run.mistake == "");
  check_same(op.run_whole(), run.outputs, tolerance, "on a GPU");
  if (op.info.accumulates)
    check_same(op.run_whole(true, 0.5), run_on_gpu(op, launcher, true, 0.5).outputs, 2 * tolerance, "added on a GPU");
  return run;
}
// How many products it is; 0: it is made element by element, in one launch.
template <pt::fixed_string Text, class A, class B> int products() {
  const kernel_run run = check_gpu<pt::einsum_op<Text>, A, B>();
  CHECK((run.products > 0 ? run.launches == 0 : run.launches == 1));
  return run.products;
}
std::function<double(int, std::size_t)> with_slots(int input, double last = 5) {
  return [=](int i, std::size_t at) {
    return i != input ? number(i, at) : at % 5 == 3 ? -1.0 : at == 7 ? last : static_cast<double>(at * 3 % 7);
  };
}
}  // namespace

TEST_CASE("einsum is products of a library where strides allow, at once along one axis, and elements elsewhere") {
  CHECK(products<"m k, k n -> m n", pt::like<f32, query, width>, pt::like<f32, width, other>>() == 1);
  CHECK(products<"k m, n k -> m n", pt::like<f32, width, query>, pt::like<f32, other, width>>() == 1);
  CHECK(products<"m k, k n -> n m", pt::like<f64, query, width>, pt::like<f64, width, other>>() == 1);
  CHECK(products<"a, b -> b a", pt::like<f32, query>, pt::like<f32, width>>() == 1);
  CHECK(products<"m k, k n -> m n", pt::like<f32, query, single>, pt::like<f32, single, other>>() == 1);
  CHECK(products<"... m k, ... k n -> ... m n", pt::like<f32, batch, head, query, width>,
                 pt::like<f32, batch, head, width, other>>() == 1);
  // Heads at once, for each of the batch.
  CHECK(products<"b s n d, b t n d -> b n s t", pt::like<f32, batch, query, head, width>,
                 pt::like<f32, batch, key, head, width>>() == 2);
  CHECK(
      products<"b n s t, b t n d -> b s n d", pt::like<f32, batch, head, query, key>, pt::like<f32, batch, key, head, width>>() ==
      2);
  CHECK(products<"b n s t, b t n d -> b s n d", pt::like<bf16, batch, head, query, key>,
                 pt::like<bf16, batch, key, head, width>>() == 2);
  // The linear of experts, and the gradient of its weight, which sums over the batch.
  CHECK(products<"... e c h, e h f -> ... e c f", pt::like<f32, batch, expert, slot, other>,
                 pt::like<f32, expert, other, width>>() == 2);
  CHECK(products<"... e c h, ... e c f -> e h f", pt::like<f32, batch, expert, slot, other>,
                 pt::like<f32, batch, expert, slot, width>>() == 2);
  CHECK(products<"a x b y, y b c -> c x a", pt::like<f32, query, batch, width, head>, pt::like<f32, head, width, other>>() > 1);
  CHECK(products<"i b j, b i c -> c j", pt::like<f32, query, head, width>, pt::like<f32, head, query, other>>() > 1);
  CHECK(products<"a b, a b -> a b", pt::like<f32, query, width>, pt::like<f32, query, width>>() == 0);
  CHECK(products<"a b, a b -> a", pt::like<bf16, query, width>, pt::like<bf16, query, width>>() == 0);
  CHECK(products<"i k c, j k c -> i j c", pt::like<f32, query, width, head>, pt::like<f32, other, width, head>>() == 0);
  // So many small products that launching them would take longer than the work.
  CHECK(products<"x m k, y n k -> x y m n", pt::like<f32, many, other, head>, pt::like<f32, key, batch, head>>() == 0);
}

TEST_CASE("slices, concatenations and transpositions") {
  check_gpu<pt::slice_op<head, 1, 1>, pt::like<f32, batch, query, width>>({{3}});
  check_gpu<pt::slice_op<head, 1, 0>, pt::like<bf16, batch, query>>({{4, 0}});
  check_gpu<pt::slice_grad_op<query, 1, 1>, pt::like<f32, batch, head, width>>({{2}});
  check_gpu<pt::slice_grad_op<query, 0, 0>, pt::like<f64, head>>({{0, 1}});
  check_gpu<pt::concatenate_op<joined, 1, 1>, pt::like<f32, batch, query, head>, pt::like<f32, batch, key, head>>();
  check_gpu<pt::concatenate_op<joined, 0, 0>, pt::like<bf16, width>, pt::like<bf16, other>>();
  // What packs of 16 bytes divide, and what they do not: rows, their parts, where a part begins.
  check_gpu<pt::slice_op<head, 1, 1>, pt::like<f32, batch, query, eight>>({{3}});
  check_gpu<pt::slice_op<eight, 1, 0>, pt::like<bf16, batch, joined>>({{8, 0}});
  check_gpu<pt::slice_op<eight, 1, 0>, pt::like<bf16, batch, joined>>({{4, 0}});
  check_gpu<pt::slice_grad_op<query, 1, 1>, pt::like<bf16, batch, head, eight>>({{2}});
  check_gpu<pt::slice_grad_op<joined, 1, 0>, pt::like<f32, batch, eight>>({{0, 1}});
  check_gpu<pt::concatenate_op<joined, 1, 1>, pt::like<bf16, batch, query, eight>, pt::like<bf16, batch, key, eight>>();
  check_gpu<pt::concatenate_op<joined, 1, 0>, pt::like<f32, batch, eight>, pt::like<f32, batch, eight>>();
  check_gpu<pt::transpose_op<1, 0, 2>, pt::like<bf16, batch, query, head, eight>>();
  check_gpu<pt::transpose_op<0, 2, 1, 3>, pt::like<f32, batch, query, head, joined>>();
  check_gpu<pt::transpose_op<1, 0>, pt::like<f32, batch, query, width>>();
  check_gpu<pt::transpose_op<2, 0, 1>, pt::like<bf16, batch, query, width, head>>();
  check_gpu<pt::transpose_op<0, 2, 1, 3>, pt::like<f32, batch, query, width, head>>();
}

TEST_CASE("a mixture's choices, tokens to slots and back") {
  check_gpu<pt::top_k_op<0>, pt::like<f32, batch, query, expert>>({{2, -1}});
  check_gpu<pt::top_k_gradient_op<1>, pt::like<bf16, batch, expert, query>, pt::like<bf16, batch, expert, query>>({{2}});
  auto gates = [](int i, std::size_t at) { return at * 7 % 3 == 0 ? 0 : number(i, at) + 2; };
  check_gpu<pt::assign_slots_op<slot, 2>, pt::like<f32, batch, query, expert>>({}, gates);
  check_gpu<pt::load_balance_op, pt::like<f32, batch, query, expert>, pt::like<f32, batch, query, expert>>({}, gates);
  check_gpu<pt::load_balance_gradient_op, pt::like<f32, batch>, pt::like<bf16, batch, query, expert>>({}, gates);
  check_gpu<pt::dispatch_op, pt::like<f32, batch, query, many>, pt::like<i32, batch, expert, slot>>({}, with_slots(1));
  check_gpu<pt::dispatch_gradient_op, pt::like<f32, batch, expert, slot, many>, pt::like<i32, batch, expert, slot>,
            pt::like<f32, batch, query, many>>({}, with_slots(1));
  check_gpu<pt::dispatch_gradient_op, pt::like<bf16, batch, expert, slot, width>, pt::like<i32, batch, expert, slot>,
            pt::like<bf16, batch, query, width>>({}, with_slots(1));
  check_gpu<pt::dispatch_op, pt::like<bf16, batch, query, large>, pt::like<i32, batch, expert, slot>>({}, with_slots(1));
  check_gpu<pt::dispatch_gradient_op, pt::like<bf16, batch, expert, slot, large>, pt::like<i32, batch, expert, slot>,
            pt::like<bf16, batch, query, large>>({}, with_slots(1));
  check_gpu<pt::combine_op, pt::like<bf16, batch, expert, slot, large>, pt::like<bf16, batch, query, expert>,
            pt::like<i32, batch, expert, slot>>({}, with_slots(2));
  check_gpu<pt::combine_gradient_op, pt::like<f32, batch, query, eight>, pt::like<f32, batch, query, expert>,
            pt::like<i32, batch, expert, slot>>({}, with_slots(2));
  check_gpu<pt::combine_gates_gradient_op, pt::like<bf16, batch, query, large>, pt::like<bf16, batch, expert, slot, large>,
            pt::like<i32, batch, expert, slot>>({}, with_slots(2));
  using dy = pt::like<f32, batch, query, width>;
  using of_gates = pt::like<f32, batch, query, expert>;
  using slots = pt::like<i32, batch, expert, slot>;
  using z = pt::like<f32, batch, expert, slot, width>;
  check_gpu<pt::combine_op, z, of_gates, slots>({}, with_slots(2));
  check_gpu<pt::combine_op, pt::like<bf16, batch, expert, slot, width>, pt::like<bf16, batch, query, expert>, slots>(
      {}, with_slots(2));
  check_gpu<pt::combine_gradient_op, dy, of_gates, slots>({}, with_slots(2));
  check_gpu<pt::combine_gates_gradient_op, dy, z, slots>({}, with_slots(2));
}

TEST_CASE("mistakes that the CPU throws are written down for the host, in the same words") {
  auto mistake = [](lone_op const& op, pt::on_cuda::launcher const& launcher) {
    const kernel_run run = run_on_gpu(op, launcher);
    CHECK_THROWS_WITH_AS(op.run_whole(), run.mistake.c_str(), pt::error);
    return run.mistake;
  };
  using x = pt::like<f32, batch, query>;
  using sliced = pt::slice_op<head, 1, 0>;
  CHECK(mistake(lone_op::make<sliced, x>({{5}}, {}, number), gpu::backend::launch<sliced, f32>()) ==
        "slice: elements 5 to 8 are not inside an axis of 7");
  using put_together = pt::concatenate_op<joined, 1, 0>;
  CHECK(mistake(lone_op::make<put_together, x, pt::like<f32, batch, width>>({}, {}, number),
                gpu::backend::launch<put_together, f32, f32>()) == "concatenate: axis joined has 16 elements, not 7 + 5");
  using y = pt::like<f32, batch, query, width>;
  using slots = pt::like<i32, batch, expert, slot>;
  CHECK(mistake(lone_op::make<pt::dispatch_op, y, slots>({}, {}, with_slots(1, 7)),
                gpu::backend::launch<pt::dispatch_op, f32, i32>()) == "a slot of an expert holds token 7, a group has 7 tokens");
}
