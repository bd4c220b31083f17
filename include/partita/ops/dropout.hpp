// Dropout (Srivastava et al. 2014), scaled while training: y = x / (1 - p) where the element is kept, else 0; y = x
// when not training. Whether an element is kept depends on the op's key, the seed, the step and the element's index
// in the whole tensor alone (D10), so pieces, replicas and a recomputed forward pass draw the same mask; so does the
// gradient, which stores none: ops of one gradient rule have the key of their forward op.
#pragma once
#include <string>

#include <partita/core/error.hpp>
#include <partita/core/random.hpp>
#include <partita/ops/pointwise.hpp>

namespace partita {

namespace detail {
// Calls f(at, index, count) for runs of elements that follow each other both in this piece, from `at` on, and in the
// whole tensor of the axes of input 0, from `index` on.
template <class Call, class F> void each_run_of_whole(Call const& call, F f) {
  op_info const& info = call.info();
  auto const& given = call.arguments();
  operand const& x = info.input(0);
  std::size_t run = 1, stride = 1, elements = 1;
  bool joined = true;  // the axes after this one are whole
  struct outer_axis {
    std::size_t extent, stride;
  } outer[max_rank]{};
  int outer_count = 0;
  std::uint64_t first = 0;
  for (int a = x.rank - 1; a >= 0; --a) {
    const int d = x.dims[a];
    const std::size_t extent = given.extents[d];
    first += given.offsets[d] * stride;
    if (joined) run *= extent;
    else outer[outer_count++] = {extent, stride};
    joined = joined && extent == given.wholes[d];
    stride *= given.wholes[d];
    elements *= extent;
  }
  call.parallel(elements, Call::grain, [&](std::size_t begin, std::size_t end, std::size_t) {
    while (begin < end) {
      const std::size_t within = begin % run, left = run - within, count = end - begin < left ? end - begin : left;
      std::uint64_t index = first + within;
      std::size_t row = begin / run;
      for (int a = 0; a < outer_count; ++a) {
        index += row % outer[a].extent * outer[a].stride;
        row /= outer[a].extent;
      }
      f(begin, index, count);
      begin += count;
    }
  });
}
template <class Call> void drop(Call& call) {
  auto const* x = call.template input<0>();
  auto* y = call.template output<0>();
  using element = std::remove_pointer_t<decltype(y)>;
  using value = compute_type<element>;
  const double probability = call.attribute(0);
  if (!(probability >= 0 && probability < 1))
    throw error("dropout: probability " + std::to_string(probability) + " is not in [0, 1)");
  if (!call.training() || probability == 0) {
    call.each(call.size(), [=](std::size_t i) { y[i] = x[i]; });
    return;
  }
  const float limit = static_cast<float>(probability);
  const value kept = static_cast<value>(1 / (1 - probability));
  const std::uint64_t stream = call.stream(), step = static_cast<std::uint64_t>(call.step());
  each_run_of_whole(call, [=](std::size_t begin, std::uint64_t index, std::size_t count) {
    auto const* const in = x + begin;
    element* const out = y + begin;
    each_run(stream, step, index, count,
             [=](std::uint32_t const* words, std::size_t from, std::size_t n, std::size_t at) {
               // a run of the full length is what compilers turn into vector code
               if (n == 4 * philox_batch)
                 for (std::size_t j = 0; j < 4 * philox_batch; ++j)
                   out[at + j] = keeps(words[j], limit) ? static_cast<element>(value(in[at + j]) * kept) : element(0);
               else
                 for (std::size_t j = 0; j < n; ++j)
                   out[at + j] =
                       keeps(words[from + j], limit) ? static_cast<element>(value(in[at + j]) * kept) : element(0);
             });
  });
}
}  // namespace detail

struct dropout_gradient_op {  // dy -> dx, by the mask of the forward op. Attribute 0: probability.
  static constexpr std::string_view name = "dropout.grad", annotation = "... -> ...";
  template <class Call> static void kernel(Call& call) { detail::drop(call); }
};
struct dropout_op {  // Attribute 0: the probability of an element to be dropped.
  static constexpr std::string_view name = "dropout", annotation = "... -> ...";
  static constexpr auto gradient(auto dy, auto y, auto) {
    return std::tuple{apply<dropout_gradient_op>(attributes{{y.attribute(0)}}, dy)};
  }
  template <class Call> static void kernel(Call& call) { detail::drop(call); }
};
namespace ops {
template <handle X> constexpr auto dropout(X x, double probability) {
  return apply<dropout_op>(attributes{{probability}}, x);
}
}  // namespace ops
using namespace ops;

}  // namespace partita
