// Compiled once for the full and long tests of plans on pretended GPUs.
#include <algorithm>
#include <cmath>

#include <partita/train/cuda_devices.hpp>

#include "../support/compare_step.hpp"
#include "../support/pretend/cuda.hpp"
#include "../support/pretend/nccl.hpp"
#include "../support/pretended_trial.hpp"
#include "../support/threads_as_processes.hpp"

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

// What compare_step asks of who made a step.
struct of_engine {
  detail::engine& made;
  std::vector<double> gradient(std::string const& name) const { return values_of(made.gradient(name)); }
  std::vector<double> parameter(std::string const& name) const { return values_of(made.parameter(name)); }
};

template <class Training, dtype Type> class trial_in final : public pretended_trial {
 public:
  trial_in(random_case const& c, unsigned seed, int steps)
      : case_(c), seed_(seed), steps_(steps), on_gpu_(trial_training<Training>(c, seed), c.extents) {}

  std::string fault(std::function<void(plan_base&)> const& make, int narrow_additions) override {
    const pretend::machine machine({.devices = 16, .seed = seed_});
    try {
      if (kept_.empty()) keep();
      const auto gpu = engine(make);
      return compared(*gpu, narrow_additions);
    } catch (std::exception const& e) { return e.what(); }
  }
  std::string fault_of_captured(std::function<void(plan_base&)> const& make) override {
    pretend::machine machine({.devices = 16, .seed = seed_});
    if (kept_.empty()) keep();
    const int devices = engine(make)->devices();
    const auto thrown = thread_processes::run(devices, [&](std::shared_ptr<processes> const& together, int me) {
      const auto gpu = engine(make, {.place = me, .timeout_seconds = 60}, together);
      if (const std::string fault = compared(*gpu); !fault.empty()) throw error(fault);
    });
    for (std::string const& each : thrown)
      if (!each.empty()) return each;
    const int launched = static_cast<int>(kept_.size()) - 1;
    for (int d = 0; d < devices; ++d)
      if (machine.at(d).graphs_launched() < launched) return words({"device ", d, " has not captured its steps"});
    return {};
  }

 private:
  // How far a step in bf16 is from the one in f64: the root of the mean square, over the size of the gradient, or over what
  // the training has changed of a weight. Summed over all tensors: of those that are small the distance is a matter of chance.
  struct distances {
    double loss = 0, gradients = 0, weights = 0;
  };
  // A step of one device, from equal weights or, in bf16, of a training whose weights are its own.
  struct kept_step {
    named_values inputs;
    step_kept::tensors before;
    double evaluated = 0;
    step_kept one, exact;  // in bf16: what is wanted is `exact`
    distances of_one;
  };

  std::string compared(detail::engine& gpu, [[maybe_unused]] int narrow_additions = 0) {
    if constexpr (is_narrow(Type)) return compare_narrow(gpu, narrow_additions);
    else return compare(gpu);
  }
  std::unique_ptr<detail::engine> engine(std::function<void(plan_base&)> const& make,
                                         on_cuda::cuda_options const& how = {.timeout_seconds = 60},
                                         std::shared_ptr<processes> together = {}) const {
    plan_base plan(*on_gpu_.graph);
    make(plan);
    return std::make_unique<detail::engine>(*on_gpu_.graph, on_gpu_.losses, std::move(plan),
                                            std::make_unique<gpu_source>(how, on_gpu_, std::move(together)),
                                            trainer_options{.seed = seed_, .learning_rate = learning_rate});
  }
  bool is_adamw() const { return on_gpu_.recorded.optimizer.is_adamw; }

  // Once for all plans.
  void keep() {
    std::mt19937 random(seed_ + 1);
    if constexpr (is_narrow(Type)) keep_narrow(random);
    else keep_wide(random);
  }
  void keep_wide(std::mt19937& random) {
    const auto one = make_one_device(case_, seed_, Type), exact = make_one_device(case_, seed_, f64);
    for (int step = 0; step < steps_; ++step) {
      kept_step k;
      for (std::string const& name : one->trained()) {
        k.before[name] = one->parameter(name);
        exact->set_parameter(name, Type == f64 ? nudged(k.before[name]) : k.before[name]);
      }
      k.inputs = case_.inputs(random);
      k.evaluated = one->evaluate(k.inputs);
      const double loss = one->step(k.inputs, learning_rate);
      if (!(std::abs(loss) < 1e6)) break;  // the training diverges
      k.one = step_kept::of(*one, loss);
      k.exact = step_kept::of(*exact, exact->step(k.inputs, 0));
      kept_.push_back(std::move(k));
    }
  }
  std::string compare(detail::engine& gpu) {
    agreement rule(Type), of_weights(Type);
    for (kept_step const& k : kept_) {
      if (&k != &kept_.front())
        for (auto const& [name, now] : k.before) {
          buffer whole(Type, now.size());
          for (std::size_t i = 0; i < now.size(); ++i) whole.set(i, now[i]);
          gpu.set_parameter(name, feed(name, whole.data(), whole.size(), Type));
        }
      const fed data(*on_gpu_.graph, k.inputs);
      if (&k == &kept_.front()) rule.loss(k.evaluated, gpu.evaluate(data.feeds()));
      rule.loss(k.one.loss, gpu.step(data.feeds()), std::abs(k.one.loss - k.exact.loss));
      compare_step(rule, of_weights, k.one, k.exact, of_engine{gpu}, is_adamw(), learning_rate);
      if (agreement const& worse = rule.worst() >= of_weights.worst() ? rule : of_weights; !worse.holds())
        return words({"step ", &k - kept_.data(), ": ", worse.where(), " differs by ", worse.worst(), " of what is allowed"});
    }
    return {};
  }

  void keep_narrow(std::mt19937& random) {
    const auto exact = make_one_device(case_, seed_, f64);
    const auto alone = engine(policy::single_device{});
    for (std::string const& name : alone->parameter_names()) exact->set_parameter(name, values_of(alone->parameter(name)));
    for (int step = 0; step < steps_; ++step) {
      kept_step k;
      for (std::string const& name : exact->trained())
        k.before[name] = step == 0 ? exact->parameter(name) : kept_[0].before[name];  // of the whole training
      k.inputs = case_.inputs(random);
      k.exact = step_kept::of(*exact, exact->step(k.inputs, learning_rate));
      k.of_one = distances_of(*alone, k);
      kept_.push_back(std::move(k));
    }
  }
  distances distances_of(detail::engine& made, kept_step const& k) const {
    const agreement rule(Type);
    const fed data(*on_gpu_.graph, k.inputs);
    distances d{std::abs(made.step(data.feeds()) - k.exact.loss), 0, 0};
    for (std::string const& name : k.exact.trained()) {
      std::vector<double> const &gradient = k.exact.gradient(name), &weight = k.exact.parameter(name);
      const double size = rule.size(gradient), changed = rule.distance(weight, k.before.find(name)->second);
      if (size > 0) d.gradients += rule.distance(gradient, values_of(made.gradient(name))) / size;
      if (changed > 0) d.weights += rule.distance(weight, values_of(made.parameter(name))) / changed;
    }
    return d;
  }
  std::string compare_narrow(detail::engine& gpu, int narrow_additions) {
    const double of_additions = static_cast<double>(kept_[0].exact.trained().size()) * narrow_additions * 0x1p-9;
    double loss_of_one = 0;  // its largest: how far a single number is, is a matter of chance
    for (kept_step const& k : kept_) loss_of_one = std::max(loss_of_one, k.of_one.loss);
    for (kept_step const& k : kept_) {
      const distances have = distances_of(gpu, k), &one = k.of_one;
      agreement rule(Type);
      rule.loss(k.exact.loss, k.exact.loss + have.loss, loss_of_one);
      if (!rule.holds())
        return words({"step ", &k - kept_.data(), ": the loss differs by ", rule.worst(), " of what is allowed"});
      for (auto const& [what, its, ones] :
           {std::tuple{"gradients", have.gradients, one.gradients}, std::tuple{"weights", have.weights, one.weights}}) {
        if (!(ones > 0)) return std::string(what) + ": one device in bf16 computes exactly";
        if (!(its <= 2 * ones + of_additions))
          return words({"step ", &k - kept_.data(), ": ", what, " are ", its / ones, " times as far from f64 as one device's, ",
                        (its - 2 * ones) / of_additions, " of what additions in bf16 may add to twice that"});
      }
    }
    return keeps_wide_weights(gpu) ? std::string() : "the weights that are kept are numbers of bf16";
  }
  // What the optimizer has changed is f32: of its last 16 bits not all are zero.
  bool keeps_wide_weights(detail::engine& gpu) const {
    std::size_t narrow_numbers = 0, all = 0;
    for (std::string const& name : kept_[0].exact.trained())
      for (double w : values_of(gpu.parameter(name))) {
        ++all;
        narrow_numbers += static_cast<double>(static_cast<float>(bfloat16(static_cast<float>(w)))) == w;
      }
    return narrow_numbers * 2 < all;
  }

  random_case case_;
  unsigned seed_;
  int steps_;
  on_cuda::detail::traced_with<pretend::launch, Training> on_gpu_;
  std::vector<kept_step> kept_;
};
using trial_narrow = training<in_precision<random_model, bf16>, either_optimizer, clip_norm>;
}  // namespace

std::unique_ptr<pretended_trial> make_pretended_trial(random_case const& c, unsigned seed, dtype type, int steps) {
  if (type == f64) return std::make_unique<trial_in<trial_double, f64>>(c, seed, steps);
  if (type == bf16) return std::make_unique<trial_in<trial_narrow, bf16>>(c, seed, steps);
  return std::make_unique<trial_in<trial_single, f32>>(c, seed, steps);
}

std::string pretended_fault(unsigned seed) {
  std::mt19937 random(seed);
  const bool experts = seed % 2 != 0;
  const random_case c = make_random_case(random, experts);
  std::string words;
  const std::string fault = make_pretended_trial(c, seed, experts ? f64 : f32, 2)->fault([&](plan_base& plan) {
    std::mt19937 again(seed);
    words = random_plan(plan, again, 8).make();
  });
  return fault.empty() ? fault : "seed " + std::to_string(seed) + ": " + words + "\n  " + fault;
}

}  // namespace partita::testing
