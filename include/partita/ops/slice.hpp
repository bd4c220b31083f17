// A stretch of an axis, under a name of its own.
#pragma once
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

#include <partita/core/data_fault.hpp>
#include <partita/core/packs.hpp>
#include <partita/core/words.hpp>
#include <partita/model/apply.hpp>
#include <partita/model/runs_kernel_of.hpp>
#include <partita/ops/annotation_text.hpp>
#include <partita/ops/axis_position.hpp>

namespace partita {

namespace mistake {
template <class...> struct slice_is_longer_than_its_axis;
}

namespace detail {
inline constexpr std::string_view long_axis = "a^", short_axis = "b^";

// Where a slice lies: `rows` rows of `from` elements, of which it is `length` from `begin` on. Attributes: the first
// index; 1 if it is counted from the end that lets the slice end with the axis (of a concatenation's second part).
struct slice_place {
  std::size_t rows = 0, from = 0, begin = 0, length = 0;
  // Whether no pack of a row goes over an end of the slice.
  template <class T> PARTITA_HOST_DEVICE bool take_packs(void const* x, void const* y) const {
    return packs_divide<T>(from) && packs_divide<T>(begin) && packs_divide<T>(length) && begins_pack(x) && begins_pack(y);
  }
};
// `given` is the letter of the first input's axis.
template <class Op, class Call> PARTITA_HOST_DEVICE slice_place place_of_slice(Call const& call, char given) {
  const std::size_t whole = call.extent('a'), part = call.extent('b');
  const outer_inner n = around(call, given);
  const double first = call.attribute(0) + (call.attribute(1) != 0 ? static_cast<double>(whole) - static_cast<double>(part) : 0);
  if (!(first >= 0) || first + static_cast<double>(part) > static_cast<double>(whole)) {
    call.template refuse<Op>({first, part, whole});
    return {};
  }
  return {n.outer, whole * n.inner, static_cast<std::size_t>(first) * n.inner, part * n.inner};
}
inline std::string words_of_slice(data_fault const& f) {
  const long long first = static_cast<long long>(f.value);
  return words(
      {"slice: elements ", first, " to ", first + static_cast<long long>(f.position), " are not inside an axis of ", f.limit});
}
template <class Call> void each_slice_row(Call& call, slice_place const& at, auto f) {
  call.parallel(at.rows, std::max<std::size_t>(1, call.grain / std::max<std::size_t>(1, at.from)),
                [=](std::size_t begin, std::size_t end, std::size_t) {
                  for (std::size_t row = begin; row < end; ++row) f(row);
                });
}

// The kernels: on the CPU by rows, on a GPU by elements.
struct slice_kernel_op {
  static constexpr std::string_view name = "slice", annotation = "... -> ...";
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) { run<slice_kernel_op>(call); }
  static std::string words_of(data_fault const& f) { return words_of_slice(f); }
  template <class Op, class Call> PARTITA_HOST_DEVICE static void run(Call& call) {
    auto const* x = call.template input<0>();
    auto* y = call.template output<0>();
    using value = std::remove_pointer_t<decltype(y)>;
    const slice_place at = place_of_slice<Op>(call, 'a');
    if constexpr (Call::on_host)
      each_slice_row(call, at,
                     [=](std::size_t row) { std::copy_n(x + row * at.from + at.begin, at.length, y + row * at.length); });
    else
      gather_elements(call, at.rows * at.length, y, at.take_packs<value>(x, y),
                      [=](std::size_t i) { return x + (i / at.length * at.from + at.begin + i % at.length); });
  }
};
struct slice_gradient_kernel_op {
  static constexpr std::string_view name = "slice.grad", annotation = "... -> ...";
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) { run<slice_gradient_kernel_op>(call); }
  static std::string words_of(data_fault const& f) { return words_of_slice(f); }
  template <class Op, class Call> PARTITA_HOST_DEVICE static void run(Call& call) {
    auto const* dy = call.template input<0>();
    auto* dx = call.template output<0>();
    using value = std::remove_pointer_t<decltype(dx)>;
    const slice_place at = place_of_slice<Op>(call, 'b');
    if constexpr (Call::on_host)
      each_slice_row(call, at, [=](std::size_t row) {
        value* const to = dx + row * at.from;
        std::fill_n(to, at.begin, value(0));
        std::copy_n(dy + row * at.length, at.length, to + at.begin);
        std::fill(to + at.begin + at.length, to + at.from, value(0));
      });
    else
      gather_elements(call, at.rows * at.from, dx, at.take_packs<value>(dy, dx), [=](std::size_t i) -> value const* {
        const std::size_t column = i % at.from - at.begin;  // wraps before the slice
        return column < at.length ? dy + (i / at.from * at.length + column) : nullptr;
      });
  }
};
}  // namespace detail

template <class Part, int At, int Trailing> struct slice_op;

// dx [..., Axis, (..)]: dy at the slice, zero elsewhere.
template <class Axis, int At, int Trailing> struct slice_grad_op : runs_kernel_of<detail::slice_gradient_kernel_op> {
  static constexpr std::string_view name = "slice.grad",
                                    annotation = detail::about_axes<detail::short_axis, detail::long_axis, Trailing>::text.view();
  static constexpr bool passes_partial = true;
  static constexpr double flops_per_point = 0;
  template <int O, int P> using output_axis = std::conditional_t<P == At, Axis, void>;
  static std::string words_of(data_fault const& f) { return detail::words_of_slice(f); }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    detail::slice_gradient_kernel_op::run<slice_grad_op>(call);
  }
};
// x [..., Axis, (Trailing axes)] -> [..., Part, (..)]; the axis is number At.
template <class Part, int At, int Trailing> struct slice_op : runs_kernel_of<detail::slice_kernel_op> {
  static constexpr std::string_view name = "slice",
                                    annotation = detail::about_axes<detail::long_axis, detail::short_axis, Trailing>::text.view();
  static constexpr bool passes_partial = true;
  static constexpr double flops_per_point = 0;
  template <int O, int P> using output_axis = std::conditional_t<P == At, Part, void>;
  static constexpr auto gradient(auto dy, auto y, auto x) {
    return gradients{apply<slice_grad_op<typename decltype(x)::like_type::template axis_at<At>, At, Trailing>>(
        attributes{{y.attribute(0), y.attribute(1)}}, dy)};
  }
  static std::string words_of(data_fault const& f) { return detail::words_of_slice(f); }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) { detail::slice_kernel_op::run<slice_op>(call); }
};

namespace ops {
// Elements begin, begin + 1, .. of Axis, as many as Part has: `pt::slice<position, first_half>(x, 0)`.
template <class Axis, class Part, handle X> constexpr auto slice(X x, std::size_t begin) {
  if constexpr (is_poison<X>) return x;
  else if constexpr (!detail::has_axis<slice_op<Part, 0, 0>, Axis, X>()) return detail::poisoned(x);
  else if constexpr (Axis::extent != unbound && Part::extent > Axis::extent)
    return refuse<mistake::slice_is_longer_than_its_axis<on_axis<&axis_of<Part>::info>, on_axis<&axis_of<Axis>::info>>>(x);
  else {
    constexpr int trailing = detail::axes_after<Axis, X>();
    return apply<slice_op<Part, X::rank - 1 - trailing, trailing>>(attributes{{static_cast<double>(begin)}}, x);
  }
}
}  // namespace ops
using namespace ops;

}  // namespace partita
