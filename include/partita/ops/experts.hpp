// Tokens to the slots of experts and back (GShard, Lepikhin et al. 2020). Which token is in a slot is a table of numbers,
// `assign_slots` makes it: -1 is an empty slot. The tokens may be cut: a piece has the slots of its own tokens, and the
// pieces are summed. The experts may be cut: where tokens are cut by a group over the same devices, what lies between is
// an all-to-all.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include <partita/core/data_fault.hpp>
#include <partita/core/words.hpp>
#include <partita/ops/pointwise.hpp>

namespace partita {

namespace detail {
// What all ops say of a slot whose number is no token's.
struct reads_slots {
  static std::string words_of(data_fault const& f) {
    return words({"a slot of an expert holds token ", static_cast<long long>(f.value), ", a group has ", f.limit, " tokens"});
  }
};
// The slots of a piece: [..., e, c] numbers of tokens, of which those of the piece's own tokens have an index.
template <class Call> struct slot_table {
  Call call;
  std::int32_t const* numbers;
  std::size_t groups, experts, slots, tokens, first, all;
  PARTITA_HOST_DEVICE slot_table(Call const& c, std::int32_t const* table)
      : call(c),
        numbers(table),
        groups(c.rest()),
        experts(c.extent('e')),
        slots(c.extent('c')),
        tokens(c.extent('s')),
        first(c.offset('s')),
        all(c.whole('s')) {}
  PARTITA_HOST_DEVICE std::size_t count() const { return groups * experts * slots; }
  PARTITA_HOST_DEVICE std::size_t group_of(std::size_t slot) const { return slot / (experts * slots); }
  // The token in a slot, counted from the first of the piece; `tokens` and more: empty, or another piece's.
  PARTITA_HOST_DEVICE std::size_t token(std::size_t slot) const {
    const std::int64_t number = numbers[slot];
    if (number >= static_cast<std::int64_t>(all)) call.template refuse<reads_slots>({static_cast<double>(number), slot, all});
    return number < 0 ? tokens : static_cast<std::size_t>(number) - first;  // wraps when it lies before this piece
  }
};
// Bytes of the sums of an op that adds to tokens, where kernels see narrow types.
template <class Shape> std::size_t sums_of_tokens(Shape const& s) {
  return s.workers > 0 || s.element_size >= sizeof(float) ? 0 : s.rest() * s.extent('s') * s.extent('h') * sizeof(float);
}
// A row of h elements, each to be multiplied by a number.
template <class V, class T> struct scaled_row {
  V factor;
  T const* row;
};
// y[group, token, h] += of(slot, token) for the slots of a group in their order. A member of a team takes columns, so that the
// additions keep their order.
template <class Call, class T, class F>
PARTITA_HOST_DEVICE void sum_into_tokens(Call& call, slot_table<Call> const& table, std::size_t h, T* y, bool add, F of) {
  using V = compute_type<T>;
  constexpr std::size_t width = Call::on_host ? 64 : 32 * elements_of_pack<typename Call::template input_type<0>>();
  const std::size_t blocks = (h + width - 1) / width, per_group = table.experts * table.slots;
  call.rows(
      table.groups * blocks,
      [=](std::size_t item, auto const& team) {
        const std::size_t group = item / blocks, column = item % blocks * width,
                          columns = h - column < width ? h - column : width;
        T* const out = y + group * table.tokens * h + column;
        if (!add)
          for (std::size_t s = 0; s < table.tokens; ++s)
            each_of(
                team, columns, [] { return T(0); }, out + s * h);
        for (std::size_t slot = group * per_group; slot < (group + 1) * per_group; ++slot) {
          const std::size_t token = table.token(slot);
          if (token >= table.tokens) continue;
          const auto x = of(slot, token);
          T* const to = out + token * h;
          each_of(
              team, columns, [factor = x.factor](T sum, auto e) { return sum + factor * V(e); }, to, to, x.row + column);
        }
      },
      width);
}
// The same into an output, which is rounded once.
template <class Call, class F> PARTITA_HOST_DEVICE void add_to_tokens(Call& call, slot_table<Call> const& table, F of) {
  auto* const y = call.template output<0>();
  using element = std::remove_pointer_t<decltype(call.template output<0>())>;
  const std::size_t h = call.extent('h');
  const bool add = call.accumulate();
  if constexpr (sizeof(element) >= sizeof(float)) sum_into_tokens(call, table, h, y, add, of);
  else {
    float* const sums = call.template scratch<float>();
    sum_into_tokens(call, table, h, sums, false, of);
    const std::size_t all = call.template output_size<0>();
    if (add)
      each_of(
          call, all, [](auto before, float sum) { return float(before) + sum; }, y, y, sums);
    else
      each_of(
          call, all, [](float sum) { return sum; }, y, sums);
  }
}
}  // namespace detail

// dy [..., e, c, h], slots [..., e, c] -> dx [..., s, h]. x gives its shape alone.
struct dispatch_gradient_op : detail::reads_slots {
  static constexpr std::string_view name = "dispatch.grad", annotation = "... e+ c+ h, ... e c, ... s h -> ... s h",
                                    dtypes = "T, i32, T -> T";
  static constexpr bool accumulates = true;
  static constexpr double flops_per_point = 0;  // one addition a slot and column, however many tokens there are
  template <class Shape> static std::size_t workspace(Shape const& s) { return detail::sums_of_tokens(s); }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* dy = call.template input<0>();
    using element = std::remove_cvref_t<decltype(*dy)>;
    using row = detail::scaled_row<detail::compute_type<element>, element>;
    const std::size_t h = call.extent('h');
    detail::add_to_tokens(call, detail::slot_table<Call>(call, call.template input<1>()), [=](std::size_t slot, std::size_t) {
      return row{1, dy + slot * h};
    });
  }
};
// x [..., s, h], slots [..., e, c] -> [..., e, c, h]: each slot's token, zeros in empty ones.
struct dispatch_op : detail::reads_slots {
  static constexpr std::string_view name = "dispatch", annotation = "... s+ h, ... e c -> ... e c h", dtypes = "T, i32 -> T";
  static constexpr double flops_per_point = 0;
  static constexpr auto gradient(auto dy, auto, auto x, auto slots) {
    return gradients{apply<dispatch_gradient_op>(dy, slots, x), none{}};
  }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* x = call.template input<0>();
    auto* y = call.template output<0>();
    using element = std::remove_pointer_t<decltype(y)>;
    const auto table = detail::slot_table<Call>(call, call.template input<1>());
    const std::size_t h = call.extent('h');
    call.rows(table.count(), [=](std::size_t slot, auto const& team) {
      const std::size_t token = table.token(slot);
      element* const to = y + slot * h;
      if (token >= table.tokens)
        return each_of(
            team, h, [] { return element(0); }, to);
      each_of(
          team, h, [](element e) { return e; }, to, x + (table.group_of(slot) * table.tokens + token) * h);
    });
  }
};

// dy [..., s, h], gates [..., s, e], slots -> dz [..., e, c, h]: the gate times the token's dy.
struct combine_gradient_op : detail::reads_slots {
  static constexpr std::string_view name = "combine.grad", annotation = "... s+ h, ... s+ e, ... e c -> ... e c h",
                                    dtypes = "T, T, i32 -> T";
  static constexpr double flops_per_point = 0;
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* dy = call.template input<0>();
    auto const* gates = call.template input<1>();
    auto* dz = call.template output<0>();
    using element = std::remove_pointer_t<decltype(dz)>;
    using value = detail::compute_type<element>;
    const auto table = detail::slot_table<Call>(call, call.template input<2>());
    const std::size_t h = call.extent('h');
    call.rows(table.count(), [=](std::size_t slot, auto const& team) {
      const std::size_t token = table.token(slot), expert = slot / table.slots % table.experts;
      element* const to = dz + slot * h;
      if (token >= table.tokens)
        return each_of(
            team, h, [] { return element(0); }, to);
      const std::size_t row = table.group_of(slot) * table.tokens + token;
      const value gate = value(gates[row * table.experts + expert]);
      each_of(
          team, h, [=](auto e) { return gate * value(e); }, to, dy + row * h);
    });
  }
};
// dy [..., s, h], z [..., e, c, h], slots -> dgates [..., s, e]: the product of the token's dy with what its expert made.
struct combine_gates_gradient_op : detail::reads_slots {
  static constexpr std::string_view name = "combine.gates.grad", annotation = "... s h+, ... e c+ h+, ... e c+ -> ... s e",
                                    dtypes = "T, T, i32 -> T";
  static constexpr double flops_per_point = 0;
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* dy = call.template input<0>();
    auto const* z = call.template input<1>();
    auto* dgates = call.template output<0>();
    using element = std::remove_pointer_t<decltype(dgates)>;
    using value = detail::compute_type<element>;
    const auto table = detail::slot_table<Call>(call, call.template input<2>());
    const std::size_t h = call.extent('h');
    call.rows(table.groups * table.experts, [=](std::size_t row, auto const& team) {
      const std::size_t group = row / table.experts, expert = row % table.experts;
      element* const out = dgates + group * table.tokens * table.experts + expert;
      team.each(table.tokens, [=](std::size_t s) { out[s * table.experts] = element(0); });
      for (std::size_t c = 0; c < table.slots; ++c) {
        const std::size_t slot = row * table.slots + c, token = table.token(slot);
        if (token >= table.tokens) continue;
        const value product = sum_of(
            team, h, [](auto a, auto b) { return value(a) * value(b); }, dy + (group * table.tokens + token) * h, z + slot * h);
        if (team.first()) out[token * table.experts] = static_cast<element>(value(out[token * table.experts]) + product);
      }
    });
  }
};
// z [..., e, c, h], gates [..., s, e], slots [..., e, c] -> [..., s, h]: for every token the sum over the slots that hold
// it of gate times z; zeros for a token in none.
struct combine_op : detail::reads_slots {
  static constexpr std::string_view name = "combine", annotation = "... e+ c+ h, ... s e+, ... e c -> ... s h",
                                    dtypes = "T, T, i32 -> T";
  static constexpr bool accumulates = true;
  static constexpr double flops_per_point = 0;  // two a slot and column
  static constexpr auto gradient(auto dy, auto, auto z, auto gates, auto slots) {
    return gradients{[=] { return apply<combine_gradient_op>(dy, gates, slots); },
                     [=] { return apply<combine_gates_gradient_op>(dy, z, slots); }, none{}};
  }
  template <class Shape> static std::size_t workspace(Shape const& s) { return detail::sums_of_tokens(s); }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* z = call.template input<0>();
    auto const* gates = call.template input<1>();
    using element = std::remove_cvref_t<decltype(*z)>;
    using value = detail::compute_type<element>;
    using scaled = detail::scaled_row<value, element>;
    const detail::slot_table<Call> table(call, call.template input<2>());
    const std::size_t h = call.extent('h');
    detail::add_to_tokens(call, table, [=](std::size_t slot, std::size_t token) {
      const std::size_t row = table.group_of(slot) * table.tokens + token, expert = slot / table.slots % table.experts;
      return scaled{value(gates[row * table.experts + expert]), z + slot * h};
    });
  }
};

namespace ops {
// x [..., tokens, h] and slots i32 [..., experts, slots] -> [..., experts, slots, h]. An expert's linear is then
// `pt::einsum<"... e c h, e h f -> ... e c f">(y, weight)`.
template <handle X, handle Slots> constexpr auto dispatch(X x, Slots slots) { return apply<dispatch_op>(x, slots); }
// What experts made, [..., experts, slots, h], back to the tokens, each times its gate [..., tokens, experts].
template <handle Z, handle Gates, handle Slots> constexpr auto combine(Z z, Gates gates, Slots slots) {
  return apply<combine_op>(z, gates, slots);
}
}  // namespace ops
using namespace ops;

}  // namespace partita
