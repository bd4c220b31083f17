// Programs of random models under random plans, lowered and nothing more.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include <partita/program/lower.hpp>

#include "random_model.hpp"
#include "random_plan.hpp"

namespace partita::testing {

struct random_optimizer {
  bool is_adamw = false;
  adamw first{};
  sgd second{};
  template <class G, class P, class D, class S>
  constexpr void update(G& g, std::string_view name, P parameter, D gradient, S scale) const {
    if (is_adamw) first.update(g, name, parameter, gradient, scale);
    else second.update(g, name, parameter, gradient, scale);
  }
};

class random_programs {
 public:
  using training_type = training<random_model, random_optimizer, clip_norm>;
  using graph_type = recorder<planning_only, training_type>;

  explicit random_programs(unsigned seed, int most_devices = 8, bool lowered = true) {
    std::mt19937 random(seed);
    const random_case drawn = make_random_case(random, true);
    training_type t{};
    t.model = drawn.model;
    t.frozen = drawn.frozen;
    t.optimizer.is_adamw = seed / 2 % 2 == 0;
    t.optimizer.second.momentum = seed / 4 % 2 == 0 ? 0.9 : 0;
    t.clip.max = drawn.clip;
    for (binding const& b : drawn.extents) g.bindings.push(b);
    trace(g, t);
    plan = std::make_unique<plan_base>(g);
    words = "seed " + std::to_string(seed) + ": " + random_plan(*plan, random, most_devices).make();
    rejected = describe(verify_plan(g, *plan, completed_plan));
    if (!rejected.empty() || !lowered) return;
    lowering_options how;
    how.keep_gradients = seed % 3 != 0;
    how.fuse = seed % 5 != 0;
    how.bucket_bytes = random_bucket_bytes(seed);
    shared = std::make_unique<lowering>(g, *plan, completed_plan, how);
    for (int rank = 0; rank < completed_plan.devices; ++rank) {
      step.push_back(lower(*shared, rank));
      forward.push_back(lower(*shared, rank, true));
    }
  }

  graph_type g;
  std::unique_ptr<plan_base> plan;
  completed completed_plan;
  std::unique_ptr<lowering> shared;
  std::vector<program> step, forward;
  std::string words, rejected;
};

}  // namespace partita::testing
