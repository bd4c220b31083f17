// Dropout (Srivastava et al. 2014), scaled while training: y = x / (1 - p) where the element is kept, else 0; y = x
// when not training. Whether an element is kept depends on the op's key, the seed, the step and the element's index
// in the whole tensor alone, so pieces, replicas and a recomputed forward pass draw the same mask; so does the
// gradient, which stores none: ops of one gradient rule have the key of their forward op.
#pragma once
#include <string>

#include <partita/core/data_fault.hpp>
#include <partita/core/random.hpp>
#include <partita/core/words.hpp>
#include <partita/ops/pointwise.hpp>

namespace partita {

namespace detail {
// Calls f(team, at, index, count) for runs of at most `most` elements that follow each other both in this piece, from
// `at` on, and in the whole tensor of the axes of input 0, from `index` on.
template <class Call, class F> PARTITA_HOST_DEVICE void each_run_of_whole(Call const& call, std::size_t most, F f) {
  auto const* const given = &call.arguments();
  operand const* const x = &call.info().input(0);
  std::size_t run = 1, rows = 1, stride = 1, first = 0;
  bool joined = true;  // the axes after this one are not cut
  for (int a = x->rank - 1; a >= 0; --a) {
    const int d = x->dims[a];
    first += given->offsets[d] * stride;
    (joined ? run : rows) *= given->extents[d];
    joined = joined && given->extents[d] == given->wholes[d];
    stride *= given->wholes[d];
  }
  const std::size_t parts = (run + most - 1) / most;
  call.rows(rows * parts, [=](std::size_t part, auto const& team) {
    const std::size_t within = part % parts * most, left = run - within;
    std::size_t row = part / parts, index = first + within, apart = 1;
    const std::size_t at = row * run + within;
    // Read again: of arrays that it fills, a GPU's thread keeps copies in memory.
    bool inside = true;
    for (int a = x->rank - 1; a >= 0; --a) {
      const int d = x->dims[a];
      if (!inside) {
        index += row % given->extents[d] * apart;
        row /= given->extents[d];
      }
      inside = inside && given->extents[d] == given->wholes[d];
      apart *= given->wholes[d];
    }
    f(team, at, index, left < most ? left : most);
  });
}

inline std::string wrong_probability(data_fault const& f) {
  return words({"dropout: probability ", f.value, " is not in [0, 1)"});
}

template <class Op, class Call> PARTITA_HOST_DEVICE void drop(Call& call) {
  auto const* x = call.template input<0>();
  auto* y = call.template output<0>();
  using element = std::remove_pointer_t<decltype(y)>;
  using value = compute_type<element>;
  const double probability = call.attribute(0);
  if (!(probability >= 0 && probability < 1)) call.template refuse<Op>({probability, 0, 0});
  if (!call.training() || probability == 0) {
    each_of(
        call, call.size(), [](element v) { return v; }, y, x);
    return;
  }
  const float limit = static_cast<float>(probability);
  const value kept = static_cast<value>(1 / (1 - probability));
  const std::uint64_t stream = call.stream(), step = static_cast<std::uint64_t>(call.step());
  constexpr std::size_t most = 1024;  // the factors of a run stay in the nearest cache
  each_run_of_whole(call, most, [=](auto const& team, std::size_t at, std::size_t index, std::size_t count) {
    auto const* const in = x + at;
    element* const out = y + at;
    if constexpr (Call::on_host) {
      value factors[most];
      fill_dropout(factors, stream, step, index, count, limit, kept);
      value const* const factor = factors;
      team.each(count, [=](std::size_t i) { out[i] = static_cast<element>(value(in[i]) * factor[i]); });
    } else {  // members of a team have no array in common: each draws for its pack
      constexpr std::size_t width = elements_of_pack<element>();
      const auto drop_one = [=](std::size_t i, bool keep) {
        out[i] = static_cast<element>(value(in[i]) * (keep ? kept : value(0)));
      };
      if (!begins_pack(in) || !begins_pack(out))
        return team.each(count, [=](std::size_t i) { drop_one(i, keeps(stream, step, index + i, limit)); });
      team.each((count + width - 1) / width, [=](std::size_t p) {
        const std::size_t i = p * width;
        if (i + width > count) {
          PARTITA_DEVICE_LOOP_NOT_UNROLLED
          for (std::size_t j = i; j < count; ++j) drop_one(j, keeps(stream, step, index + j, limit));
          return;
        }
        bool keep[width];
        keeps_each(keep, stream, step, index + i, limit);
        auto pack = load_pack<width>(in + i);
        for (std::size_t j = 0; j < width; ++j)
          pack.at[j] = static_cast<element>(value(pack.at[j]) * (keep[j] ? kept : value(0)));
        store_pack<width>(out + i, pack);
      });
    }
  });
}
}  // namespace detail

struct dropout_gradient_op {  // dy -> dx, by the mask of the forward op. Attribute 0: probability.
  static constexpr bool draws = true;
  static constexpr std::string_view name = "dropout.grad", annotation = "... -> ...";
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) { detail::drop<dropout_gradient_op>(call); }
  static std::string words_of(data_fault const& f) { return detail::wrong_probability(f); }
};
struct dropout_op {  // Attribute 0: the probability of an element to be dropped.
  static constexpr bool draws = true;
  static constexpr std::string_view name = "dropout", annotation = "... -> ...";
  static constexpr auto gradient(auto dy, auto y, auto) {
    return gradients{apply<dropout_gradient_op>(attributes{{y.attribute(0)}}, dy)};
  }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) { detail::drop<dropout_op>(call); }
  static std::string words_of(data_fault const& f) { return detail::wrong_probability(f); }
};
namespace ops {
template <handle X> constexpr auto dropout(X x, double probability) { return apply<dropout_op>(attributes{{probability}}, x); }
}  // namespace ops
using namespace ops;

}  // namespace partita
