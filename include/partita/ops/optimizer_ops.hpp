// The ops of a parameter's update: the gradient's norm, clipping, SGD and AdamW steps. They are ops like all others, so
// that a plan places them; the learning rate and the step's number come with the step.
#pragma once
#include <cmath>

#include <partita/core/math.hpp>
#include <partita/core/packs.hpp>
#include <partita/model/apply.hpp>

namespace partita {

// Sum of squares of all elements: partial over every cut.
struct square_sum_op {
  static constexpr std::string_view name = "square_sum", annotation = "...+ ->", dtypes = "T -> A";
  static constexpr double flops_per_point = 2;
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* x = call.template input<0>();
    using sum_type = std::remove_pointer_t<decltype(call.template output<0>())>;
    auto* const y = call.template output<0>();
    const sum_type total = sum_of(
        call, call.size(), [](auto v) { return static_cast<sum_type>(v) * static_cast<sum_type>(v); }, x);
    call.once([=] { *y = total; });
  }
};

// y = sum of any number of scalars. A plan cuts it over its operands, each summed where it lies.
struct sum_of_all_op {
  static constexpr std::string_view name = "sum_of_all", annotation = "... -> ...";
  static constexpr bool variadic = true;
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto* y = call.template output<0>();
    const Call terms = call;
    call.once([=] {
      std::remove_pointer_t<decltype(y)> total = 0;
      for (int i = 0; i < terms.input_count(); ++i) total += *terms.input_at(i);
      *y = total;
    });
  }
};

struct square_root_op {
  static constexpr std::string_view name = "square_root", annotation = "... -> ...";
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* x = call.template input<0>();
    auto* y = call.template output<0>();
    call.each(call.size(), [=](std::size_t i) { y[i] = std::sqrt(x[i]); });
  }
};

// The factor that brings a gradient of this norm down to the limit (attribute 0), or 1; NaN where the norm is not finite.
struct clip_scale_op {
  static constexpr std::string_view name = "clip_scale", annotation = "... -> ...";
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const norm = call.scalar(call.template input<0>());
    auto* const y = call.template output<0>();
    using value = std::remove_const_t<decltype(norm)>;
    const value limit = static_cast<value>(call.attribute(0));
    call.once([=] { *y = norm - norm != value(0) ? norm - norm : norm > limit ? limit / norm : value(1); });
  }
};

// 1 while the loss is finite, else NaN, which the updates below take as a word to leave everything as it is.
struct finite_guard_op {
  static constexpr std::string_view name = "finite_guard", annotation = "... -> ...";
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const loss = call.scalar(call.template input<0>());
    auto* const y = call.template output<0>();
    using value = std::remove_const_t<decltype(loss)>;
    call.once([=] { *y = loss - loss == value(0) ? value(1) : loss - loss; });
  }
};

namespace detail {
// A step whose gradients are not finite changes nothing: the trainer stops and names the op that made them so.
template <class Value> PARTITA_HOST_DEVICE bool skips_update(Value scale) { return !(scale - scale == Value(0)); }
// On the CPU the skipped step is a copy of its own, because a choice in the loop of the update would keep it from becoming
// vector code; a GPU's loops do not depend on data, and choose element by element (`chooses`).
template <class Call> inline constexpr bool chooses = !Call::on_host;
template <class Value, class Call> PARTITA_HOST_DEVICE bool copies_instead(Call& call, Value scale) {
  if constexpr (chooses<Call>) return false;
  else {
    if (!skips_update(scale)) return false;
    auto keep = [&](auto const* from, auto* to) {
      if (from != to) call.each(call.size(), [=](std::size_t i) { to[i] = from[i]; });
    };
    keep(call.template input<0>(), call.template output<0>());
    if constexpr (Call::output_count > 1) keep(call.template input<1>(), call.template output<1>());
    if constexpr (Call::output_count > 2) keep(call.template input<2>(), call.template output<2>());
    return true;
  }
}
}  // namespace detail

// p' = p - rate (g s + decay p), momentum 0; s: the clip scale. Attributes: weight decay.
struct sgd_op {
  static constexpr std::string_view name = "sgd", annotation = "..., ..., -> ...", dtypes = "T, T, A -> T";
  static constexpr double flops_per_point = 4;
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* p = call.template input<0>();
    auto const* g = call.template input<1>();
    auto* out = call.template output<0>();
    using value = std::remove_pointer_t<decltype(out)>;
    const value scale = static_cast<value>(call.scalar(call.template input<2>())),
                rate = static_cast<value>(call.learning_rate()), decay = static_cast<value>(call.attribute(0));
    if (detail::copies_instead(call, scale)) return;
    const bool skip = detail::skips_update(scale);
    each_of(
        call, call.size(),
        [=](value weight, value slope) {
          const value moved = weight - rate * (slope * scale + decay * weight);
          return detail::chooses<Call> && skip ? weight : moved;
        },
        out, p, g);
  }
};

// v' = momentum v + (g s + decay p); p' = p - rate v'. Attributes: weight decay, momentum.
struct momentum_op {
  static constexpr std::string_view name = "momentum", annotation = "..., ..., ..., -> ..., ...", dtypes = "T, T, T, A -> T, T";
  static constexpr double flops_per_point = 6;
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* p = call.template input<0>();
    auto const* v = call.template input<1>();
    auto const* g = call.template input<2>();
    auto* p_out = call.template output<0>();
    auto* v_out = call.template output<1>();
    using value = std::remove_pointer_t<decltype(p_out)>;
    const value scale = static_cast<value>(call.scalar(call.template input<3>())),
                rate = static_cast<value>(call.learning_rate()), decay = static_cast<value>(call.attribute(0)),
                momentum = static_cast<value>(call.attribute(1));
    if (detail::copies_instead(call, scale)) return;
    const bool skip = detail::skips_update(scale);
    each_of_several(
        call, call.size(),
        [=](value weight, value speed, value slope) {
          const value moved = momentum * speed + (slope * scale + decay * weight), next = weight - rate * moved;
          return detail::chooses<Call> && skip ? several<value, 2>{weight, speed} : several<value, 2>{next, moved};
        },
        several<value*, 2>{p_out, v_out}, p, v, g);
  }
};

// AdamW (Loshchilov and Hutter 2019, algorithm 2): attributes: weight decay, beta1, beta2, epsilon. The step counts
// from 1 in the bias corrections.
struct adamw_op {
  static constexpr std::string_view name = "adamw", annotation = "..., ..., ..., ..., -> ..., ..., ...",
                                    dtypes = "T, T, T, T, A -> T, T, T";
  static constexpr double flops_per_point = 14;
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* p = call.template input<0>();
    auto const* m = call.template input<1>();
    auto const* v = call.template input<2>();
    auto const* g = call.template input<3>();
    auto* p_out = call.template output<0>();
    auto* m_out = call.template output<1>();
    auto* v_out = call.template output<2>();
    using value = std::remove_pointer_t<decltype(p_out)>;
    const double step = static_cast<double>(call.step()) + 1, b1 = call.attribute(1), b2 = call.attribute(2);
    const value scale = static_cast<value>(call.scalar(call.template input<4>())),
                rate = static_cast<value>(call.learning_rate()),
                decay = static_cast<value>(call.learning_rate() * call.attribute(0)), beta1 = static_cast<value>(b1),
                beta2 = static_cast<value>(b2), epsilon = static_cast<value>(call.attribute(3)),
                first = static_cast<value>(1 / (1 - std::pow(b1, step))),
                second = static_cast<value>(1 / (1 - std::pow(b2, step)));
    if (detail::copies_instead(call, scale)) return;
    const bool skip = detail::skips_update(scale);
    each_of_several(
        call, call.size(),
        [=](value weight, value mean_before, value square_before, value slope) {
          const value grad = slope * scale;
          const value mean = beta1 * mean_before + (1 - beta1) * grad;
          const value square = beta2 * square_before + (1 - beta2) * grad * grad;
          const value next = weight - decay * weight - rate * (mean * first) / (math::sqrt(square * second) + epsilon);
          return detail::chooses<Call> && skip ? several<value, 3>{weight, mean_before, square_before}
                                               : several<value, 3>{next, mean, square};
        },
        several<value*, 3>{p_out, m_out, v_out}, p, m, v, g);
  }
};

}  // namespace partita
