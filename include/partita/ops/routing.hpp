// Routing of a mixture of experts: which tokens each expert gets, and the loss that spreads them (GShard, Lepikhin et al.
// 2020; Switch Transformer, Fedus et al. 2021). Both are over all tokens of a group: the axes before that of the tokens are
// groups, so that neither depends on how a plan cuts the batch.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <type_traits>

#include <partita/model/runs_kernel_of.hpp>
#include <partita/ops/pointwise.hpp>

namespace partita {

namespace mistake {
template <class...> struct gates_are_of_tokens_and_experts;
}

// gates [..., tokens, experts]: a token has chosen the experts whose gate is not zero -> the number of the token in each
// slot of each expert, [..., experts, slots]; -1: the slot is empty. First choices (the largest
// gate; of equal ones the first) of all tokens in their order, then second ones, and so on: what comes when an expert's
// slots are full is dropped.
struct assign_slots_kernel_op {
  static constexpr std::string_view name = "assign_slots", annotation = "... s^ e^ -> ... e c^", dtypes = "T -> i32";
  static constexpr double flops_per_point = 0;
  template <class Shape> static std::size_t workspace(Shape const& shape) {  // each token's last choice, each expert's tokens
    return shape.rest() * (shape.extent('s') + shape.extent('e')) * sizeof(std::int32_t);
  }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* all_gates = call.template input<0>();
    auto* all_slots = call.template output<0>();
    const std::size_t tokens = call.extent('s'), experts = call.extent('e'), slots = call.extent('c');
    std::int32_t* const scratch = call.template scratch<std::int32_t>();
    call.rows(call.rest(), [=](std::size_t group, auto const& team) {
      if (!team.first()) return;  // one after the other: who comes first gets the slot
      auto const* const gates = all_gates + group * tokens * experts;
      std::int32_t* const slots_of = all_slots + group * experts * slots;
      std::int32_t *const last = scratch + group * (tokens + experts), *const taken = last + tokens;
      for (std::size_t i = 0; i < experts * slots; ++i) slots_of[i] = -1;
      for (std::size_t s = 0; s < tokens; ++s) last[s] = -1;
      for (std::size_t e = 0; e < experts; ++e) taken[e] = 0;
      for (bool any = true; any;) {
        any = false;
        for (std::size_t s = 0; s < tokens; ++s) {
          const std::int32_t chosen = next_choice(gates + s * experts, experts, last[s]);
          if (chosen < 0) continue;
          any = true;
          last[s] = chosen;
          const std::size_t e = static_cast<std::size_t>(chosen), c = static_cast<std::size_t>(taken[e]);
          if (c == slots) continue;
          slots_of[e * slots + c] = static_cast<std::int32_t>(s);
          ++taken[e];
        }
      }
    });
  }

 private:
  // The expert that follows `last` in the order of a token's gates, the first one for -1; -1: there is none.
  template <class T> PARTITA_HOST_DEVICE static std::int32_t next_choice(T const* gates, std::size_t experts, std::int32_t last) {
    std::int32_t best = -1;
    for (std::size_t e = 0; e < experts; ++e) {
      const std::int32_t here = static_cast<std::int32_t>(e);
      if (gates[e] == T(0)) continue;
      const bool follows = last < 0 || gates[e] < gates[last] || (gates[e] == gates[last] && here > last);
      if (follows && (best < 0 || gates[e] > gates[best])) best = here;
    }
    return best;
  }
};

// Slot is axis number At of what it makes.
template <class Slot, int At> struct assign_slots_op : assign_slots_kernel_op, runs_kernel_of<assign_slots_kernel_op> {
  template <int O, int P> using output_axis = std::conditional_t<P == At, Slot, void>;
};

// The derivative of the sum of probabilities; the number of tokens that chose an expert is a constant.
struct load_balance_gradient_op {  // dy: ...; gates: ... s e -> dp: ... s e
  static constexpr std::string_view name = "load_balance.grad", annotation = "..., ... s^ e -> ... s e", dtypes = "A, T -> T";
  static constexpr double flops_per_point = 2;
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* dy = call.template input<0>();
    auto const* gates = call.template input<1>();
    auto* dp = call.template output<0>();
    using element = std::remove_pointer_t<decltype(dp)>;
    using value = detail::compute_type<element>;
    const std::size_t tokens = call.extent('s'), experts = call.extent('e');
    const value factor = static_cast<value>(call.whole('e')) / (static_cast<value>(tokens) * static_cast<value>(tokens));
    call.rows(call.rest() * experts, [=](std::size_t row, auto const& team) {
      const std::size_t begin = row / experts * tokens * experts + row % experts;
      const value chosen =
          team.sum(tokens, [=](std::size_t s) { return gates[begin + s * experts] == element(0) ? value(0) : value(1); });
      const element all = static_cast<element>(value(dy[row / experts]) * chosen * factor);
      team.each(tokens, [=](std::size_t s) { dp[begin + s * experts] = all; });
    });
  }
};
// E sum over experts of (tokens that chose it / tokens) (sum of its probabilities / tokens): [...] of [..., tokens, experts],
// E being the number of experts (Fedus et al. 2021, equation 4). It is k where k experts a token are chosen evenly.
struct load_balance_op {  // probabilities, gates: ... s e -> ...
  static constexpr std::string_view name = "load_balance", annotation = "... s^ e+, ... s e -> ...", dtypes = "T, T -> A";
  static constexpr double flops_per_point = 2;
  static constexpr auto gradient(auto dy, auto, auto, auto gates) {
    return gradients{apply<load_balance_gradient_op>(dy, gates), none{}};
  }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* probabilities = call.template input<0>();
    auto const* gates = call.template input<1>();
    auto* y = call.template output<0>();
    using A = std::remove_pointer_t<decltype(y)>;
    const std::size_t tokens = call.extent('s'), experts = call.extent('e');
    const A factor = static_cast<A>(call.whole('e')) / (static_cast<A>(tokens) * static_cast<A>(tokens));
    call.rows(call.rest(), [=](std::size_t group, auto const& team) {
      A total = 0;
      for (std::size_t e = 0; e < experts; ++e) {
        auto const* const p = probabilities + group * tokens * experts + e;
        auto const* const chosen = gates + group * tokens * experts + e;
        const A count = team.sum(tokens, [=](std::size_t s) { return A(chosen[s * experts] == 0 ? 0 : 1); });
        total += count * team.sum(tokens, [=](std::size_t s) { return A(p[s * experts]); });
      }
      if (team.first()) y[group] = total * factor;
    });
  }
};

namespace ops {
// gates [..., tokens, experts], zero where a token has not chosen the expert -> i32 [..., experts, Slot]: which token is in
// a slot, -1 if none is. The number of slots is the capacity of an expert for each group of tokens.
template <class Slot, handle Gates> constexpr auto assign_slots(Gates gates) {
  if constexpr (is_poison<Gates>) return gates;
  else if constexpr (Gates::rank < 2) return refuse<mistake::gates_are_of_tokens_and_experts<typename Gates::like_type>>(gates);
  else return apply<assign_slots_op<Slot, Gates::rank - 1>>(gates);
}
// Probabilities and gates [..., tokens, experts] -> a loss for each group, [...], whose gradient goes to the probabilities.
template <handle Probabilities, handle Gates> constexpr auto load_balance(Probabilities probabilities, Gates gates) {
  return apply<load_balance_op>(probabilities, gates);
}
}  // namespace ops
using namespace ops;

}  // namespace partita
