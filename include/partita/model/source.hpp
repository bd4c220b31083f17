// Sources: inputs, parameters with initial values, optimizer state and constants. They have no inputs; their axes are
// given.
#pragma once
#include <partita/model/apply.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

// How a parameter's elements begin. Each depends only on the parameter's name, the seed and the element's index in the
// whole tensor, so that every plan starts from the same values.
struct normal {
  double deviation = 0.02;
};
struct uniform {
  double low = -0.1, high = 0.1;
};
struct constant {
  double value = 0;
};
inline constexpr constant zeros{0}, ones{1};
struct initializer {
  double kind = 0, first = 0, second = 0;  // 0: constant, 1: normal (mean, deviation), 2: uniform (low, high)
  constexpr initializer(normal n) : kind(1), second(n.deviation) {}
  constexpr initializer(uniform u) : kind(2), first(u.low), second(u.high) {}
  constexpr initializer(constant c) : first(c.value) {}
  constexpr attributes given() const { return {{kind, first, second}}; }
};

namespace mistake {
template <class...> struct tensor_has_more_axes_than_can_be_held;
template <class...> struct parameter_is_not_of_a_float_type;
}  // namespace mistake

namespace detail {
struct input_op {
  static constexpr std::string_view name = "input";
};
struct param_op {
  static constexpr std::string_view name = "param";
};
struct state_op {
  static constexpr std::string_view name = "state";
};
struct fill_op {
  static constexpr std::string_view name = "fill";
};  // a constant scalar: its first attribute

template <source_kind Kind, class Op, dtype Type, class... Axes> constexpr op_info source_info() {
  op_info r;
  r.kind = Op::name;
  r.source = Kind;
  r.output_count = 1;
  r.dim_count = r.outputs[0].rank = sizeof...(Axes);
  r.outputs[0].type = Type;
  axis_info const* all[] = {&axis_of<Axes>::info..., nullptr};
  for (int i = 0; i < r.dim_count; ++i) {
    r.dims[i] = {all[i], static_cast<char>('a' + i), false, false};
    r.outputs[0].dims[i] = static_cast<signed char>(i);
    r.outputs[0].axes[i] = all[i];
  }
  return r;
}
template <source_kind Kind, class Op, dtype Type, class... Axes>
inline constexpr op_info source_info_of = source_info<Kind, Op, Type, Axes...>();

template <class Tensor> struct parameter_rules;  // grad/optimizer.hpp

// Returns the tensor's id.
template <class G> [[gnu::noinline]] constexpr int record_source(G& g, op_info const& info, label name, attributes const& given,
                                                                 typename G::rule_entry rule) {
  const int op = g.ops.size, out = g.tensors.size;
  const bool parameter = info.source == source_kind::parameter;
  op_entry e{&info, g.edges.size, 0, out, g.names.size, op, g.now, given, {}};
  const bool forward = g.now == pass::forward;
  for (int d = 0; d < info.dim_count && d < max_dims; ++d) e.origin_dims[d] = static_cast<signed char>(d);
  if (!forward && g.origin >= 0) {
    e.origin = g.origin;
    if (name.length == 0) e.name = g.ops[g.origin].name;
    else {
      name_entry const of = g.names[g.ops[g.origin].name];
      g.names.push({of.scope, of.name, name});
    }
  } else g.names.push({g.scope, name, {}});
  g.ops.push(e);
  g.add_tensor({op, 0, parameter && is_float(info.outputs[0].type), -1, parameter ? e.name : -1, -1});
  if (!forward)
    for (int a = 0; a < info.dim_count; ++a) g.origin_axes_of(out)[a] = static_cast<signed char>(a);
  else g.rules.push(rule);
  return out;
}
template <source_kind Kind, class Op, dtype Type, class... Axes, class G>
constexpr auto source(G& g, label name, attributes const& given, typename G::rule_entry rule) {
  const int op = g.ops.size;
  const int out = record_source(g, source_info_of<Kind, Op, Type, Axes...>, name, given, rule);
  g.template saw_source<Op, Type, Axes...>(op);
  return tensor<G, Type, Axes...>{&g, out};
}

template <class... Axes, class G> constexpr auto too_many_axes(G& g) {
  (void)reject<mistake::tensor_has_more_axes_than_can_be_held<takes<max_rank>, given<sizeof...(Axes)>, Axes...>>::value;
  g.poisoned = true;
  return poison<G>{&g};
}

// `in_precision<Model, Type>`: every float type that the model names becomes that one.
template <class G> constexpr dtype in_precision_of(dtype type) {
  if constexpr (requires { G::in_precision; }) return G::in_precision && is_float(type) ? G::precision : type;
  else return type;
}
template <class G, dtype Type> inline constexpr dtype used = in_precision_of<G>(Type);
}  // namespace detail

// A tensor given at every step, whole: `pt::input<pt::i32, sample, position>(g, "tokens")`.
template <dtype Type, class... Axes, class G> constexpr auto input(G& g, label name) {
  if constexpr (sizeof...(Axes) > max_rank) return detail::too_many_axes<Axes...>(g);
  else return detail::source<source_kind::input, detail::input_op, detail::used<G, Type>, Axes...>(g, name, {}, {});
}
// A scalar that is the same at every step.
template <dtype Type, class G> constexpr auto fill(G& g, label name, double value) {
  return detail::source<source_kind::constant, detail::fill_op, detail::used<G, Type>>(g, name, attributes{{value}}, {});
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
