// Two tensors one after the other along an axis.
#pragma once
#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>

#include <partita/core/words.hpp>
#include <partita/ops/slice.hpp>

namespace partita {

namespace mistake {
template <class...> struct concatenated_tensors_must_differ_in_one_axis;
template <class...> struct concatenated_axis_is_not_the_sum_of_the_two;
}  // namespace mistake

namespace detail {
struct concatenate_kernel_op {
  static constexpr std::string_view name = "concatenate", annotation = "..., ... -> ...";
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) { run<concatenate_kernel_op>(call); }
  // Op says what a mistake is in words.
  template <class Op, class Call> PARTITA_HOST_DEVICE static void run(Call& call) {
    auto const* a = call.template input<0>();
    auto const* b = call.template input<1>();
    auto* y = call.template output<0>();
    const outer_inner n = around(call, 'a');
    const std::size_t first = call.extent('a'), second = call.extent('b'), joined = call.extent('c');
    if (first + second != joined) {
      call.template refuse<Op>({static_cast<double>(joined), first, second});
      return;
    }
    const std::size_t from_a = first * n.inner, from_b = second * n.inner, all = from_a + from_b;
    if constexpr (Call::on_host)
      call.parallel(n.outer, std::max<std::size_t>(1, call.grain / std::max<std::size_t>(1, all)),
                    [=](std::size_t begin, std::size_t end, std::size_t) {
                      for (std::size_t row = begin; row < end; ++row) {
                        std::copy_n(a + row * from_a, from_a, y + row * all);
                        std::copy_n(b + row * from_b, from_b, y + row * all + from_a);
                      }
                    });
    else {
      using value = std::remove_pointer_t<decltype(y)>;
      const bool packs =
          packs_divide<value>(from_a) && packs_divide<value>(from_b) && begins_pack(a) && begins_pack(b) && begins_pack(y);
      gather_elements(call, n.outer * all, y, packs, [=](std::size_t i) {
        const std::size_t row = i / all, column = i % all;
        return column < from_a ? a + (row * from_a + column) : b + (row * from_b + column - from_a);
      });
    }
  }
};
}  // namespace detail

// a [..., First, (Trailing axes)], b [..., Second, (..)] -> [..., Joined, (..)]; the axis is number At.
template <class Joined, int At, int Trailing> struct concatenate_op : runs_kernel_of<detail::concatenate_kernel_op> {
  static constexpr detail::annotation_text text = [] {
    detail::annotation_text t;
    t.put("... a^");
    t.put_axes('p', Trailing);
    t.put(", ... b^");
    t.put_axes('p', Trailing);
    t.put(" -> ... c^");
    t.put_axes('p', Trailing);
    return t;
  }();
  static constexpr std::string_view name = "concatenate", annotation = text.view();
  static constexpr bool passes_partial = true;
  static constexpr double flops_per_point = 0;
  template <int O, int P> using output_axis = std::conditional_t<P == At, Joined, void>;
  static constexpr auto gradient(auto dy, auto, auto a, auto b) {
    using first = typename decltype(a)::like_type::template axis_at<At>;
    using second = typename decltype(b)::like_type::template axis_at<At>;
    return gradients{[=] {
                       return apply<slice_op<first, At, Trailing>>(attributes{{0, 0}}, dy);
                     },
                     [=] {
                       return apply<slice_op<second, At, Trailing>>(attributes{{0, 1}}, dy);
                     }};
  }
  // position and limit are the extents of the two
  static std::string words_of(data_fault const& f) {
    return words({"concatenate: axis ", Joined::name, " has ", static_cast<long long>(f.value), " elements, not ", f.position,
                  " + ", f.limit});
  }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    detail::concatenate_kernel_op::run<concatenate_op>(call);
  }
};

namespace detail {
// The number, from the front, of the one axis by which two tensors differ; -1 when it is not one.
template <class A, class B> constexpr int axis_that_differs() {
  if (A::rank != B::rank) return -1;
  int found = -1;
  for (int i = 0; i < A::rank; ++i)
    if (A::infos[i]->id != B::infos[i]->id) {
      if (found >= 0) return -1;
      found = i;
    }
  return found;
}
}  // namespace detail

namespace ops {
// The tensors have the same axes but one, which the result has under the name of Joined:
// `pt::concatenate<position>(prompt, answer)`.
template <class Joined, handle A, handle B> constexpr auto concatenate(A a, B b) {
  if constexpr (is_poison<A>) return a;
  else if constexpr (is_poison<B>) return b;
  else if constexpr (constexpr int at = detail::axis_that_differs<A, B>(); at < 0)
    return refuse<mistake::concatenated_tensors_must_differ_in_one_axis<typename A::like_type, typename B::like_type>>(a);
  else {
    using first = typename A::template axis_at<at>;
    using second = typename B::template axis_at<at>;
    if constexpr (first::extent != unbound && second::extent != unbound && Joined::extent != unbound &&
                  first::extent + second::extent != Joined::extent)
      return refuse<mistake::concatenated_axis_is_not_the_sum_of_the_two<
          on_axis<&axis_of<Joined>::info>, on_axis<&axis_of<first>::info>, on_axis<&axis_of<second>::info>>>(a);
    else return apply<concatenate_op<Joined, at, A::rank - 1 - at>>(a, b);
  }
}
}  // namespace ops
using namespace ops;

}  // namespace partita
