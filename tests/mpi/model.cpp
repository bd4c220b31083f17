#include "model.hpp"

#include <random>

#include <partita/device/cpu/backend.hpp>
#include <partita/grad/training.hpp>

#include "../support/models/mixture.hpp"

namespace partita::testing {

using training_type = training<in_precision<models::mixture, f64>, adamw, clip_norm>;

struct model_of_processes::traced {
  recorder<on_cpu::backend, training_type> graph;
};

model_of_processes::model_of_processes(models::sizes const& sizes) : traced_(std::make_unique<traced>()) {
  training_type t;
  t.optimizer.weight_decay = 0.1;
  t.clip.max = 0.5;
  for (binding const& b : sizes.extents()) traced_->graph.bindings.push(b);
  trace(traced_->graph, t);
}
model_of_processes::~model_of_processes() = default;
graph_data const& model_of_processes::graph() const { return traced_->graph; }
std::span<on_cpu::launcher const> model_of_processes::launchers() const {
  return {traced_->graph.launchers.at, static_cast<std::size_t>(traced_->graph.launchers.size)};
}
std::unique_ptr<detail::engine> model_of_processes::train(plan_maker const& policy, std::unique_ptr<device_source> source,
                                                          trainer_options const& options) const {
  plan_base plan(traced_->graph);
  policy(plan);
  return std::make_unique<detail::engine>(traced_->graph, traced_->graph.losses, std::move(plan), std::move(source), options);
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
