// Cross-entropy of logits against class numbers, averaged over the tokens that count. The loss of a token with logits
// x, target t and smoothing s is  log(sum_v exp(x_v)) - sum_v w_v x_v,  w = (1 - s) [v = t] + s / V.  It is built of
// ops over which the vocabulary (the last axis) and the tokens can be cut, in space and in time:
//
//     m = max_v x_v                                        row_max        partial maxima over pieces of v
//     z = sum_v exp(x_v - m),  l = sum_v w_v (x_v - m)     softmax_terms  partial sums over pieces of v
//     n = number of tokens with t >= 0                     token_count    over all tokens: not cut in time
//     loss = sum over tokens with t >= 0 of (log(z) - l) / max(n, 1)      token_loss
//
// The derivatives with respect to m cancel (d log(z) / dm = -1 = dl / dm), so m has no gradient. A token with a
// target below zero counts nowhere; a target that is not below the vocabulary is an error.
#pragma once
#include <string>

#include <partita/core/data_fault.hpp>
#include <partita/core/words.hpp>
#include <partita/ops/pointwise.hpp>

namespace partita {

struct row_max_op {  // ... v -> ...
  static constexpr std::string_view name = "row_max", annotation = "... v+ -> ...", dtypes = "T -> A";
  static constexpr reduction reductions[]{reduction::max};
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* x = call.template input<0>();
    auto* y = call.template output<0>();
    using A = std::remove_pointer_t<decltype(y)>;
    const std::size_t v = call.extent('v');
    call.rows(call.rest(), [=](std::size_t row, auto const& team) {
      auto const* const in = x + row * v;
      const A most = max_of(
          team, v, [](auto e) { return A(e); }, in);
      if (team.first()) y[row] = most;
    });
  }
};

// dz, dl: ...; logits: ... v; row_max, targets: ... -> dx = dz exp(x - m) + dl w: ... v. Attribute 0: smoothing.
struct softmax_terms_gradient_op {
  static constexpr std::string_view name = "softmax_terms.grad", annotation = "... v, ..., ..., ..., ... -> ... v",
                                    dtypes = "T, A, A, A, i32 -> T";
  static constexpr double flops_per_point = 4;
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* x = call.template input<0>();
    auto const* dz = call.template input<1>();
    auto const* dl = call.template input<2>();
    auto const* maxima = call.template input<3>();
    auto const* targets = call.template input<4>();
    auto* dx = call.template output<0>();
    using element = std::remove_pointer_t<decltype(dx)>;
    using A = std::remove_const_t<std::remove_pointer_t<decltype(dz)>>;
    const std::size_t v = call.extent('v'), begin = call.offset('v');
    const A smoothing = static_cast<A>(call.attribute(0)), spread = smoothing / static_cast<A>(call.whole('v'));
    call.rows(call.rest(), [=](std::size_t row, auto const& team) {
      element* const out = dx + row * v;
      if (targets[row] < 0) {
        each_of(
            team, v, [] { return A(0); }, out);
        return;
      }
      auto const* const in = x + row * v;
      const A z = dz[row], l = dl[row], m = maxima[row], all = l * spread;
      each_of(
          team, v, [=](auto e) { return z * math::exp(A(e) - m) + all; }, out, in);
      const std::size_t hot = static_cast<std::size_t>(targets[row]) - begin;  // wraps when it lies before this piece
      if (hot < v)
        team.each(1, [=](std::size_t) {  // rounded once, as if the sum above had the term
          out[hot] = static_cast<element>(z * math::exp(A(in[hot]) - m) + all + l * (A(1) - smoothing));
        });
    });
  }
};

struct softmax_terms_op {  // logits: ... v; row_max, targets: ... -> z, l: ... Attribute 0: smoothing.
  static constexpr std::string_view name = "softmax_terms", annotation = "... v+, ..., ... -> ..., ...",
                                    dtypes = "T, A, i32 -> A, A";
  static constexpr double flops_per_point = 3;
  static constexpr auto gradient(auto dy, auto y, auto logits, auto maxima, auto targets) {
    return gradients{apply<softmax_terms_gradient_op>(attributes{{std::get<0>(y).attribute(0)}}, logits, std::get<0>(dy),
                                                      std::get<1>(dy), maxima, targets),
                     none{}, none{}};
  }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* x = call.template input<0>();
    auto const* maxima = call.template input<1>();
    auto const* targets = call.template input<2>();
    auto* sums = call.template output<0>();
    auto* terms = call.template output<1>();
    using A = std::remove_pointer_t<decltype(sums)>;
    const std::size_t v = call.extent('v'), begin = call.offset('v'), whole = call.whole('v');
    const A smoothing = static_cast<A>(call.attribute(0)), spread = smoothing / static_cast<A>(whole);
    const Call checked = call;
    call.rows(call.rest(), [=](std::size_t row, auto const& team) {
      const std::int64_t target = targets[row];
      if (target >= static_cast<std::int64_t>(whole))
        checked.template refuse<softmax_terms_op>({static_cast<double>(target), row, whole});
      auto const* const in = x + row * v;
      const A m = maxima[row];
      const A sum = target < 0 ? A(0)
                               : sum_of(
                                     team, v, [=](auto e) { return math::exp(A(e) - m); }, in);
      A term = 0;
      if (target >= 0) {
        const std::size_t hot = static_cast<std::size_t>(target) - begin;  // wraps when it lies before this piece
        if (hot < v) term = (A(1) - smoothing) * (A(in[hot]) - m);
        if (smoothing != A(0))
          term += spread * sum_of(
                               team, v, [=](auto e) { return A(e) - m; }, in);
      }
      if (team.first()) {
        sums[row] = sum;
        terms[row] = term;
      }
    });
  }

  static std::string words_of(data_fault const& f) {
    return words({"cross_entropy: target ", static_cast<long long>(f.value), " is not below the last axis's extent ", f.limit,
                  "; a token to be ignored has a target below 0"});
  }
};

// The number of tokens whose target is not below zero, in the type of the loss.
template <dtype Loss> struct token_count_op {
  static constexpr std::string_view name = "token_count", annotation = "...+ ->",
                                    dtypes = Loss == f64 ? "i32 -> f64" : "i32 -> f32";
  static constexpr bool whole_in_time = true;
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* targets = call.template input<0>();
    using A = std::remove_pointer_t<decltype(call.template output<0>())>;
    const A count = call.sum(call.size(), [=](std::size_t i) { return targets[i] < 0 ? A(0) : A(1); });
    auto* const y = call.template output<0>();
    call.once([=] { *y = count; });
  }
};

struct token_loss_gradient_op {  // dloss: scalar; z, targets: ...; count: scalar -> dz, dl: ...
  static constexpr std::string_view name = "token_loss.grad", annotation = ", ..., ..., -> ..., ...",
                                    dtypes = "T, T, i32, T -> T, T";
  static constexpr double flops_per_point = 3;
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* sums = call.template input<1>();
    auto const* targets = call.template input<2>();
    auto* dz = call.template output<0>();
    auto* dl = call.template output<1>();
    using A = std::remove_pointer_t<decltype(dz)>;
    const A count = call.scalar(call.template input<3>());
    const A each = call.scalar(call.template input<0>()) / (count > A(1) ? count : A(1));
    call.each(call.size(), [=](std::size_t i) {
      const A quotient = each / sums[i];
      dz[i] = targets[i] < 0 ? A(0) : quotient;
      dl[i] = targets[i] < 0 ? A(0) : -each;
    });
  }
};

struct token_loss_op {  // z, l, targets: ...; count: scalar -> loss: scalar
  static constexpr std::string_view name = "token_loss", annotation = "...+, ...+, ...+, ->", dtypes = "T, T, i32, T -> T";
  static constexpr double flops_per_point = 3;
  static constexpr auto gradient(auto dy, auto, auto sums, auto, auto targets, auto count) {
    auto [dz, dl] = apply<token_loss_gradient_op>(dy, sums, targets, count);
    return gradients{dz, dl, none{}, none{}};
  }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* sums = call.template input<0>();
    auto const* terms = call.template input<1>();
    auto const* targets = call.template input<2>();
    using A = std::remove_pointer_t<decltype(call.template output<0>())>;
    const A count = call.scalar(call.template input<3>());
    const A total = call.sum(call.size(), [=](std::size_t i) {
      const bool counts = targets[i] >= 0;
      const A loss = math::log(counts ? sums[i] : A(1)) - terms[i];
      return counts ? loss : A(0);
    });
    auto* const y = call.template output<0>();
    call.once([=] { *y = total / (count > A(1) ? count : A(1)); });
  }
};

namespace ops {
// logits: ... v; targets: i32 ...; the mean loss over tokens whose target is not below zero, 0 if there is none.
// `smoothing`: the share of the target that is spread evenly over the vocabulary (Szegedy et al. 2016).
template <handle Logits, handle Targets> constexpr auto cross_entropy(Logits logits, Targets targets, double smoothing = 0) {
  if constexpr (is_poison<Logits>) return logits;
  else if constexpr (is_poison<Targets>) return targets;
  else {
    auto maxima = apply<row_max_op>(logits);
    auto terms = apply<softmax_terms_op>(attributes{{smoothing}}, logits, maxima, targets);
    if constexpr (is_poison<decltype(terms)>) return terms;
    else {
      auto [sums, target_terms] = terms;
      auto count = apply<token_count_op<accumulation_of(Logits::type)>>(targets);
      return apply<token_loss_op>(sums, target_terms, targets, count);
    }
  }
}
}  // namespace ops
using namespace ops;

}  // namespace partita
