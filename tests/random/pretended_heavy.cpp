// Compiled once for the full and long tests of plans on pretended GPUs.
#include <algorithm>
#include <cmath>

#include <partita/train/cuda_devices.hpp>

#include "../support/pretend/cuda.hpp"
#include "../support/pretend/nccl.hpp"
#include "../support/pretended_trial.hpp"

namespace partita::testing {

namespace {
using gpu_source = on_cuda::cuda_source<pretend::cuda, pretend::nccl>;
constexpr double learning_rate = 0.01;

std::vector<double> values_of(host_tensor const& t) {
  std::vector<double> all(t.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = t[i];
  return all;
}
// Numbers in the types that the graph's inputs have.
class fed {
 public:
  fed(graph_data const& g, named_values const& given) {
    for (int op = 0; op < g.ops.size; ++op) {
      if (g.ops[op].info->source != source_kind::input) continue;
      names_.emplace_back(g.name(op).view());
      values const& from = given.find(names_.back())->second;
      buffer whole(g.ops[op].info->outputs[0].type, from.all.size());
      for (std::size_t i = 0; i < from.all.size(); ++i) whole.set(i, from.all[i]);
      types_.push_back(g.ops[op].info->outputs[0].type);
      all_.push_back(std::move(whole));
    }
    for (std::size_t i = 0; i < all_.size(); ++i) feeds_.push_back(feed(names_[i], all_[i].data(), all_[i].size(), types_[i]));
  }
  std::vector<feed> const& feeds() const { return feeds_; }

 private:
  std::vector<std::string> names_;
  std::vector<dtype> types_;
  std::vector<buffer> all_;
  std::vector<feed> feeds_;
};

template <class Training, dtype Type> class trial_in final : public pretended_trial {
 public:
  trial_in(random_case const& c, unsigned seed) : case_(c), seed_(seed), on_gpu_(trial_training<Training>(c, seed), c.extents) {}

  std::string fault(std::function<void(plan_base&)> const& make, int steps) override {
    const pretend::machine machine({.devices = 16, .seed = seed_});
    try {
      const auto gpu = engine(make);
      if constexpr (is_narrow(Type)) {
        const auto alone = engine(policy::single_device{});
        return compare_narrow(*gpu, *alone);
      } else return compare(*gpu, steps);
    } catch (std::exception const& e) { return e.what(); }
  }

 private:
  std::unique_ptr<detail::engine> engine(std::function<void(plan_base&)> const& make) const {
    plan_base plan(*on_gpu_.graph);
    make(plan);
    return std::make_unique<detail::engine>(
        *on_gpu_.graph, on_gpu_.losses, std::move(plan),
        std::make_unique<gpu_source>(on_cuda::cuda_options{.timeout_seconds = 60}, on_gpu_.launchers, on_gpu_.boxes),
        trainer_options{.seed = seed_, .learning_rate = learning_rate});
  }
  named_values inputs(std::mt19937& random) const { return case_.inputs(random); }
  bool is_adamw() const { return on_gpu_.recorded.optimizer.is_adamw; }

  std::string compare(detail::engine& gpu, int steps) {
    const auto one = make_one_device(case_, seed_, Type), exact = make_one_device(case_, seed_, f64);
    std::mt19937 random(seed_ + 1);
    agreement rule(Type);
    for (int step = 0; step < steps; ++step) {
      for (std::string const& name : gpu.parameter_names()) {
        const std::vector<double> now = one->parameter(name);
        buffer whole(Type, now.size());
        for (std::size_t i = 0; i < now.size(); ++i) whole.set(i, now[i]);
        if (step > 0) gpu.set_parameter(name, feed(name, whole.data(), whole.size(), Type));
        exact->set_parameter(name, Type == f64 ? nudged(now) : now);
      }
      const named_values given = inputs(random);
      const fed data(*on_gpu_.graph, given);
      rule.loss(one->evaluate(given), gpu.evaluate(data.feeds()));
      const double wanted = one->step(given, learning_rate);
      if (!(std::abs(wanted) < 1e6)) break;  // the training diverges
      rule.loss(wanted, gpu.step(data.feeds()), std::abs(wanted - exact->step(given, 0)));
      double most_gradient = 0, most_weight = 0;
      for (std::string const& name : one->trained()) {
        most_gradient = std::max(most_gradient, largest(one->gradient(name)));
        most_weight = std::max(most_weight, largest(one->parameter(name)));
      }
      for (std::string const& name : one->trained()) {
        const std::vector<double> gradient = one->gradient(name), weight = one->parameter(name);
        const double allowed = rule.allowed(gradient, most_gradient, farthest(gradient, exact->gradient(name)));
        rule.tensor("gradient of " + name, gradient, values_of(gpu.gradient(name)), allowed);
        const std::vector<double> have = values_of(gpu.parameter(name));
        if (is_adamw()) rule.adamw(name, weight, have, gradient, allowed, learning_rate);
        else rule.tensor(name, weight, have, rule.allowed(weight, most_weight, learning_rate * allowed));
      }
    }
    if (rule.holds()) return {};
    return rule.where() + " differs by " + std::to_string(rule.worst()) + " of what is allowed";
  }

  std::string compare_narrow(detail::engine& gpu, detail::engine& alone) {
    const auto exact = make_one_device(case_, seed_, f64);
    std::mt19937 random(seed_ + 1);
    const named_values given = inputs(random);
    const fed data(*on_gpu_.graph, given);
    for (std::string const& name : gpu.parameter_names()) exact->set_parameter(name, values_of(gpu.parameter(name)));
    const double wanted = exact->step(given, 0), of_alone = alone.step(data.feeds());
    agreement rule(Type);
    rule.loss(wanted, gpu.step(data.feeds()), std::abs(of_alone - wanted));
    if (!rule.holds()) return "the loss differs by " + std::to_string(rule.worst()) + " of what is allowed";
    double of_one = 0, of_plan = 0;
    for (std::string const& name : exact->trained()) {
      const std::vector<double> gradient = exact->gradient(name);
      const double size = rule.size(gradient);
      if (size == 0) continue;
      of_one += rule.distance(gradient, values_of(alone.gradient(name))) / size;
      of_plan += rule.distance(gradient, values_of(gpu.gradient(name))) / size;
    }
    if (!(of_one > 0)) return "one device in bf16 computes exactly";
    if (of_plan <= 2 * of_one) return {};
    return "gradients are " + std::to_string(of_plan / of_one) + " times as far from f64 as one device's";
  }

  random_case case_;
  unsigned seed_;
  on_cuda::detail::traced_with<pretend::launch, Training> on_gpu_;
};
using trial_narrow = training<in_precision<random_model, bf16>, either_optimizer, clip_norm>;
}  // namespace

std::unique_ptr<pretended_trial> make_pretended_trial(random_case const& c, unsigned seed, dtype type) {
  if (type == f64) return std::make_unique<trial_in<trial_double, f64>>(c, seed);
  if (type == bf16) return std::make_unique<trial_in<trial_narrow, bf16>>(c, seed);
  return std::make_unique<trial_in<trial_single, f32>>(c, seed);
}

std::string pretended_fault(unsigned seed) {
  std::mt19937 random(seed);
  const bool experts = seed % 2 != 0;
  const random_case c = make_random_case(random, experts);
  std::string words;
  const std::string fault = make_pretended_trial(c, seed, experts ? f64 : f32)->fault([&](plan_base& plan) {
    std::mt19937 again(seed);
    words = random_plan(plan, again, 8).make();
  });
  return fault.empty() ? fault : "seed " + std::to_string(seed) + ": " + words + "\n  " + fault;
}

}  // namespace partita::testing
