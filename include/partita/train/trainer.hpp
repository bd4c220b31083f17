// A trainer: a plan, devices, and steps.
//   pt::trainer<training> t{pt::plan_of<training, policy>, pt::cpu{.devices = 4}, pt::bind<sample>(32)};
//   float loss = t.step({{"x", images}, {"y", labels}});
#pragma once
#include <initializer_list>
#include <memory>
#include <vector>

#include <partita/device/cpu/backend.hpp>
#include <partita/plan/typed_plan.hpp>
#include <partita/train/checked_numbers.hpp>
#include <partita/train/engine.hpp>
#include <partita/train/thread_devices.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

// What a trainer can be given to run on: pt::cpu; pt::mpi_cpu (partita/mpi.hpp) where one process drives one device of
// many. Trainers of one training in several processes make the same calls in the same order.
template <class D>
concept device_description = requires(D const& d, std::span<on_cpu::launcher const> launchers) {
  { device_source_of(d, launchers) } -> std::same_as<std::unique_ptr<device_source>>;
};

// Or one whose kernels are compiled apart from the trainer, together with the trace: pt::cuda (partita/cuda.hpp).
template <class D, class Training>
concept tracing_device_description = requires(D const& d, Training const& t, std::span<binding const> extents) {
  { d.trace(t, extents) } -> std::same_as<traced_for_devices>;
};

namespace detail {
inline void refuse_idle_dimensions(plan_base const& plan) {
  if (plan.first_finding()) return;  // which the engine says
  if (const finding f = find_idle_dimension(plan)) throw error(describe(f));
}
}  // namespace detail

template <class Model> class trainer {
 public:
  using training_type = as_training<Model>;
  using graph_type = recorder<on_cpu::backend, training_type>;

  // `settings`: pt::bind<axis>(n) for extents that are known now, pt::trainer_options.
  template <device_description Devices, class... Settings>
  trainer(partita::plan<Model> const& plan, Devices const& devices, Settings const&... settings)
      : graph_(std::make_unique<graph_type>()) {
    for (binding const& b : plan.traced().bindings) graph_->bindings.push(b);
    const trainer_options options = follow(plan.model(), settings...);
    start(plan.for_graph(*graph_), devices, options);
  }
  // A plan that is a type, for a model that is a value: `trainer{model, policy, pt::cpu{}, ...}`. The model is traced
  // once, with the kernels; a `pt::plan<Model>` would be a second trace, and its templates a second time to compile.
  template <class Policy, device_description Devices, class... Settings>
  requires(requires(Policy const& p, plan_base& made) { p(made); })
      trainer(training_type const& model, Policy const& policy, Devices const& devices, Settings const&... settings)
      : graph_(std::make_unique<graph_type>()) {
    const trainer_options options = follow(model, settings...);
    plan_base made(*graph_);
    policy(made);
    detail::refuse_idle_dimensions(made);
    start(std::move(made), devices, options);
  }
  template <class Policy, device_description Devices, class... Settings>
  trainer(static_plan<Model, Policy>, Devices const& devices, Settings const&... settings)
      : trainer(training_type{}, Policy{}, devices, settings...) {}

  template <tracing_device_description<training_type> Devices, class... Settings>
  trainer(partita::plan<Model> const& plan, Devices const& devices, Settings const&... settings) {
    std::vector<binding> extents(plan.traced().bindings.begin(), plan.traced().bindings.end());
    trainer_options options;
    (note(settings, extents, options), ...);
    detail::check_training(plan.model());
    traced_for_devices traced = devices.trace(plan.model(), extents);
    start(plan.for_graph(*traced.graph), std::move(traced), options);
  }
  template <class Policy, tracing_device_description<training_type> Devices, class... Settings>
  requires(requires(Policy const& p, plan_base& made) { p(made); })
      trainer(training_type const& model, Policy const& policy, Devices const& devices, Settings const&... settings) {
    std::vector<binding> extents;
    trainer_options options;
    (note(settings, extents, options), ...);
    detail::check_training(model);
    traced_for_devices traced = devices.trace(model, extents);
    plan_base made(*traced.graph);
    policy(made);
    detail::refuse_idle_dimensions(made);
    start(std::move(made), std::move(traced), options);
  }
  template <class Policy, tracing_device_description<training_type> Devices, class... Settings>
  trainer(static_plan<Model, Policy>, Devices const& devices, Settings const&... settings)
      : trainer(training_type{}, Policy{}, devices, settings...) {}

  // One step on the whole batch: forward, backward, update. Returns the loss before the update. Of an input, a process of
  // many may give the box that `input_box` names instead.
  float step(std::initializer_list<feed> inputs) { return step(std::vector<feed>(inputs)); }
  float step(std::vector<feed> const& inputs) { return static_cast<float>(engine_->step(inputs)); }
  // The forward part, dropout off. Returns the loss; the outputs are in `output(name)`.
  float evaluate(std::initializer_list<feed> inputs) { return evaluate(std::vector<feed>(inputs)); }
  float evaluate(std::vector<feed> const& inputs) { return static_cast<float>(engine_->evaluate(inputs)); }

  void set_learning_rate(double rate) { engine_->set_learning_rate(rate); }
  double learning_rate() const { return engine_->learning_rate(); }
  std::int64_t steps() const { return engine_->steps(); }

  // Whole tensors, gathered.
  host_tensor parameter(std::string_view name) const { return engine_->parameter(name); }
  host_tensor gradient(std::string_view name) const { return engine_->gradient(name); }
  host_tensor state(std::string_view name) const { return engine_->state(name); }
  host_tensor output(std::string_view name) const { return engine_->output(name); }
  std::vector<host_tensor> outputs() const {
    std::vector<host_tensor> all;
    for (std::string const& name : engine_->output_names()) all.push_back(engine_->output(name));
    return all;
  }
  template <class Range> void set_parameter(std::string_view name, Range const& values) {
    engine_->set_parameter(name, feed(name, values));
  }
  template <class Range> void set_state(std::string_view name, Range const& values) {
    engine_->set_state(name, feed(name, values));
  }
  std::vector<std::string> state_names() const { return engine_->state_names(); }
  std::vector<std::string> parameter_names(bool trained_only = false) const { return engine_->parameter_names(trained_only); }
  std::size_t parameter_count() const { return engine_->parameter_count(); }

  // What this process's devices read of an input: what `step` may be given instead of the whole. Empty: nothing.
  box input_box(std::string_view name) const { return engine_->input_box(name); }

  int devices() const { return engine_->devices(); }
  std::vector<memory_use> memory() const { return engine_->memory(); }
  communication_use communication() const { return engine_->communication(); }
  double step_flops() const { return engine_->step_flops(); }
  detail::engine const& engine() const { return *engine_; }
  detail::engine& engine() { return *engine_; }

 private:
  template <class... Settings> trainer_options follow(training_type const& model, Settings const&... settings) {
    trainer_options options;
    (take(settings, options), ...);
    detail::check_training(model);
    trace(*graph_, model);
    return options;
  }
  template <class Devices> void start(plan_base made, Devices const& devices, trainer_options const& options) {
    if (const finding f = check_model(*graph_)) throw error(describe(f));
    const std::span<on_cpu::launcher const> launchers(graph_->launchers.at, static_cast<std::size_t>(graph_->launchers.size));
    engine_ =
        std::make_unique<detail::engine>(*graph_, graph_->losses, std::move(made), device_source_of(devices, launchers), options);
  }
  void start(plan_base made, traced_for_devices traced, trainer_options const& options) {
    if (const finding f = check_model(*traced.graph)) throw error(describe(f));
    traced_ = traced.graph;
    engine_ = std::make_unique<detail::engine>(*traced_, traced.losses, std::move(made), std::move(traced.source), options);
  }
  static void note(binding const& b, std::vector<binding>& extents, trainer_options&) { extents.push_back(b); }
  static void note(trainer_options const& o, std::vector<binding>&, trainer_options& options) { options = o; }
  void take(binding const& b, trainer_options&) { graph_->bindings.push(b); }
  void take(trainer_options const& o, trainer_options& options) { options = o; }
  std::unique_ptr<graph_type> graph_;  // one of the two
  std::shared_ptr<graph_data const> traced_;
  std::unique_ptr<detail::engine> engine_;
};

// As in plan/verify.hpp, and chosen before it: traced by the recorder that a trainer has, so that a program with both
// compiles its model's rules once.
template <class Model, class Policy>
requires detail::policy_for<Policy>
constexpr bool verify() {
  detail::explain_finding<detail::checked_type<as_training<Model>, Policy, on_cpu::backend>, Policy>();
  return true;
}
template <auto Model, class Policy>
requires detail::policy_for<Policy>
constexpr bool verify() {
  using training_type = as_training<std::remove_const_t<decltype(Model)>>;
  detail::explain_finding<detail::checked<training_type{Model}, Policy, on_cpu::backend>, Policy>();
  return true;
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
