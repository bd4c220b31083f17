// What is traced, planned, verified, searched and trained: a model, an optimizer, clipping.
#pragma once
#include <tuple>

#include <partita/grad/optimizer.hpp>
#include <partita/model/scope.hpp>

namespace partita {

template <class Model, class Optimizer = sgd, class Clip = no_clip> struct training {
  using model_type = Model;
  using optimizer_type = Optimizer;
  using clip_type = Clip;
  Model model{};
  Optimizer optimizer{};
  Clip clip{};
  glob frozen{};  // parameters that are not trained, by name
};
// The same model in another float type: `pt::in_precision<gpt, pt::f64>`. In bf16 and f16 the parameters that are stored, the
// optimizer's states and losses are f32 still.
template <class Model, dtype Type> struct in_precision {
  static constexpr dtype precision = Type;
  Model model{};
  constexpr auto operator()(auto& g) const { return model(g); }
};

// Named results of a model. Losses are summed with their weights and differentiated; outputs are not.
template <bool IsLoss, handle Tensor> struct named_output {
  static constexpr bool is_loss = IsLoss;
  label name;
  Tensor tensor;
  double weight;
};
template <handle Tensor> constexpr auto loss(label name, Tensor t, double weight = 1) {
  if constexpr (is_poison<Tensor>) return named_output<true, Tensor>{name, t, weight};
  else if constexpr (!is_narrow(Tensor::type)) return named_output<true, Tensor>{name, t, weight};
  else {  // losses are added in f32
    auto wide = apply<cast_op<f32>>(t);
    return named_output<true, decltype(wide)>{name, wide, weight};
  }
}
template <handle Tensor> constexpr named_output<false, Tensor> output(label name, Tensor t) { return {name, t, 0}; }
template <bool... L, class... T> constexpr auto outputs(named_output<L, T>... all) { return std::tuple{all...}; }

namespace mistake {
template <class...> struct model_has_no_const_call_operator_that_takes_a_graph;
template <class...> struct model_returns_no_loss;
}  // namespace mistake

namespace detail {
template <class T> inline constexpr bool is_training = false;
template <class M, class O, class C> inline constexpr bool is_training<training<M, O, C>> = true;
template <class T> struct as_training_type { using type = training<T>; };
template <class M, class O, class C> struct as_training_type<training<M, O, C>> { using type = training<M, O, C>; };

// Marks a result of the model, so that plans place it like any op.
struct output_op {
  static constexpr std::string_view name = "output", annotation = "... -> ...";
  static constexpr bool is_output = true, is_view = true;
  static constexpr double flops_per_point = 0;
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* x = call.template input<0>();
    auto* y = call.template output<0>();
    call.each(call.size(), [=](std::size_t i) { y[i] = x[i]; });
  }
};
struct integer_output_op : output_op {
  static constexpr std::string_view dtypes = "i32 -> i32";
};
}  // namespace detail

}  // namespace partita

#include <partita/core/begin_planning_code.hpp>

namespace partita {

namespace detail {
template <class G, class Tensor> constexpr void mark_output(G& g, label name, Tensor t, double weight = 0) {
  if constexpr (!is_poison<Tensor>) {
    (void)apply<std::conditional_t<is_float(Tensor::type), output_op, integer_output_op>>(t);
    g.names[g.ops[g.ops.size - 1].name] = {-1, name, {}};
    if (weight != 0) g.losses.push({g.ops.size - 1, weight});
  }
}
template <bool IsLoss, class Tensor> constexpr void seed_output(Tensor t, double weight) {
  if constexpr (IsLoss) seed_loss(t, weight);
}
// Index sequences and not std::apply, whose frames would push the user's line out of an error's backtrace.
template <class G, class... Out, std::size_t... I>
constexpr void finish(G& g, std::tuple<Out...> const& all, std::index_sequence<I...>) {
  (mark_output(g, std::get<I>(all).name, std::get<I>(all).tensor, std::get<I>(all).weight), ...);
  g.forward_count = g.ops.size;
  if (g.poisoned || !g.trains) return;
  (seed_output<Out::is_loss>(std::get<I>(all).tensor, std::get<I>(all).weight), ...);
  run_rules(g, g.forward_count);
}
template <class G, class... Out> constexpr void finish(G& g, std::tuple<Out...> const& all) {
  if constexpr (!(Out::is_loss || ...)) {
    (void)reject<mistake::model_returns_no_loss<Out...>>::value;
    g.poisoned = true;
  } else finish(g, all, std::index_sequence_for<Out...>{});
}
// What a model returns, as a tuple of named outputs: one loss, one named output, or several of them.
template <handle Loss> constexpr auto results(Loss l) { return std::tuple{loss("loss", l)}; }
template <bool L, class T> constexpr auto results(named_output<L, T> o) { return std::tuple{o}; }
template <bool... L, class... T> constexpr auto results(std::tuple<named_output<L, T>...> all) { return all; }

// Norm over all parameters, clipping, and the optimizer's ops.
template <class G, class Training> constexpr void update_parameters(G& g, Training const& t) {
  using clip_type = typename Training::clip_type;
  constexpr dtype sum_type = accumulation_of(G::precision);
  using scalar = tensor<untaped<G>, sum_type>;
  g.now = pass::update;
  auto each_parameter = [&](auto visit) {
    for (int op = 0; op < g.forward_count; ++op)
      if (g.ops[op].info->source == source_kind::parameter && g.tensors[g.ops[op].first_output].gradient >= 0) {
        g.origin = op;
        visit(op);
      }
    g.origin = -1;
  };
  if constexpr (clip_type::clips) {
    each_parameter([&](int op) { g.rules[op].run(g, op); });
    if (g.norm_terms.size == 0) return;
    auto squares = apply_to_all<sum_of_all_op>(scalar{&g, g.norm_terms[0]}, g.norm_terms);
    auto norm = apply<square_root_op>(squares);
    g.scale = apply<clip_scale_op>(attributes{{t.clip.max}}, norm).id;
    mark_output(g, "gradient_norm", norm);
  } else {
    if (g.losses.size == 0) return;
    growing<int> losses;
    for (auto const& l : g.losses) losses.push(g.ops[l.op].first_output);
    g.scale = apply<finite_guard_op>(apply_to_all<sum_of_all_op>(scalar{&g, losses[0]}, losses)).id;
  }
  each_parameter([&](int op) { g.rules[op].update(g, op); });
}
}  // namespace detail

template <class T> using as_training = typename detail::as_training_type<T>::type;
template <class T> inline constexpr bool names_a_precision = requires { T::precision; };
template <class T> constexpr dtype precision_of() {
  if constexpr (names_a_precision<T>) return T::precision;
  else return f32;
}

// Interpreter 1: the graph, and beside it one launcher per op when the backend has kernels.
struct planning_only {
  struct launcher {};
};  // a backend without kernels
struct loss_entry {
  int op = -1;  // the output op
  double weight = 1;
};
template <class Backend, class Training> struct recorder : tracer<recorder<Backend, Training>> {
  using optimizer_type = typename Training::optimizer_type;
  static constexpr dtype precision = precision_of<typename Training::model_type>();
  static constexpr bool in_precision = names_a_precision<typename Training::model_type>;
  optimizer_type optimizer{};
  glob frozen{};
  bool trains = true;
  int forward_count = 0, scale = -1;
  growing<int> norm_terms;
  growing<loss_entry> losses;
  growing<typename Backend::launcher> launchers;
  template <class Op, class... In> constexpr void saw(int) {
    if constexpr (requires { Backend::template launch<Op, In::type...>(); }) add(Backend::template launch<Op, In::type...>());
  }
  template <class Op, dtype, class...> constexpr void saw_source(int) {
    if constexpr (!std::is_same_v<Backend, planning_only>) add({});
  }
  [[gnu::noinline]] constexpr void add(typename Backend::launcher l) { launchers.push(l); }  // as `record` is
};

namespace detail {
// Each of the patterns is to name a parameter: a mistyped one would change the result and nothing else.
constexpr void check_patterns(graph_data& g, glob const& patterns) {
  std::size_t at = 0;
  for (std::string_view one = patterns.next(at); !one.empty() && g.unmatched.size == 0; one = patterns.next(at)) {
    bool any = false;
    for (int op = 0; op < g.ops.size && !any; ++op)
      any = g.ops.at[op].info->source == source_kind::parameter && matches(one, g.name(op).view());
    if (!any) g.unmatched = text<96>(one);
  }
}
}  // namespace detail

// Traces a training, whole: forward, backward, update. Into `g`, because clang evaluates the initialiser of a local once
// more while it instantiates the function, so that `auto g = trace(...)` would cost a second trace.
template <class G, class Model, class Optimizer, class Clip>
constexpr void trace(G& g, training<Model, Optimizer, Clip> const& t) {
  g.optimizer = t.optimizer;
  g.frozen = t.frozen;
  if constexpr (!requires { t.model(g); }) {
    (void)reject<mistake::model_has_no_const_call_operator_that_takes_a_graph<Model>>::value;
    g.poisoned = true;
  } else if constexpr (!requires { detail::results(t.model(g)); }) {
    (void)reject<mistake::model_returns_no_loss<decltype(t.model(g))>>::value;
    g.poisoned = true;
  } else detail::finish(g, detail::results(t.model(g)));
  if (g.poisoned) return;
  detail::check_patterns(g, t.frozen);
  if constexpr (requires { t.optimizer.no_decay.patterns; }) detail::check_patterns(g, t.optimizer.no_decay);
  if (g.stuck < 0 && g.trains) detail::update_parameters(g, t);
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
