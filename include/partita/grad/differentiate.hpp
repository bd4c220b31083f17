// Differentiation on the graph: gradient rules run backwards over the recorded ops; each rule is typed and builds ops.
#pragma once
#include <partita/model/apply.hpp>
#include <partita/model/gradients.hpp>
#include <partita/model/source.hpp>
#include <partita/ops/add.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

namespace mistake {
template <class...> struct gradient_rule_returns_another_type_than_its_input;
template <class...> struct gradient_rule_returns_another_number_of_terms;
template <class...> struct gradient_rule_returns_no_list_of_gradients;
template <class...> struct loss_is_not_a_float_scalar;
}  // namespace mistake

namespace detail {
template <class G> [[gnu::noinline]] constexpr void seed_axes(G& g, int tensor, operand const& as) {
  signed char* const axes = g.origin_axes_of(tensor);
  for (int a = 0; a < as.rank; ++a) axes[a] = as.dims[a];
}

// A tensor was converted from a wider type: a term of its gradient goes back to that type and is added there, so that sums of
// what several readers give are not rounded to the narrow one. The rule that the term comes from goes on with the letters
// that it has given its tensors.
template <class G> constexpr bool is_narrowed(G const& g, int tensor) {
  op_entry const& e = g.ops[g.tensors[tensor].op];
  return is_narrow(e.info->outputs[0].type) && e.info->kind == "cast" && !is_narrow(e.info->inputs[0].type);
}
template <class G> [[gnu::noinline]] constexpr void convert_term(G& g, int tensor, int term) {
  const int origin = g.origin, made = g.tensors[tensor].op;
  const int touched[]{tensor, term, g.input(g.ops[made], 0)};
  signed char axes[3][max_rank]{};
  for (int t = 0; t < 3; ++t)
    for (int a = 0; a < max_rank; ++a) axes[t][a] = g.origin_axes_of(touched[t])[a];
  g.origin = made;
  g.tensors[tensor].gradient = term;
  g.rules[made].run(g, made);
  g.tensors[tensor].gradient = -1;
  g.origin = origin;
  for (int t = 0; t < 3; ++t)
    for (int a = 0; a < max_rank; ++a) g.origin_axes_of(touched[t])[a] = axes[t][a];
}

// Adds a term to the gradient of a forward tensor that wants one: what `add_two` of its type would be, for all types at once.
// The sum lies as the tensor does where it was made, whichever op reads it.
template <class G> [[gnu::noinline]] constexpr void add_term(G& g, int input, int term, int (*sum)(G&, int, int)) {
  const int before = g.tensors[input].gradient, origin = g.origin;
  if (!g.tensors[input].differentiable) return;
  if (is_narrowed(g, input)) return convert_term(g, input, term);
  if (before < 0) {
    g.tensors[input].gradient = term;
    return;
  }
  g.origin = g.tensors[input].op;
  operand const& as = g.operand_of(input);
  seed_axes(g, before, as);
  seed_axes(g, term, as);
  const int made = sum(g, before, term);  // tensors move
  g.tensors[input].gradient = made;
  g.origin = origin;
}
template <class T, class G> constexpr int add_two(G& g, int a, int b) { return apply<add_op>(T{&g, a}, T{&g, b}).id; }
// Adds a term to the gradient of a forward tensor. A term may be a lambda, called only if the input wants a gradient.
template <class Op, class T, class D> constexpr void accumulate(T input, D term) {
  auto& g = *input.graph;
  if constexpr (std::is_invocable_v<D>) {
    if (g.tensors[input.id].differentiable) accumulate<Op>(input, term());
  } else if constexpr (is_poison<D>) g.poisoned = true;
  else if constexpr (!std::is_same_v<D, none>) {
    if constexpr (!std::is_same_v<typename T::like_type, typename D::like_type>)
      (void)reject<
          mistake::gradient_rule_returns_another_type_than_its_input<Op, typename T::like_type, typename D::like_type>>::value;
    else add_term(g, input.id, term.id, &add_two<T, typename T::tracer>);
  }
}

// What the rule of an op is given, as ids: its inputs, its outputs, and the gradients that have reached those. From here on
// their axes are letters of the op.
template <class G> [[gnu::noinline]] constexpr void begin_rule(G& g, int op, int* inputs, int* values, int* slopes) {
  op_entry const& e = g.ops[op];
  for (int i = 0; i < e.input_count; ++i) {
    inputs[i] = g.input(e, i);
    seed_axes(g, inputs[i], e.info->input(i));
  }
  for (int o = 0; o < e.info->output_count; ++o) {
    values[o] = e.first_output + o;
    slopes[o] = g.tensors[values[o]].gradient;
    seed_axes(g, values[o], e.info->outputs[o]);
    if (slopes[o] >= 0) seed_axes(g, slopes[o], e.info->outputs[o]);
  }
}

template <class Op, class First, class... Rest> struct backward<Op, First, Rest...> {
  using G = typename First::tracer;
  static constexpr int output_count = annotation_of<Op>::parsed.output_count;
  template <int O> using out = typename outputs<Op, First, Rest...>::template type<O>::rule_type;

  // Handles of the op's outputs, or of their gradients: one handle, or a tuple of several. (A tuple of one would be most
  // of what a rule costs to compile.)
  template <std::size_t... O> static constexpr auto of_outputs(G& g, int const* ids, std::index_sequence<O...>) {
    if constexpr (sizeof...(O) == 1) return out<0>{&g, ids[0]};
    else return std::tuple<out<static_cast<int>(O)>...>{out<static_cast<int>(O)>{&g, ids[O]}...};
  }
  template <std::size_t... I> static constexpr void run(G& g, int op, std::index_sequence<I...>) {
    int inputs[1 + sizeof...(Rest)], values[output_count], slopes[output_count];
    begin_rule(g, op, inputs, values, slopes);
    constexpr auto each = std::make_index_sequence<static_cast<std::size_t>(output_count)>{};
    auto terms = Op::gradient(of_outputs(g, slopes, each), of_outputs(g, values, each), typename First::rule_type{&g, inputs[0]},
                              typename Rest::rule_type{&g, inputs[I + 1]}...);
    using made = decltype(terms);
    if constexpr (is_poison<made>) g.poisoned = true;
    else if constexpr (gradient_count<made> < 0)
      (void)reject<mistake::gradient_rule_returns_no_list_of_gradients<Op, made>>::value;
    else if constexpr (gradient_count<made> != 1 + static_cast<int>(sizeof...(Rest)))
      (void)reject<mistake::gradient_rule_returns_another_number_of_terms<Op, takes<1 + sizeof...(Rest)>,
                                                                          given<gradient_count<made>>>>::value;
    else {
      accumulate<Op>(typename First::rule_type{&g, inputs[0]}, term_of<0>(terms));
      (accumulate<Op>(typename Rest::rule_type{&g, inputs[I + 1]}, term_of<I + 1>(terms)), ...);
    }
  }
  static constexpr void run(G& g, int op) { run(g, op, std::index_sequence_for<Rest...>{}); }
};

// The gradient of the loss with respect to itself, times the loss's weight.
template <class Loss> constexpr void seed_loss(Loss loss, double weight) {
  auto& g = *loss.graph;
  if constexpr (is_poison<Loss>) return;
  else if constexpr (Loss::rank != 0 || !is_float(Loss::type)) {
    (void)reject<mistake::loss_is_not_a_float_scalar<typename Loss::like_type>>::value;
    g.poisoned = true;
  } else {
    g.now = pass::backward;
    g.origin = g.tensors[loss.id].op;
    const int seed = source<source_kind::constant, fill_op, Loss::type>(g, {}, attributes{{weight}}, {}).id;
    accumulate<fill_op>(typename Loss::rule_type{&g, loss.id}, typename Loss::rule_type{&g, seed});
  }
}

// Runs the rules of the first `count` ops, last to first. A rule runs when a gradient has reached one of its outputs.
template <class G> constexpr void run_rules(G& g, int count) {
  if (g.poisoned) return;
  g.now = pass::backward;
  for (int op = count - 1; op >= 0; --op) {
    op_entry const& e = g.ops[op];
    if (e.info->source != source_kind::none) continue;
    bool reached = false, wants = false;
    for (int o = 0; o < e.info->output_count; ++o) {
      reached = reached || g.tensors[e.first_output + o].gradient >= 0;
      wants = wants || g.tensors[e.first_output + o].differentiable;
    }
    if (!reached || !wants) continue;
    if (g.rules[op].run == nullptr) {
      g.stuck = op;
      continue;
    }
    g.origin = op;
    g.rules[op].run(g, op);
  }
  g.origin = -1;
}
}  // namespace detail

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
