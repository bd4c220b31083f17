// Optimizers and clipping, as values that build a parameter's update out of ops.
#pragma once
#include <partita/core/glob.hpp>
#include <partita/core/hash.hpp>
#include <partita/grad/differentiate.hpp>
#include <partita/ops/cast.hpp>
#include <partita/ops/optimizer_ops.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

namespace detail {
// State like a parameter, zero before the first step.
template <class P> constexpr auto state_like(P parameter, label suffix) {
  return [&]<class Graph, dtype Type, class... Axes>(tensor<Graph, Type, Axes...>) {
    return source<source_kind::state, state_op, Type, Axes...>(*parameter.graph, suffix, {}, {});
  }(parameter);
}
template <class T, class G> constexpr auto inside_rule(G& g, int id) { return typename T::rule_type{&g, id}; }
template <class G> constexpr void carry(G& g, int source, int after) { g.tensors[after].carried = source; }
}  // namespace detail

struct sgd {
  double momentum = 0, weight_decay = 0;
  glob no_decay{};
  template <class G, class P, class D, class S>
  constexpr void update(G& g, std::string_view name, P parameter, D gradient, S scale) const {
    const double decay = no_decay.contains(name) ? 0 : weight_decay;
    if (momentum == 0) {
      auto after = apply<sgd_op>(attributes{{decay}}, parameter, gradient, scale);
      detail::carry(g, parameter.id, after.id);
    } else {
      auto v = detail::state_like(parameter, "momentum");
      auto [after, moved] =
          apply<momentum_op>(attributes{{decay, momentum}}, parameter, detail::inside_rule<P>(g, v.id), gradient, scale);
      detail::carry(g, parameter.id, after.id);
      detail::carry(g, v.id, moved.id);
    }
  }
};

struct adamw {
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weight_decay = 0.01;
  glob no_decay{};
  template <class G, class P, class D, class S>
  constexpr void update(G& g, std::string_view name, P parameter, D gradient, S scale) const {
    const double decay = no_decay.contains(name) ? 0 : weight_decay;
    auto m = detail::state_like(parameter, "m");
    auto v = detail::state_like(parameter, "v");
    auto [after, mean, square] =
        apply<adamw_op>(attributes{{decay, beta1, beta2, epsilon}}, parameter, detail::inside_rule<P>(g, m.id),
                        detail::inside_rule<P>(g, v.id), gradient, scale);
    detail::carry(g, parameter.id, after.id);
    detail::carry(g, m.id, mean.id);
    detail::carry(g, v.id, square.id);
  }
};

struct no_clip {
  static constexpr bool clips = false;
};
// Scales all gradients down when the norm over all parameters, each counted once, exceeds `max`.
struct clip_norm {
  static constexpr bool clips = true;
  double max = 1.0;
};

namespace detail {
// From here on the axes of a parameter and of its gradient are letters of the op that made it.
template <class G> [[gnu::noinline]] constexpr void seed_parameter(G& g, int op) {
  const int id = g.ops[op].first_output;
  operand const& as = g.operand_of(id);
  seed_axes(g, id, as);
  seed_axes(g, g.tensors[id].gradient, as);
}
template <class Tensor> struct parameter_rules {
  using G = typename Tensor::tracer;
  using sum = tensor<untaped<G>, accumulation_of(Tensor::type)>;
  static constexpr void square(G& g, int op) {
    seed_parameter(g, op);
    const int gradient = g.tensors[g.ops[op].first_output].gradient;
    g.norm_terms.push(apply<square_sum_op>(inside_rule<Tensor>(g, gradient)).id);
  }
  static constexpr void update(G& g, int op) {
    seed_parameter(g, op);
    const int id = g.ops[op].first_output;
    g.optimizer.update(g, g.name(op).view(), inside_rule<Tensor>(g, id), inside_rule<Tensor>(g, g.tensors[id].gradient),
                       sum{&g, g.scale});
  }
};
}  // namespace detail

namespace detail {
template <class G> [[gnu::noinline]] constexpr void check_parameter(G& g, int tensor) {
  const int op = g.ops.size - 1;
  const text<96> own = g.name(op);
  const std::uint64_t mine = hash(own.view());  // of the whole path: scope "a" may hold "b.c" and scope "a.b" a "c"
  constexpr int lists = 256;
  for (int i = g.last_named.size; i < lists; ++i) g.last_named.push(-1);
  int& last = g.last_named.at[mine % lists];
  for (int other = last; other >= 0; other = g.parameter_names.at[other].before)
    if (g.parameter_names.at[other].name == mine) g.twice = op;
  g.parameter_names.push({mine, last});
  last = g.parameter_names.size - 1;
  if (g.frozen.contains(own.view())) g.tensors[tensor].differentiable = false;
}
template <dtype Type, class... Axes, class G> constexpr auto parameter(G& g, label name, initializer initial) {
  constexpr dtype wanted = used<G, Type>, stored = accumulation_of(wanted);
  using made = tensor<G, stored, Axes...>;
  auto p = source<source_kind::parameter, param_op, stored, Axes...>(
      g, name, initial.given(), {&parameter_rules<made>::square, &parameter_rules<made>::update});
  check_parameter(g, p.id);
  if constexpr (wanted == stored) return p;
  else return cast<wanted>(p);
}

}  // namespace detail

// A trained tensor: one parameter, wherever it is used. bf16 and f16 name the type of use; f32 is what is stored.
template <dtype Type, class... Axes, class G> constexpr auto param(G& g, label name, initializer initial = normal{0.02}) {
  if constexpr (sizeof...(Axes) > max_rank) return detail::too_many_axes<Axes...>(g);
  else if constexpr (!is_float(Type)) {
    (void)reject<mistake::parameter_is_not_of_a_float_type<found_dtype<Type>, Axes...>>::value;
    g.poisoned = true;
    return poison<G>{&g};
  } else return detail::parameter<Type, Axes...>(g, name, initial);
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
