// The same training under several plans, compared with one device: losses, gradients, weights, time, traffic, memory.
#pragma once
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "gpt.hpp"
#include "gpt_options.hpp"

// What "the same" means. Rounding differs between plans, so, step by step from equal weights:
// - a loss is within 1e-5 of its value;
// - a gradient within 1e-5 of max(the tensor's largest, 1e-3 of the model's largest);
// - a weight within 1e-5 of (the tensor's largest + learning rate) where the gradient is well above rounding.
// Elsewhere
//   AdamW makes a step of about the learning rate of a sign that may be rounding's alone, so there the weight is
//   within 2 x learning rate of that.
// After that the plans go on by themselves, and their losses stay within 1e-5.
inline constexpr double tolerance = 1e-5, well_above_rounding = 0.05;
inline constexpr int steps_from_equal_weights = 3, steps_compared = 8;

// What a process holds beside the memory planned for its devices: graphs, programs, threads.
inline constexpr double unplanned_mebibytes = 32;

using named_tensors = std::map<std::string, std::vector<float>>;

struct plan_result {
  parallel plan;
  std::vector<double> losses;                     // by step
  std::vector<named_tensors> gradients, weights;  // of the steps from equal weights; weights after the step
  double seconds = 0;                             // the median step
  double sent = 0;                                // bytes a step, all devices together
  double planned = 0, measured = 0, growth = 0;   // bytes
};

struct plan_differences {  // the largest, as parts of what they are measured by
  double loss = 0, gradients = 0, weights = 0;
  bool other_weights_near = true;  // those whose gradient is not well above rounding
  bool agree() const { return loss <= tolerance && gradients <= tolerance && weights <= tolerance && other_weights_near; }
};

inline double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }
inline std::vector<float> floats(pt::host_tensor const& t) { return {t.as<float>(), t.as<float>() + t.size()}; }
inline double largest(std::vector<float> const& all) {
  double most = 0;
  for (float x : all) most = std::max(most, std::abs(double{x}));
  return most;
}

// A few steps from the beginning. `make(plan)` gives a trainer; `one` is what one device did, or null if this is it.
template <class Make> plan_result try_plan(parallel const& plan, Make make, plan_result const* one, pt::text_data const& data,
                                           std::size_t batch, std::size_t length) {
  plan_result r;
  r.plan = plan;
  const bool peak_restarts = pt::reset_peak_memory();
  const std::size_t before = pt::measure_memory().now;
  auto trainer = make(plan);
  const std::vector<std::string> names = trainer.parameter_names();
  std::vector<double> seconds;
  for (std::size_t step = 0; step < steps_compared; ++step) {
    const pt::text_batch b = data.batch(step, batch, length);
    const double begin = now();
    r.losses.push_back(trainer.step({{"tokens", b.inputs}, {"targets", b.targets}}));
    seconds.push_back(now() - begin);
    if (step == 0) {  // before this program copies tensors
      const pt::process_memory held = pt::measure_memory();
      r.growth = static_cast<double>(peak_restarts ? held.peak : held.now) - static_cast<double>(before);
    }
    if (step >= steps_from_equal_weights) continue;
    named_tensors gradients, weights;
    for (std::string const& name : names) {
      gradients[name] = floats(trainer.gradient(name));
      weights[name] = floats(trainer.parameter(name));
      if (one != nullptr) trainer.set_parameter(name, one->weights[step].at(name));
    }
    r.gradients.push_back(std::move(gradients));
    r.weights.push_back(std::move(weights));
  }
  std::sort(seconds.begin(), seconds.end());
  r.seconds = seconds[seconds.size() / 2];
  r.sent = static_cast<double>(trainer.communication().bytes);
  for (pt::memory_use const& m : trainer.memory()) {
    r.planned += static_cast<double>(m.planned);
    r.measured += static_cast<double>(m.measured);
  }
  return r;
}

inline plan_differences compare(plan_result const& one, plan_result const& other, double learning_rate) {
  plan_differences d;
  auto keep = [](double& most, double part) { most = part <= most ? most : part; };  // a NaN stays
  for (std::size_t step = 0; step < one.losses.size(); ++step)
    keep(d.loss, std::abs(other.losses[step] - one.losses[step]) / std::abs(one.losses[step]));
  for (std::size_t step = 0; step < one.gradients.size(); ++step) {
    double most = 0;
    for (auto const& [name, g] : one.gradients[step]) most = std::max(most, largest(g));
    for (auto const& [name, g] : one.gradients[step]) {
      std::vector<float> const &h = other.gradients[step].at(name), &w = one.weights[step].at(name),
                               &v = other.weights[step].at(name);
      const double gradient_scale = std::max(largest(g), 1e-3 * most), weight_scale = largest(w) + learning_rate;
      for (std::size_t i = 0; i < g.size(); ++i) {
        keep(d.gradients, std::abs(double{h[i]} - g[i]) / gradient_scale);
        const double apart = std::abs(double{v[i]} - w[i]);
        if (std::abs(g[i]) >= well_above_rounding * gradient_scale) keep(d.weights, apart / weight_scale);
        else if (!(apart <= tolerance * weight_scale + 2 * learning_rate)) d.other_weights_near = false;
      }
    }
  }
  return d;
}

// Prints the table; returns whether every plan agrees with the first and keeps to its memory.
inline bool print_comparison(std::vector<plan_result> const& results, double learning_rate) {
  pt::table table({"plan", "devices", "loss", "gradients", "weights", "ms/step", "MiB sent", "planned", "measured", "process"});
  auto shown = [](const char* format, double value) {
    char text[32];
    std::snprintf(text, sizeof text, format, value);
    return std::string(text);
  };
  constexpr double mebibyte = 1 << 20;
  plan_result const& one = results.front();
  bool agree = true, fit = true;
  for (plan_result const& r : results) {
    const plan_differences d = compare(one, r, learning_rate);
    const bool first = &r == &one;
    table.row(r.plan.text(), r.plan.devices(), shown("%.6f", r.losses.back()), first ? "-" : shown("%.1e", d.gradients),
              first ? "-" : shown("%.1e", d.weights), shown("%.0f", 1e3 * r.seconds), shown("%.2f", r.sent / mebibyte),
              shown("%.1f", r.planned / mebibyte), shown("%.1f", r.measured / mebibyte), shown("%.1f", r.growth / mebibyte));
    agree = agree && d.agree();
    fit = fit && r.measured <= r.planned && r.growth <= r.planned + unplanned_mebibytes * mebibyte;
  }
  std::printf(
      "%s\n"
      "loss       of step %d\n"
      "gradients  largest difference from one device, as a part of the tensor's largest gradient, and\n"
      "weights    largest difference after AdamW, as a part of the tensor's largest weight, where the gradient is "
      "well\n"
      "           above rounding: both of steps 1 to %d, each from one device's weights\n"
      "MiB        of all devices together: sent in a step; the peak planned before anything ran, and what was "
      "resident\n"
      "           of it in the end; the peak of what the whole process grew by\n\n",
      table.text().c_str(), steps_compared, steps_from_equal_weights);
  std::printf(agree ? "Every plan agrees with one device: losses, gradients and weights within %.0e.\n"
                    : "NOT every plan agrees with one device: something differs by more than %.0e.\n",
              tolerance);
  std::printf(fit ? "Every plan kept to its memory, and the process took no more than %.0f MiB beside it.\n"
                  : "NOT every plan kept to its memory, with %.0f MiB for the process beside it.\n",
              unplanned_mebibytes);
  return agree && fit;
}
