// Rotary positions (RoFormer, Su et al. 2021, section 3.2.2): elements 2i and 2i + 1 of a head of width d at position p
// are turned as a point of the plane by the angle p base^(-2i / d), so that the product of a query with a key depends on
// how far apart they stand.
#pragma once
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>

#include <partita/core/data_fault.hpp>
#include <partita/core/packs.hpp>
#include <partita/core/words.hpp>
#include <partita/ops/annotation_text.hpp>
#include <partita/ops/axis_position.hpp>
#include <partita/ops/pointwise.hpp>

namespace partita {

namespace mistake {
template <class...> struct rotary_positions_are_the_last_axis_itself;
template <class...> struct rotary_turns_pairs_and_the_last_axis_is_odd;
}  // namespace mistake

namespace detail {
template <class T, class V> struct turned_pair {
  T first, second;
  PARTITA_HOST_DEVICE static turned_pair of(T x, T y, V cosine, V sine) {
    const V a = V(x), b = V(y);
    return {static_cast<T>(a * cosine - b * sine), static_cast<T>(a * sine + b * cosine)};
  }
};
// The heads of one position, [heads, 2 pairs], turned by angles that they have in common.
template <class Team, class T, class V> PARTITA_HOST_DEVICE void turn_heads(Team const& team, std::size_t heads,
                                                                            std::size_t pairs, T const* from, T* to,
                                                                            V const* cosines, V const* sines) {
  using turned = turned_pair<T, V>;
  const std::size_t d = 2 * pairs;
  if constexpr (takes_packs<Team>) {
    constexpr std::size_t width = elements_of_pack<T>();
    if (begins_pack(from) && begins_pack(to) && d % width == 0)
      return team.each(heads * d / width, [=](std::size_t p) {
        const std::size_t i = p * width, pair = i % d / 2;
        auto x = load_pack<width>(from + i);
        for (std::size_t j = 0; j < width; j += 2) {
          const turned y = turned::of(x.at[j], x.at[j + 1], cosines[pair + j / 2], sines[pair + j / 2]);
          x.at[j] = y.first;
          x.at[j + 1] = y.second;
        }
        store_pack<width>(to + i, x);
      });
  }
  for (std::size_t head = 0; head < heads; ++head) {
    T const* const in = from + head * d;
    T* const out = to + head * d;
    team.each(pairs, [=](std::size_t i) {
      const turned y = turned::of(in[2 * i], in[2 * i + 1], cosines[i], sines[i]);
      out[2 * i] = y.first;
      out[2 * i + 1] = y.second;
    });
  }
}
}  // namespace detail

// x [..., s, (Between axes,) d] -> the same axes. Attributes: base; 1 turns forwards, -1 back. A piece of the positions
// knows where it begins.
template <int Between> struct rotary_op {
  static constexpr detail::annotation_text text = [] {
    detail::annotation_text t;
    const std::string_view sides[]{"... s", " d^ -> ... s", " d^"};
    t.put(sides[0]);
    t.put_axes('m', Between);
    t.put(sides[1]);
    t.put_axes('m', Between);
    t.put(sides[2]);
    return t;
  }();
  static constexpr std::string_view name = "rotary", annotation = text.view();
  static constexpr double flops_per_point = 3;
  static constexpr auto gradient(auto dy, auto y, auto) {
    return gradients{apply<rotary_op<Between>>(attributes{{y.attribute(0), -y.attribute(1)}}, dy)};
  }
  template <class Shape> static std::size_t workspace(Shape const& shape) {  // cosine and sine, by position and pair
    return shape.extent('s') * shape.extent('d') * (shape.element_size < sizeof(float) ? sizeof(float) : shape.element_size);
  }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* x = call.template input<0>();
    auto* y = call.template output<0>();
    using element = std::remove_pointer_t<decltype(y)>;
    using value = detail::compute_type<element>;
    const std::size_t d = call.extent('d'), pairs = d / 2, positions = call.extent('s'), first = call.offset('s');
    if (d % 2 != 0) call.template refuse<rotary_op>({0, 0, d});
    std::size_t heads = 1;
    for (int i = 0; i < Between; ++i) heads *= call.extent(static_cast<char>('m' + i));
    const double base = call.attribute(0), direction = call.attribute(1);
    value* const table = call.template scratch<value>();
    call.rows(positions, [=](std::size_t s, auto const& team) {
      value* const here = table + s * d;
      team.each(pairs, [=](std::size_t i) {  // in double: the angle may be many turns
        const double angle =
            direction * static_cast<double>(first + s) * std::pow(base, -2 * static_cast<double>(i) / static_cast<double>(d));
        here[i] = static_cast<value>(std::cos(angle));
        here[pairs + i] = static_cast<value>(std::sin(angle));
      });
    });
    call.rows(call.rest() * positions, [=](std::size_t row, auto const& team) {
      value const* const cosines = table + row % positions * d;
      detail::turn_heads(team, heads, pairs, x + row * heads * d, y + row * heads * d, cosines, cosines + pairs);
    });
  }
  static std::string words_of(data_fault const& f) {
    return words({"rotary: the last axis has ", f.limit, " elements; pairs of them are turned, so that it must be even"});
  }
};

namespace ops {
// `pt::rotary<position>(q)`: the position is that along `Position`, the last axis is the one whose pairs are turned.
template <class Position, handle X> constexpr auto rotary(X x, double base = 10000) {
  if constexpr (is_poison<X>) return x;
  else if constexpr (!detail::has_axis<rotary_op<0>, Position, X>()) return detail::poisoned(x);
  else if constexpr (constexpr int after = detail::axes_after<Position, X>(); after == 0)
    return refuse<mistake::rotary_positions_are_the_last_axis_itself<on_axis<&axis_of<Position>::info>, typename X::like_type>>(
        x);
  else if constexpr (X::infos[X::rank - 1]->extent % 2 != 0)
    return refuse<mistake::rotary_turns_pairs_and_the_last_axis_is_odd<on_axis<X::infos[X::rank - 1]>,
                                                                       extent<X::infos[X::rank - 1]->extent>>>(x);
  else return apply<rotary_op<after - 1>>(attributes{{base, 1}}, x);
}
}  // namespace ops
using namespace ops;

}  // namespace partita
