// Predicted against measured, on two CPU devices of this machine: step time and peak memory of plans of three models.
// The profile is measured first, on pieces of the models' ops; no plan is run to make it. Takes about a minute; wants
// both cores.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include <partita/partita.hpp>
#include <partita/profile/host.hpp>
#include <partita/profile/host_simulation.hpp>

namespace pt = partita;

namespace {

using clock_type = std::chrono::steady_clock;
double seconds_since(clock_type::time_point begin) { return std::chrono::duration<double>(clock_type::now() - begin).count(); }

struct sample     : pt::axis<"sample", 16> {};
struct position   : pt::axis<"position", 128> {};
struct vocabulary : pt::axis<"vocabulary", 512> {};
struct hidden     : pt::axis<"hidden", 256> {};
struct head       : pt::axis<"head", 4> {};
struct head_width : pt::axis<"head_width", 64> {};
struct inner      : pt::axis<"inner", 1024> {};

struct gpt {
  static constexpr int layers = 2;
  constexpr auto operator()(auto& g) const {
    using pt::f32, pt::i32;
    auto norm = [&](auto x) {
      auto s = pt::scope(g, "norm");
      return pt::layer_norm(x, pt::param<f32, hidden>(g, "scale", pt::ones), pt::param<f32, hidden>(g, "bias", pt::zeros));
    };
    auto tokens = pt::input<i32, sample, position>(g, "tokens");
    auto targets = pt::input<i32, sample, position>(g, "targets");
    auto table = pt::param<f32, vocabulary, hidden>(g, "wte.weight");
    auto x = pt::bias(pt::embedding(tokens, table), pt::param<f32, position, hidden>(g, "wpe.weight"));
    for (int layer = 0; layer < layers; ++layer) {
      auto block = pt::scope(g, "block", layer);
      auto h = norm(x);
      auto project = [&](pt::label weight) { return pt::linear(h, pt::param<f32, hidden, head, head_width>(g, weight)); };
      auto q = project("q.weight");
      auto k = project("k.weight");
      auto v = project("v.weight");
      x = x + pt::linear(pt::causal_attention(q, k, v), pt::param<f32, head, head_width, hidden>(g, "out.weight"));
      auto s = pt::scope(g, "mlp");
      auto up = pt::gelu(pt::linear(norm(x), pt::param<f32, hidden, inner>(g, "up.weight"), pt::param<f32, inner>(g, "up.bias", pt::zeros)));
      x = x + pt::linear(up, pt::param<f32, inner, hidden>(g, "down.weight"), pt::param<f32, hidden>(g, "down.bias", pt::zeros));
    }
    return pt::cross_entropy(pt::linear(norm(x), table), targets);
  }
};

// Root mean square norms, gated units, an output layer of its own.
struct llama {
  static constexpr int layers = 2;
  constexpr auto operator()(auto& g) const {
    using pt::f32, pt::i32;
    auto tokens = pt::input<i32, sample, position>(g, "tokens");
    auto targets = pt::input<i32, sample, position>(g, "targets");
    auto x = pt::embedding(tokens, pt::param<f32, vocabulary, hidden>(g, "embedding.weight"));
    for (int layer = 0; layer < layers; ++layer) {
      auto block = pt::scope(g, "block", layer);
      auto h = pt::rms_norm(x, pt::param<f32, hidden>(g, "norm1.weight", pt::ones));
      auto q = pt::linear(h, pt::param<f32, hidden, head, head_width>(g, "q.weight"));
      auto k = pt::linear(h, pt::param<f32, hidden, head, head_width>(g, "k.weight"));
      auto v = pt::linear(h, pt::param<f32, hidden, head, head_width>(g, "v.weight"));
      x = x + pt::linear(pt::causal_attention(q, k, v), pt::param<f32, head, head_width, hidden>(g, "out.weight"));
      auto n = pt::rms_norm(x, pt::param<f32, hidden>(g, "norm2.weight", pt::ones));
      auto gate = pt::silu(pt::linear(n, pt::param<f32, hidden, inner>(g, "gate.weight")));
      auto up = pt::linear(n, pt::param<f32, hidden, inner>(g, "up.weight"));
      x = x + pt::linear(gate * up, pt::param<f32, inner, hidden>(g, "down.weight"));
    }
    auto n = pt::rms_norm(x, pt::param<f32, hidden>(g, "norm.weight", pt::ones));
    return pt::cross_entropy(pt::linear(n, pt::param<f32, hidden, vocabulary>(g, "output.weight")), targets);
  }
};

struct image : pt::axis<"image", 512> {};
struct pixel : pt::axis<"pixel", 784> {};
struct wide  : pt::axis<"wide", 1536> {};
struct wider : pt::axis<"wider", 1024> {};
struct label : pt::axis<"class", 16> {};
struct classifier {
  constexpr auto operator()(auto& g) const {
    using pt::f32, pt::i32;
    auto x = pt::input<f32, image, pixel>(g, "x");
    auto y = pt::input<i32, image>(g, "y");
    auto h1 = pt::relu(pt::linear(x, pt::param<f32, pixel, wide>(g, "fc1.weight"), pt::param<f32, wide>(g, "fc1.bias", pt::zeros)));
    auto h2 = pt::relu(pt::linear(h1, pt::param<f32, wide, wider>(g, "fc2.weight"), pt::param<f32, wider>(g, "fc2.bias", pt::zeros)));
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
  double measured, predicted;              // seconds
  std::size_t held, planned;               // bytes of the device that holds most
  double error() const { return predicted / measured - 1; }
};

template <class Training>
void compare(std::string const& name, std::vector<pt::feed> const& batch, std::vector<cuts> const& plans, std::vector<row>& rows) {
  const pt::cpu devices{.devices = 2, .threads = 1};
  auto begin = clock_type::now();
  const pt::profile measured = pt::measure<Training>(devices, {}, pt::measure_options{});
  std::printf("# %s: profile in %.1f s\n", name.c_str(), seconds_since(begin));
  const pt::costs costs(pt::host_cluster(measured), measured);
  for (cuts const& c : plans) {
    pt::trainer<Training> t{Training{}, c, devices, pt::trainer_options{.keep_gradients = false}};
    for (int warm = 0; warm < 2; ++warm) t.step(batch);
    std::vector<double> times;
    for (begin = clock_type::now(); times.size() < 9 || (seconds_since(begin) < 0.5 && times.size() < 99);) {
      const auto start = clock_type::now();
      t.step(batch);
      times.push_back(seconds_since(start));
    }
    std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
    const pt::simulation s = pt::simulate_on_host(pt::plan<Training>::by(c), costs, {.threads = 1, .fuse = true, .keep_gradients = false});
    row r{name, c.name, times[times.size() / 2], s.seconds, 0, 0};
    const auto memory = t.memory();
    for (std::size_t d = 0; d < memory.size(); ++d) {
      if (memory[d].measured < r.held) continue;
      r.held = memory[d].measured;
      r.planned = s.of_rank(static_cast<int>(d)).peak_bytes();
    }
    rows.push_back(r);
    std::printf("%-10s  %-22s  %8.2f  %8.2f  %+6.1f%%    %8.2f  %8.2f  %+6.2f%%\n", name.c_str(), c.name, r.measured * 1e3, r.predicted * 1e3,
                100 * r.error(), static_cast<double>(r.held) / 1048576.0, static_cast<double>(r.planned) / 1048576.0,
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

int main() {
  std::mt19937 random(1);
  auto numbers = [&](std::size_t n, std::size_t most) {
    std::vector<std::int32_t> all(n);
    for (auto& x : all) x = static_cast<std::int32_t>(random() % most);
    return all;
  };
  const auto tokens = numbers(sample::extent * position::extent, vocabulary::extent), targets = numbers(tokens.size(), vocabulary::extent),
             labels = numbers(image::extent, label::extent);
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
  std::printf("%-10s  %-22s  %8s  %8s  %7s    %8s  %8s  %7s\n", "model", "plan", "step ms", "predict", "error", "held MiB", "predict", "error");
  std::vector<row> rows;
  compare<pt::training<gpt, pt::adamw, pt::clip_norm>>("gpt", text, plans, rows);
  compare<pt::training<llama, pt::adamw, pt::clip_norm>>("llama", text, plans, rows);
  compare<pt::training<classifier, pt::sgd>>("classifier", pictures,
                                             {{"data 2", 2}, {"data 2 x 3", 2, 1, 1, 3}, {"tensor 2", 1, 2}, {"stages 2 x 2", 1, 1, 2, 2}, {"stages 2 x 8", 1, 1, 2, 8}},
                                             rows);
  std::vector<double> errors, over;
  for (row const& r : rows) {
    errors.push_back(std::abs(r.error()));
    over.push_back(static_cast<double>(r.planned) / static_cast<double>(r.held) - 1);
  }
  std::sort(errors.begin(), errors.end());
  std::sort(over.begin(), over.end());
  std::printf("\n%zu plans: median error of step time %.1f%%, largest %.1f%%; memory predicted %.2f to %.2f%% above what was held\n", rows.size(),
              100 * errors[errors.size() / 2], 100 * errors.back(), 100 * over.front(), 100 * over.back());
  std::printf("Kendall's tau: all plans %.2f", tau(rows));
  for (const char* name : {"gpt", "llama", "classifier"}) {
    std::vector<row> own;
    for (row const& r : rows)
      if (r.model == name) own.push_back(r);
    std::printf(", %s %.2f", name, tau(own));
  }
  std::printf("\n");
}
