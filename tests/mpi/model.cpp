#include "model.hpp"

#include <random>

#include <partita/device/cpu/backend.hpp>
#include <partita/grad/training.hpp>

#include "../support/models/gpt.hpp"
#include "../support/models/mixture.hpp"
#include "../support/models/recycled.hpp"

namespace partita::testing {

struct model_of_processes::traced {
  graph_data const* graph = nullptr;
  std::span<on_cpu::launcher const> launchers;
  growing<loss_entry> losses;
  virtual ~traced() = default;
};
template <class Model> struct model_of_processes::traced_as final : traced {
  using training_type = training<in_precision<Model, f64>, adamw, clip_norm>;
  recorder<on_cpu::backend, training_type> recorded;
  explicit traced_as(models::sizes const& sizes, Model const& model = {}) {
    training_type t;
    t.model.model = model;
    t.optimizer.weight_decay = 0.1;
    t.clip.max = 0.5;
    for (binding const& b : sizes.extents()) recorded.bindings.push(b);
    trace(recorded, t);
    graph = &recorded;
    launchers = {recorded.launchers.at, static_cast<std::size_t>(recorded.launchers.size)};
    losses = recorded.losses;
  }
};

model_of_processes::model_of_processes(models::sizes const& sizes, which_model which) {
  if (which == which_model::mixture) traced_ = std::make_unique<traced_as<models::mixture>>(sizes);
  else if (which == which_model::gpt) traced_ = std::make_unique<traced_as<models::gpt>>(sizes);
  else traced_ = std::make_unique<traced_as<models::recycled>>(sizes, models::recycled{.layers = 4});  // which has weights of 4
}
model_of_processes::~model_of_processes() = default;
graph_data const& model_of_processes::graph() const { return *traced_->graph; }
std::span<on_cpu::launcher const> model_of_processes::launchers() const { return traced_->launchers; }
std::unique_ptr<detail::engine> model_of_processes::train(plan_maker const& policy, std::unique_ptr<device_source> source,
                                                          trainer_options const& options) const {
  plan_base plan(*traced_->graph);
  policy(plan);
  return std::make_unique<detail::engine>(*traced_->graph, traced_->losses, std::move(plan), std::move(source), options);
}

batch_of_words::batch_of_words(graph_data const& g, unsigned seed) {
  std::mt19937 random(seed);
  const std::size_t words = g.extent(&axis_of<models::vocabulary>::info),
                    count = g.extent(&axis_of<models::sample>::info) * g.extent(&axis_of<models::position>::info);
  for (std::size_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<std::int32_t>(random() % words));
    targets.push_back(random() % 4 == 0 ? -1 : static_cast<std::int32_t>(random() % words));
  }
}

}  // namespace partita::testing
