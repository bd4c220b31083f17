// Plans of a model: `pt::plan<Model>`, made at run time, and `pt::plan_of<Model, Policy>`, proved while compiling.
#pragma once
#include <memory>
#include <vector>

#include <partita/core/error.hpp>
#include <partita/plan/verify.hpp>

namespace partita {

// A run-time plan. It holds its own trace of the model: `pt::plan<mlp> p; policy(p);` or
// `auto p = pt::plan<mlp>::by(policy, mlp{}, pt::bind<sample>(32));`
template <class Model> class plan : public plan_base {
 public:
  using training_type = as_training<Model>;
  using graph_type = recorder<planning_only, training_type>;

  template <std::same_as<binding>... B> explicit plan(training_type const& model = {}, B... extents)
      : plan(std::make_shared<graph_type>(), model, {extents...}) {}
  plan(training_type const& model, std::vector<binding> const& extents) : plan(std::make_shared<graph_type>(), model, extents) {}

  template <class Policy, std::same_as<binding>... B>
  static plan by(Policy const& policy, training_type const& model = {}, B... extents) {
    plan p(model, extents...);
    if constexpr (detail::policy_for<Policy>) policy(static_cast<plan_base&>(p));  // compiled once for all models
    else policy(p);
    return p;
  }
  training_type const& model() const { return model_; }
  graph_type const& traced() const { return *traced_; }
  int devices() const {
    int n = 0;
    for (int op = 0; op < traced_->ops.size; ++op)
      if (of(op).assigned) n = std::max(n, detail::devices_of(*this, of(op)));
    for (node_plan const& x : nodes())
      if (x.own.assigned) n = std::max(n, detail::devices_of(*this, x.own));
    return n;
  }
  // What is wrong with the plan, or nothing. What needs an extent that is bound later is checked then.
  finding check() const {
    if (const finding f = check_model(*traced_)) return f;
    completed c;
    return verify_plan(*traced_, *this, c);
  }

 private:
  plan(std::shared_ptr<graph_type> g, training_type const& model, std::vector<binding> const& extents)
      : plan_base(trace_into(*g, model, extents)), model_(model), traced_(std::move(g)) {}
  static graph_type& trace_into(graph_type& g, training_type const& model, std::vector<binding> const& extents) {
    for (binding const& b : extents) g.bindings.push(b);
    trace(g, model);
    return g;
  }
  training_type model_;
  std::shared_ptr<graph_type> traced_;
};

// A plan that is a type: verified when it is named, made anew where a run-time plan is wanted.
template <class Model, class Policy> struct static_plan {
  static constexpr bool verified = verify<Model, Policy>();
  static constexpr int devices() { return detail::count_devices(as_training<Model>{}, Policy{}); }
  static constexpr finding check() { return partita::check<Model, Policy>; }
  operator plan<Model>() const { return plan<Model>::by(Policy{}); }
};
template <class Model, class Policy> inline constexpr static_plan<Model, Policy> plan_of{};

}  // namespace partita
