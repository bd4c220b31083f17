// Element-wise ops. Such an op says what it does to one element, once:
//
//     template <class V> PARTITA_HOST_DEVICE static V point(V a, V b) { return a * b; }
//
// one argument per input, then one per attribute that it reads (`parameter_count`). V is the type to compute in:
// double for f64, float for f32 and narrower. `point` has no branch around a call, so that loops over it become
// vector code. The kernel is then `detail::each_point<Op>(call)`.
#pragma once
#include <type_traits>

#include <partita/core/host_device.hpp>
#include <partita/core/math.hpp>
#include <partita/core/packs.hpp>
#include <partita/model/apply.hpp>

namespace partita::detail {

template <class V> using compute_type = std::conditional_t<std::is_same_v<V, double>, double, float>;

template <class Op> constexpr int parameter_count() {
  if constexpr (requires { Op::parameter_count; }) return Op::parameter_count;
  else return 0;
}

template <class Op, class Call> PARTITA_HOST_DEVICE void each_point(Call& call) {
  constexpr int inputs = annotation_of<Op>::parsed.input_count, parameters = parameter_count<Op>();
  static_assert(inputs == 1 || inputs == 2);
  static_assert(parameters <= 1);
  auto* y = call.template output<0>();
  using element = std::remove_pointer_t<decltype(y)>;
  using value = compute_type<element>;
  auto const* a = call.template input<0>();
  if constexpr (inputs == 2) {
    auto const* b = call.template input<1>();
    if constexpr (parameters == 1) {
      const value p = static_cast<value>(call.attribute(0));
      each_of(
          call, call.size(), [=](auto x, auto z) { return Op::point(static_cast<value>(x), static_cast<value>(z), p); }, y, a, b);
    } else
      each_of(
          call, call.size(), [](auto x, auto z) { return Op::point(static_cast<value>(x), static_cast<value>(z)); }, y, a, b);
  } else if constexpr (parameters == 1) {
    const value p = static_cast<value>(call.attribute(0));
    each_of(
        call, call.size(), [=](auto x) { return Op::point(static_cast<value>(x), p); }, y, a);
  } else
    each_of(
        call, call.size(), [](auto x) { return Op::point(static_cast<value>(x)); }, y, a);
}

}  // namespace partita::detail
