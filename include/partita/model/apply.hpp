// Building ops: what every interpreter of a model does when an op is applied.
#pragma once
#include <tuple>
#include <utility>

#include <partita/core/host_device.hpp>
#include <partita/core/mistake.hpp>
#include <partita/model/gradients.hpp>
#include <partita/model/graph_entries.hpp>
#include <partita/model/tensor.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

struct none {};  // a gradient rule's word for "no gradient for this input"

namespace mistake {
template <class...> struct op_has_no_name;        // static constexpr std::string_view name
template <class...> struct op_has_no_annotation;  // static constexpr std::string_view annotation
template <class...> struct annotation_is_malformed;
template <class...> struct dtypes_are_malformed;
template <class...> struct op_takes_another_number_of_inputs;
template <class...> struct input_has_another_rank_than_its_annotation;
template <class...> struct op_has_more_axes_than_can_be_held;
template <class...> struct one_letter_names_two_axes;
template <class...> struct one_axis_has_two_extents;
template <class...> struct output_axis_is_not_given_by_an_input_or_the_op;
template <class...> struct input_has_the_wrong_dtype;
}  // namespace mistake

// An interpreter is told of each op once, with its type: `Derived::saw<Op, In...>(op)` adds what it is for. Gradient
// rules are recorded as function pointers made where types are known, so that the backward pass is typed and is told
// to every interpreter in the same way.
template <class Derived> struct tracer : graph_data {
  struct rule_entry {
    void (*run)(Derived&, int op) = nullptr;     // the op's gradient; for a parameter: a term of the gradient norm
    void (*update)(Derived&, int op) = nullptr;  // for a parameter: the optimizer
  };
  growing<rule_entry> rules;
  struct named_parameter {
    std::uint64_t name = 0;  // a hash
    int before = -1;         // the one made before with the same last bits: comparing with all would be quadratic
  };
  growing<named_parameter> parameter_names;
  growing<int> last_named;           // by the last bits of the hash
  growing<signed char> origin_axes;  // per tensor, max_rank each: axis -> letter of the op whose rule runs
  int scope = -1, origin = -1;
  pass now = pass::forward;

  constexpr signed char* origin_axes_of(int t) { return origin_axes.at + t * max_rank; }
  constexpr void add_tensor(tensor_entry const& t) {
    tensors.push(t);
    origin_axes.append(max_rank, -1);
  }
};

namespace detail {
template <class Op, class... In> constexpr void explain() {
  using t = typing<Op, In...>;
  constexpr auto const& parsed = annotation_of<Op>::parsed;
  if constexpr (t::what == verdict::annotation)
    (void)
        reject<mistake::annotation_is_malformed<Op, because<parsed.what>, at_column<parsed.column>, character<parsed.at>>>::value;
  else if constexpr (t::what == verdict::dtypes)
    (void)reject<mistake::dtypes_are_malformed<Op, because<t::dtypes.what>, at_column<t::dtypes.column>>>::value;
  else if constexpr (t::what == verdict::too_large)
    (void)reject<mistake::op_has_more_axes_than_can_be_held<Op, takes<max_rank>>>::value;
  else if constexpr (t::what == verdict::arity)
    (void)reject<mistake::op_takes_another_number_of_inputs<Op, takes<parsed.input_count>, given<sizeof...(In)>>>::value;
  else if constexpr (t::what == verdict::rank)
    (void)reject<mistake::input_has_another_rank_than_its_annotation<
        Op, input_number<t::result.input>, has_rank<std::tuple_element_t<t::result.input, std::tuple<In...>>::rank>>>::value;
  else if constexpr (t::what == verdict::axis)
    (void)reject<
        mistake::one_letter_names_two_axes<Op, letter<t::result.at>, on_axis<t::result.one>, on_axis<t::result.other>>>::value;
  else if constexpr (t::what == verdict::extents)
    (void)
        reject<mistake::one_axis_has_two_extents<Op, letter<t::result.at>, on_axis<t::result.one>, extent<t::result.one->extent>,
                                                 on_axis<t::result.other>, extent<t::result.other->extent>>>::value;
  else if constexpr (t::what == verdict::unknown_axis)
    (void)reject<mistake::output_axis_is_not_given_by_an_input_or_the_op<Op, letter<t::result.at>>>::value;
  else
    (void)reject<mistake::input_has_the_wrong_dtype<
        Op, input_number<t::types.bad_input>, found_dtype<std::tuple_element_t<t::types.bad_input, std::tuple<In...>>::type>,
        expected_dtype<t::types.expected>>>::value;
}

template <class Op, class... In> struct backward;  // grad/differentiate.hpp
template <class Op> struct any_rule { void gradient(); };
// Does the op have a member named gradient? If it has, the name is ambiguous here. (It may be a template, so it cannot
// be pointed to.)
template <class Op> struct rule_probe : Op, any_rule<Op> {};
template <class Op>
concept has_rule = !requires {
  &rule_probe<Op>::gradient;
};

template <class Op, class First, class... Rest> struct outputs {  // one output: its handle; several: a tuple of handles
  template <int O> using type = typename output_like<Op, O, typename First::like_type,
                                                     typename Rest::like_type...>::type::template in<typename First::graph_type>;
  static constexpr auto of(auto& g, int id, std::index_sequence<0>) { return type<0>{&g, id}; }
  template <std::size_t... O> static constexpr auto of(auto& g, int id, std::index_sequence<O...>) {
    return std::tuple<type<static_cast<int>(O)>...>{type<static_cast<int>(O)>{&g, id + static_cast<int>(O)}...};
  }
};

// Letters of an op made by a gradient rule, in letters of the op whose rule it is: through the tensors they share.
template <class G> constexpr void map_to_origin(G& g, op_entry& e) {
  op_info const& f = *e.info;
  for (int d = 0; d < f.dim_count && d < max_dims; ++d) e.origin_dims[d] = -1;
  for (int i = 0; i < e.input_count; ++i) {
    operand const& x = f.input(i);
    signed char const* known = g.origin_axes_of(g.edges[e.first_input + i]);
    for (int a = 0; a < x.rank; ++a)
      if (e.origin_dims[x.dims[a]] < 0) e.origin_dims[x.dims[a]] = known[a];
  }
}

// Once per interpreter; inlined into every application it would be most of a model's code. `rule`: its gradient, or null.
template <class G> [[gnu::noinline]] constexpr int record(G& g, op_info const& info, attributes const& given, int const* inputs,
                                                          int count, bool taped, void (*rule)(G&, int op)) {
  const label kind{info.kind.data(), static_cast<short>(info.kind.size())};
  const int op = g.ops.size, out = g.tensors.size;
  op_entry e{&info, g.edges.size, count, out, 0, op, g.now, given, {}};
  bool wants = false;
  int stem = -1;
  for (int i = 0; i < count; ++i) {
    tensor_entry const& x = g.tensors.at[inputs[i]];
    wants = wants || x.differentiable;
    if (stem < 0) stem = x.stem;
    g.edges.push(inputs[i]);
  }
  if (taped) {
    e.name = g.names.size;
    g.names.push({g.scope, stem < 0 ? kind : g.names[stem].name.cut(), {}});
    for (int d = 0; d < info.dim_count && d < max_dims; ++d) e.origin_dims[d] = static_cast<signed char>(d);
    g.rules.push({rule, nullptr});
  } else {
    e.origin = g.origin < 0 ? op : g.origin;
    if (g.origin < 0) {
      e.name = g.names.size;
      g.names.push({g.scope, kind, {}});
    } else e.name = g.ops[g.origin].name;
    map_to_origin(g, e);
  }
  g.ops.push(e);
  for (int o = 0; o < info.output_count; ++o) {
    const bool differentiable = taped && wants && !info.stops_gradient && is_float(info.outputs[o].type);
    g.add_tensor({op, static_cast<short>(o), differentiable, -1, taped && info.keeps_name ? stem : -1, -1});
    if (taped) continue;
    signed char* const axes = g.origin_axes_of(out + o);
    for (int a = 0; a < info.outputs[o].rank; ++a) axes[a] = e.origin_dims[info.outputs[o].dims[a]];
  }
  return op;
}

template <class Op, class First, class... Rest> constexpr auto apply_checked(attributes const& given, First first, Rest... rest) {
  using t = typing<Op, typename First::like_type, typename Rest::like_type...>;
  auto& g = *first.graph;
  using G = typename First::tracer;
  constexpr bool taped = tracer_of<typename First::graph_type>::taped;
  const int inputs[]{first.id, rest.id...};
  void (*rule)(G&, int) = nullptr;
  if constexpr (taped && has_rule<Op>) rule = &backward<Op, First, Rest...>::run;
  const int op = record(g, t::result.info, given, inputs, 1 + static_cast<int>(sizeof...(Rest)), taped, rule);
  g.template saw<Op, First, Rest...>(op);
  return outputs<Op, First, Rest...>::of(g, g.ops[op].first_output, std::make_index_sequence<t::output_count>{});
}
}  // namespace detail

namespace detail {
template <class Op> inline constexpr bool has_name = requires { std::string_view(Op::name); };
template <class Op> inline constexpr bool has_annotation = requires { std::string_view(Op::annotation); };
}  // namespace detail

// What a function of the ops library returns when it finds a mistake of its own: one error, and a handle that is checked
// no more. Nothing is reported of a handle that was rejected already.
template <class Mistake, handle First, handle... Rest> constexpr auto refuse(First first, Rest...) {
  if constexpr (!(is_poison<First> || ... || is_poison<Rest>)) (void)reject<Mistake>::value;
  first.graph->poisoned = true;
  return poison<typename First::graph_type>{first.graph};
}

// Applies any op, library's or user's: checks axes and dtypes while compiling, records the op, returns the handle of its
// output, or a tuple of handles when it has several.
template <class Op, handle First, handle... Rest> constexpr auto apply(attributes const& given, First first, Rest... rest) {
  if constexpr ((is_poison<First> || ... || is_poison<Rest>)) return poison<typename First::graph_type>{first.graph};
  else if constexpr (!detail::has_name<Op>) return refuse<mistake::op_has_no_name<Op>>(first);
  else if constexpr (!detail::has_annotation<Op>) return refuse<mistake::op_has_no_annotation<Op>>(first);
  else if constexpr (typing<Op, typename First::like_type, typename Rest::like_type...>::what != verdict::good) {
    detail::explain<Op, typename First::like_type, typename Rest::like_type...>();
    first.graph->poisoned = true;
    return poison<typename First::graph_type>{first.graph};
  } else return detail::apply_checked<Op>(given, first, rest...);
}
inline constexpr attributes no_attributes{};
template <class Op, handle First, handle... Rest> constexpr auto apply(First first, Rest... rest) {
  return apply<Op>(no_attributes, first, rest...);
}

// An op over any number of tensors like `first`, given by their ids (`Op::variadic`). It has no gradient rule.
template <class Op, handle First> constexpr auto apply_to_all(First first, growing<int> const& ids) {
  if constexpr (is_poison<First>) return first;
  else {
    using t = typing<Op, typename First::like_type>;
    auto& g = *first.graph;
    using G = typename First::tracer;
    void (*const no_rule)(G&, int) = nullptr;
    const int op =
        detail::record(g, t::result.info, no_attributes, ids.at, ids.size, tracer_of<typename First::graph_type>::taped, no_rule);
    g.template saw<Op, First>(op);
    return detail::outputs<Op, First>::of(g, g.ops[op].first_output, std::make_index_sequence<1>{});
  }
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
