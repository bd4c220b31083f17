// Predicted against measured, on two CPU devices of this machine: step time and peak memory of plans of three models.
// The profile is measured first, on pieces of the models' ops; no plan is run to make it. Takes some minutes; wants
// both cores.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <partita/partita.hpp>
#include <partita/profile/host.hpp>
#include <partita/profile/host_simulation.hpp>

#include "models/gpt.hpp"
#include "models/llama.hpp"

namespace pt = partita;

namespace {

using clock_type = std::chrono::steady_clock;
double seconds_since(clock_type::time_point begin) { return std::chrono::duration<double>(clock_type::now() - begin).count(); }

using namespace benchmark_model;
using gpt_training = pt::training<gpt<pt::f32>, pt::adamw, pt::clip_norm>;
using llama_training = pt::training<llama_of<false, pt::f32>, pt::adamw, pt::clip_norm>;
const gpt_sizes of_gpt{2, 512, 256, 4, 16, 128};
const llama_sizes of_llama{2, 512, 256, 4, 1, 1024, 16, 128};

struct image : pt::axis<"image", 512> {};
struct pixel : pt::axis<"pixel", 784> {};
struct wide : pt::axis<"wide", 1536> {};
struct wider : pt::axis<"wider", 1024> {};
struct label : pt::axis<"class", 16> {};
struct classifier {
  constexpr auto operator()(auto& g) const {
    using pt::f32, pt::i32;
    auto x = pt::input<f32, image, pixel>(g, "x");
    auto y = pt::input<i32, image>(g, "y");
    auto h1 =
        pt::relu(pt::linear(x, pt::param<f32, pixel, wide>(g, "fc1.weight"), pt::param<f32, wide>(g, "fc1.bias", pt::zeros)));
    auto h2 =
        pt::relu(pt::linear(h1, pt::param<f32, wide, wider>(g, "fc2.weight"), pt::param<f32, wider>(g, "fc2.bias", pt::zeros)));
    return pt::cross_entropy(pt::linear(h2, pt::param<f32, wider, label>(g, "fc3.weight")), y);
  }
};

struct cuts {
  const char* name;
  int data = 1, tensor = 1, stages = 1, micro_batches = 1, zero = 0;
  bool sequence = false, recompute = false;
  void operator()(auto& plan) const {
    if (stages > 1 || micro_batches > 1) pt::policy::pipeline_of{stages, micro_batches}(plan);
    pt::policy::data_parallel_of{data}(plan);
    pt::policy::tensor_parallel_of{tensor}(plan);
    if (sequence) pt::policy::sequence_parallel_of{tensor}(plan);
    if (recompute) pt::policy::recompute_of{}(plan);
    if (zero > 0) pt::policy::zero_of{zero, data}(plan);
  }
};

struct row {
  std::string model, plan;
  double measured, predicted, at_speed;  // seconds; predicted for the machine as it was beside the profile, and beside the steps
  std::size_t held, planned;             // bytes of the device that holds most
  double error() const { return predicted / measured - 1; }
  double error_at_speed() const { return at_speed / measured - 1; }
};

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

// A machine that others share is not as fast in one minute as in the next. So the plans take turns, a step each, and the first
// of them is timed before the profile and after it as well: `speed` tells how fast the machine was beside the profile in units of
// how fast it was beside the steps.
template <class Training> struct compared_plans {
  std::string name;
  const pt::cpu devices{.devices = 2, .threads = 1};
  std::vector<pt::plan<Training>> plans;
  std::vector<std::unique_ptr<pt::trainer<Training>>> trainers;
  std::vector<std::vector<double>> seconds;

  compared_plans(std::string const& of, Training const& model, std::vector<pt::binding> const& extents,
                 std::vector<cuts> const& all)
      : name(of), seconds(all.size()) {
    plans.reserve(all.size());
    for (cuts const& c : all) {
      c(plans.emplace_back(model, extents));
      trainers.push_back(
          std::make_unique<pt::trainer<Training>>(plans.back(), devices, pt::trainer_options{.keep_gradients = false}));
    }
  }
  static double step(pt::trainer<Training>& t, std::vector<pt::feed> const& batch) {
    const auto begin = clock_type::now();
    t.step(batch);
    return seconds_since(begin);
  }
  double yardstick(std::vector<pt::feed> const& batch) {
    std::vector<double> times;
    for (int i = 0; i < 9; ++i) times.push_back(step(*trainers.front(), batch));
    return median(times);
  }
  void take_turns(std::vector<pt::feed> const& batch) {
    const auto begin = clock_type::now();
    for (int round = 0; round < 15 || (round < 99 && seconds_since(begin) < 5); ++round)
      for (std::size_t p = 0; p < plans.size(); ++p) seconds[p].push_back(step(*trainers[p], batch));
  }
};

template <class Training> void compare(std::string const& name, Training const& model, std::vector<pt::binding> const& extents,
                                       std::vector<pt::feed> const& batch, std::vector<cuts> const& all, std::vector<row>& rows) {
  compared_plans<Training> compared(name, model, extents, all);
  for (auto& t : compared.trainers)
    for (int warm = 0; warm < 2; ++warm) t->step(batch);
  const double before = compared.yardstick(batch);
  const auto begin = clock_type::now();
  const pt::profile measured = pt::measure<Training>(compared.devices, model, pt::measure_options{}, extents);
  const double took = seconds_since(begin), after = compared.yardstick(batch);
  compared.take_turns(batch);
  const double speed = 2 * median(compared.seconds.front()) / (before + after);
  std::printf("# %s: profile in %.1f s, the machine %.3f times as fast as beside the steps\n", name.c_str(), took, speed);
  const pt::costs costs(pt::host_cluster(measured), measured);
  for (std::size_t p = 0; p < all.size(); ++p) {
    const pt::simulation s =
        pt::simulate_on_host(compared.plans[p], costs, {.threads = 1, .fuse = true, .keep_gradients = false});
    row r{name, all[p].name, median(compared.seconds[p]), s.seconds, s.seconds * speed, 0, 0};
    const auto memory = compared.trainers[p]->memory();
    for (std::size_t d = 0; d < memory.size(); ++d) {
      if (memory[d].measured < r.held) continue;
      r.held = memory[d].measured;
      r.planned = s.of_rank(static_cast<int>(d)).peak_bytes();
    }
    rows.push_back(r);
    std::printf("%-10s  %-22s  %8.2f  %8.2f  %+6.1f%%  %+6.1f%%    %8.2f  %8.2f  %+6.2f%%\n", name.c_str(), all[p].name,
                r.measured * 1e3, r.predicted * 1e3, 100 * r.error(), 100 * r.error_at_speed(),
                static_cast<double>(r.held) / 1048576.0, static_cast<double>(r.planned) / 1048576.0,
                100.0 * (static_cast<double>(r.planned) / static_cast<double>(r.held) - 1));
    std::fflush(stdout);
  }
}

// Kendall's tau-b over pairs of rows of one model, or of all.
double tau(std::vector<row> const& rows) {
  double agree = 0, pairs = 0;
  for (std::size_t i = 0; i < rows.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const double m = rows[i].measured - rows[j].measured, p = rows[i].predicted - rows[j].predicted;
      agree += m * p > 0 ? 1 : -1;
      ++pairs;
    }
  return pairs > 0 ? agree / pairs : 1;
}

}  // namespace

int main(int argument_count, char**) {
  if (argument_count > 1) {
    std::printf(
        "benchmark_prediction: predicted against measured step time and peak memory of 19 plans of three models, on two CPU\n"
        "devices of this machine. It takes no arguments, some minutes, and both cores.\n");
    return 0;
  }
  std::mt19937 random(1);
  auto numbers = [&](std::size_t n, std::size_t most) {
    std::vector<std::int32_t> all(n);
    for (auto& x : all) x = static_cast<std::int32_t>(random() % most);
    return all;
  };
  const auto tokens = numbers(of_gpt.samples * of_gpt.positions, of_gpt.vocabulary),
             targets = numbers(tokens.size(), of_gpt.vocabulary), labels = numbers(image::extent, label::extent);
  std::vector<float> images(image::extent * pixel::extent);
  for (float& x : images) x = static_cast<float>(random() % 1000) / 1000;
  const std::vector<pt::feed> text{{"tokens", tokens}, {"targets", targets}}, pictures{{"x", images}, {"y", labels}};
  const std::vector<cuts> plans{{"data 2", 2},
                                {"data 2, ZeRO 1, x 4", 2, 1, 1, 4, 1},
                                {"tensor 2", 1, 2},
                                {"tensor 2, sequence", 1, 2, 1, 1, 0, true},
                                {"stages 2 x 2", 1, 1, 2, 2},
                                {"stages 2 x 8", 1, 1, 2, 8},
                                {"data 2, recompute", 2, 1, 1, 1, 0, false, true}};
  std::printf("%-10s  %-22s  %8s  %8s  %7s  %7s    %8s  %8s  %7s\n", "model", "plan", "step ms", "predict", "error", "at speed",
              "held MiB", "predict", "error");
  std::vector<row> rows;
  compare<gpt_training>("gpt", {{of_gpt.layers}, {}, {}, {}}, of_gpt.bindings(), text, plans, rows);
  compare<llama_training>("llama", {{of_llama.layers}, {}, {}, {}}, of_llama.bindings(), text, plans, rows);
  compare<pt::training<classifier, pt::sgd>>(
      "classifier", {}, {}, pictures,
      {{"data 2", 2}, {"data 2 x 3", 2, 1, 1, 3}, {"tensor 2", 1, 2}, {"stages 2 x 2", 1, 1, 2, 2}, {"stages 2 x 8", 1, 1, 2, 8}},
      rows);
  std::vector<double> errors, at_speed, over;
  for (row const& r : rows) {
    errors.push_back(std::abs(r.error()));
    at_speed.push_back(std::abs(r.error_at_speed()));
    over.push_back(static_cast<double>(r.planned) / static_cast<double>(r.held) - 1);
  }
  std::sort(over.begin(), over.end());
  auto largest = [](std::vector<double> const& of) { return *std::max_element(of.begin(), of.end()); };
  std::printf(
      "\n%zu plans: median error of step time %.1f%%, largest %.1f%%; at the speed that the machine had meanwhile %.1f%%, %.1f%%\n",
      rows.size(), 100 * median(errors), 100 * largest(errors), 100 * median(at_speed), 100 * largest(at_speed));
  std::printf("memory predicted %.2f to %.2f%% above what was held\n", 100 * over.front(), 100 * over.back());
  std::printf("Kendall's tau: all plans %.2f", tau(rows));
  for (const char* name : {"gpt", "llama", "classifier"}) {
    std::vector<row> own;
    for (row const& r : rows)
      if (r.model == name) own.push_back(r);
    std::printf(", %s %.2f", name, tau(own));
  }
  std::printf("\n");
}
