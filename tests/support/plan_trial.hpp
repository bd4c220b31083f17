// One random model under one random plan, compared with one device.
#pragma once
#include <cstdlib>
#include <string>
#include <vector>

#include "random_model.hpp"
#include "random_plan.hpp"
#include "same_training.hpp"

namespace partita::testing {

struct trial_options {
  int most_devices = 8, steps = 3;
  bool print = false;       // the plan, whatever comes of it
  bool on_threads = false;  // by the executor too, whose bits are compared with the interpreter's
  bool minimise = false;    // a failing plan also in a smaller form
};
struct trial_result : comparison {
  std::string words;
};

using trial_single = training<random_model, either_optimizer, clip_norm>;
using trial_double = training<in_precision<random_model, f64>, either_optimizer, no_clip>;

// The training of a case: the number says which optimizer.
template <class Of> Of trial_training(random_case const& c, unsigned seed) {
  Of t{};
  if constexpr (std::is_same_v<typename Of::model_type, random_model>) t.model = c.model;
  else t.model.model = c.model;
  t.frozen = c.frozen;
  t.optimizer.is_adamw = seed / 2 % 2 == 0;
  t.optimizer.first.weight_decay = 0.1;
  t.optimizer.second.momentum = seed / 4 % 2 == 0 ? 0.9 : 0;
  if constexpr (Of::clip_type::clips) t.clip.max = c.clip;
  return t;
}

template <class Training> class plan_trial {
 public:
  plan_trial(unsigned seed, trial_options how = {})
      : how_(how),
        seed_(seed),
        random_(seed),
        case_(make_random_case(random_, seed % 2 != 0)),
        both_(trial_training<Training>(case_, seed), trial_training<trial_double>(case_, seed), case_.extents, seed),
        g_(both_.graph()) {}

  trial_result run() {
    trial_result r;
    plan_base plan(g_);
    r.words = "seed " + std::to_string(seed_) + ": " + random_plan(plan, random_, how_.most_devices).make();
    if (how_.print) std::printf("%s\n%s", r.words.c_str(), describe_plan(g_, plan).c_str());
    random_of_inputs_ = random_;
    static_cast<comparison&>(r) = compared(plan);
    if (r.fault.empty()) return r;
    std::string words = r.words + "\n  " + r.fault + "\n" + describe_plan(g_, plan);
    if (how_.minimise && r.fault.find("rejected") == std::string::npos) words += "smaller:\n" + smaller(plan);
    r.fault = words;
    return r;
  }
  // Takes cuts and assignments out while the plan still fails.
  std::string smaller(plan_base& plan) {
    std::string fault;
    for (bool any = true; any;) {
      any = false;
      for (int op = g_.ops.size - 1; op >= 0; --op) {
        auto attempt = [&](op_plan const& less) {
          const op_plan kept = plan.of(op);
          plan.of(op) = less;
          const std::string now = compared(plan).fault;
          if (now.empty() || now.find("rejected") != std::string::npos) {
            plan.of(op) = kept;
            return;
          }
          fault = now;
          any = true;
        };
        if (g_.ops[op].when != pass::forward && (plan.of(op).cut_count > 0 || plan.of(op).assigned)) attempt(op_plan{});
        for (int c = plan.of(op).cut_count - 1; c >= 0; --c) {
          op_plan less = plan.of(op);
          for (int k = c; k + 1 < less.cut_count; ++k) less.cuts[k] = less.cuts[k + 1];
          --less.cut_count;
          attempt(less);
        }
        for (int l = 0; l < plan.of(op).level_count; ++l)
          if (plan.of(op).levels[l].coordinate > 0) {
            op_plan less = plan.of(op);
            less.levels[l].coordinate = 0;
            attempt(less);
          }
      }
    }
    return "  " + fault + "\n" + describe_plan(g_, plan);
  }

 private:
  comparison compared(plan_base const& plan) {
    random_ = random_of_inputs_;
    return both_.under(plan, [this] { return case_.inputs(random_); },
                       {.steps = how_.steps,
                        .learning_rate = case_.learning_rate,
                        .on_threads = how_.on_threads,
                        .lanes = seed_ / 16 % 2 == 0 ? 1 : 2,
                        .bucket_bytes = random_bucket_bytes(seed_),
                        .also_without_buckets = seed_ % 4 == 3});
  }

  trial_options how_;
  unsigned seed_;
  std::mt19937 random_, random_of_inputs_;
  random_case case_;
  same_training<Training, trial_double> both_;
  typename same_training<Training, trial_double>::graph_type const& g_;
};

// The pair of a number, in one of two trainings. In random/plan_trial_shared.cpp, which takes long to compile.
trial_result run_trial(unsigned seed, trial_options how = {});

// A case on one device of the CPU, whatever the type of its training: in f64, or else in f32.
class one_device {
 public:
  virtual ~one_device() = default;
  virtual double step(named_values const& inputs, double learning_rate) = 0;
  virtual double evaluate(named_values const& inputs) = 0;
  virtual std::vector<double> parameter(std::string_view name) const = 0;
  virtual std::vector<double> gradient(std::string_view name) const = 0;
  virtual void set_parameter(std::string_view name, std::vector<double> const& to) = 0;
  virtual std::vector<std::string> trained() const = 0;
};
std::unique_ptr<one_device> make_one_device(random_case const& c, unsigned seed, dtype type);

}  // namespace partita::testing
