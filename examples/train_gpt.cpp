// Trains a GPT over bytes under a parallel plan and lets it write:
//   train_gpt --data book.txt --plan "dp2 x tp2" --layers 6 --hidden 256 --steps 2000
//   train_gpt --plan auto --report plan.html --save-plan plan.json
//   train_gpt --plan plan.json
//   train_gpt --plan dp2 --save run.safetensors --save-every 100
//   train_gpt --plan tp4 --resume run.safetensors
//   mpirun -n 4 train_gpt --comm mpi --plan "dp2 x tp2"
// The model is in gpt.hpp, the flags in gpt_options.hpp, the search of --plan auto in gpt_search.hpp, the processes of
// --comm mpi in gpt_processes.hpp, --save and --resume in gpt_checkpoints.hpp, the comparison of plans that --demo begins
// with in gpt_compare.hpp.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <partita/partita.hpp>
#include <partita/plan/file.hpp>

#include "gpt.hpp"
#include "gpt_checkpoints.hpp"
#include "gpt_compare.hpp"
#include "gpt_options.hpp"
#include "gpt_processes.hpp"
#include "gpt_search.hpp"

#ifndef PARTITA_SOURCE_DIRECTORY  // the build says where this project's text is
#define PARTITA_SOURCE_DIRECTORY ""
#endif

namespace {

using trainer = pt::trainer<gpt_training>;

gpt_training training_of(gpt_options const& o) {
  gpt_training t;
  t.model = {.layers = o.layers, .dropout = o.dropout, .deviation = 1 / std::sqrt(static_cast<double>(o.hidden))};
  t.optimizer.beta1 = o.beta1;
  t.optimizer.beta2 = o.beta2;
  t.optimizer.weight_decay = o.weight_decay;
  t.optimizer.no_decay = "*.bias *.scale";
  t.clip.max = o.clip;
  return t;
}

std::vector<pt::binding> extents_of(gpt_options const& o, int batch) {
  auto n = [](int extent) { return static_cast<std::size_t>(extent); };
  return {pt::bind<sample>(n(batch)),
          pt::bind<position>(n(o.length)),
          pt::bind<hidden>(n(o.hidden)),
          pt::bind<head>(n(o.heads)),
          pt::bind<head_width>(n(o.hidden / o.heads)),
          pt::bind<inner>(n(4 * o.hidden))};
}
pt::plan<gpt_training> plan_of(gpt_options const& o, parallel const& plan, int batch) {
  pt::plan<gpt_training> made(training_of(o), extents_of(o, batch));
  plan(static_cast<pt::plan_base&>(made));
  return made;
}
pt::plan<gpt_training> read_plan(gpt_options const& o) {
  auto made = pt::load_plan<gpt_training>(o.plan, training_of(o), extents_of(o, o.batch));
  if (o.devices && *o.devices < made.devices())
    throw pt::error("--plan " + o.plan + " needs " + std::to_string(made.devices()) + " devices, more than --devices " +
                    std::to_string(*o.devices));
  return made;
}
// What is written in the end is refused in the beginning.
void check_writable(std::string const& flag, std::string const& path) {
  if (path.empty()) return;
  const bool is_new = !std::filesystem::exists(path);
  if (!std::ofstream(path, std::ios::app)) throw pt::error(flag + " " + path + " cannot be written");
  if (is_new) std::filesystem::remove(path);
}
// On threads of this process.
trainer make_trainer(gpt_options const& o, parallel const& plan, int batch, bool keep_gradients) {
  return trainer{plan_of(o, plan, batch), pt::cpu{.devices = plan.devices(), .threads = o.threads},
                 pt::trainer_options{.seed = o.seed, .keep_gradients = keep_gradients}};
}

// The text of --data, or this project's own: of the sources that the program was built from, if they are still there,
// else of the working directory or one above it.
pt::text_data read_data(gpt_options const& o) {
  namespace fs = std::filesystem;
  if (!o.data.empty()) return pt::text_data(fs::path(o.data), {.seed = o.seed});
  auto is_project = [](fs::path const& p) { return fs::exists(p / "include/partita/partita.hpp"); };
  fs::path root = PARTITA_SOURCE_DIRECTORY;
  if (!is_project(root))
    for (root = fs::current_path(); !is_project(root) && root.has_relative_path();) root = root.parent_path();
  if (!is_project(root))
    throw pt::error("this project's own text is not to be found from here: give a file or a folder with --data");
  std::string bytes;
  for (const char* part : {"include", "examples", "docs"})
    if (fs::exists(root / part)) bytes += pt::read_text(root / part).bytes;
  return pt::text_data::from_bytes(std::move(bytes), {.seed = o.seed}, "this project's own text");
}

// FLOP/s of the best of many matrix products: what MFU is a part of. Each is over in a millisecond or two, so that
// some have the cores for themselves even where other programs run.
double measure_peak(int threads) {
  constexpr std::size_t n = 512;
  pt::on_cpu::workers team(threads);
  const std::vector<float> a(n * n, 1), b(n * n, 1);
  std::vector<float> c(n * n);
  double best = 0;
  for (int i = 0; i < 200; ++i) {
    const double begin = now();
    pt::on_cpu::gemm<float>(team, false, false, n, n, n, 1, a.data(), n, b.data(), n, 0, c.data(), n);
    best = std::max(best, 2.0 * n * n * n / (now() - begin));
  }
  return best;
}

// Mean loss in nats a byte over at most `most` batches that training never sees.
double held_out_loss(trainer& t, gpt_options const& o, pt::text_data const& data, std::size_t most = 8) {
  const pt::held_out_batches batches = data.held_out(static_cast<std::size_t>(o.batch), static_cast<std::size_t>(o.length), most);
  double sum = 0;
  for (pt::text_batch const& b : batches) sum += t.evaluate({{"tokens", b.inputs}, {"targets", b.targets}});
  return sum / static_cast<double>(batches.size());
}

// Continues the prompt byte by byte. The weights move to a trainer of one device and one sequence: a step of the
// whole batch for every byte would be slow, and a plan keeps no weights to itself. Of several processes all give their
// part of the weights, and the first one writes.
std::string write(trainer const& trained, gpt_options const& o, gpt_processes& processes) {
  trainer writer = make_trainer(o, parallel{}, 1, false);
  for (std::string const& name : trained.parameter_names()) writer.set_parameter(name, floats(trained.parameter(name)));
  if (!processes.first()) return {};

  std::string text = o.prompt.empty() ? "\n" : o.prompt;
  const auto length = static_cast<std::size_t>(o.length);
  const std::vector<std::int32_t> targets(length, -1);  // below zero: counts in no loss
  for (int i = 0; i < o.sample; ++i) {
    const std::size_t seen = std::min(text.size(), length);
    std::vector<std::int32_t> tokens(length, 0);  // what follows position `seen` is not looked at
    for (std::size_t p = 0; p < seen; ++p) tokens[p] = static_cast<unsigned char>(text[text.size() - seen + p]);
    writer.evaluate({{"tokens", tokens}, {"targets", targets}});
    const pt::host_tensor logits = writer.output("logits");
    const std::span last(logits.as<float>() + (seen - 1) * byte::extent, byte::extent);
    const double uniform = pt::random_uniform(o.seed, 0, static_cast<std::uint64_t>(i));
    text += static_cast<char>(pt::sample_token(last, uniform, {.temperature = o.temperature}));
  }
  return text;
}

// The demo's table, each plan from the same weights on the same batches. Returns whether they agree; also if the user
// had enough before the end.
bool compare_plans(gpt_options const& o, pt::text_data const& data, pt::interrupt const& stop) {
  std::printf("\nThe same %d steps of a GPT (%d layers, hidden %d, batches of %d x %d bytes) under six plans:\n\n",
              steps_compared, o.layers, o.hidden, o.batch, o.length);
  std::fflush(stdout);
  std::vector<plan_result> results;
  auto make = [&](parallel const& plan) { return make_trainer(o, plan, o.batch, true); };
  for (const char* words : {"", "dp2", "tp2", "pp2", "dp2 x tp2", largest_plan_of_demo}) {
    results.push_back(try_plan(parse_plan(words, o.batch), make, results.empty() ? nullptr : &results.front(), data,
                               static_cast<std::size_t>(o.batch), static_cast<std::size_t>(o.length)));
    if (stop.requested()) return true;
  }
  return print_comparison(results, pt::trainer_options{}.learning_rate);
}

// What was said of the plan before, and what came of it.
void print_prediction(searched_plan const& said, trainer const& t, std::vector<double> seconds) {
  const auto middle = seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2);
  std::nth_element(seconds.begin(), middle, seconds.end());
  double measured = 0;
  for (pt::memory_use const& m : t.memory()) measured += static_cast<double>(m.measured);
  std::printf("\npredicted: %s a step, %s; measured: %s (the median step), %s\n", pt::duration_text(said.seconds).c_str(),
              pt::bytes_text(said.bytes).c_str(), pt::duration_text(*middle).c_str(), pt::bytes_text(measured).c_str());
}

// By the first process, which tells the others.
searched_plan search(gpt_command const& command, gpt_processes& processes) {
  gpt_options const& o = command.options;
  const pt::cpu devices{.devices = processes.are_many() ? processes.together().size() : command.devices_to_search_for(),
                        .threads = o.threads};
  if (!processes.are_many()) return search_plan(training_of(o), extents_of(o, o.batch), devices, o.report);
  std::string text, words;
  double seconds = 0, bytes = 0;
  if (processes.first()) {
    const searched_plan found = search_plan(training_of(o), extents_of(o, o.batch), devices, o.report);
    text = pt::plan_text(found.plan), words = found.words, seconds = found.seconds, bytes = found.bytes;
  }
  text = pt::broadcast(processes.together(), text);
  return {pt::plan_from_text<gpt_training>(text, training_of(o), extents_of(o, o.batch)), words, seconds, bytes};
}

int run(gpt_command const& command) {
  gpt_options const& o = command.options;
  gpt_processes processes(o.backend, o.comm, o.capture == "on", o.timeout);
  const parallel plan = command.plan(processes.together().size());
  if (processes.first()) {
    check_writable("--report", o.report);
    check_writable("--save-plan", o.save_plan);
  }
  gpt_checkpoints checkpoints(o, processes.first());
  const pt::text_data data = read_data(o);
  std::printf("text: %s, a tenth of it held out\n", pt::bytes_text(static_cast<double>(data.size())).c_str());
  const pt::interrupt stop;
  if (o.demo && !compare_plans(o, data, stop)) return 1;
  if (stop.requested()) {
    std::printf("asked to end before training began\n");
    return 0;
  }

  std::optional<searched_plan> searched;
  if (command.searches()) searched = search(command, processes);
  const pt::plan<gpt_training> made = searched ? searched->plan : command.reads_plan() ? read_plan(o) : plan_of(o, plan, o.batch);
  if (processes.first() && !o.save_plan.empty()) pt::save_plan(made, o.save_plan);
  const int devices = made.devices();
  // [trainer]
  trainer t = processes.with_devices(devices, o.threads, [&](auto const& where) {
    return trainer{made, where, pt::trainer_options{.seed = o.seed, .keep_gradients = false}};
  });
  // [/trainer]
  const double unigrams = data.unigram_loss();
  const int threads = o.threads > 0 ? o.threads : std::max(1, pt::available_cores() / devices);
  const double peak = processes.first() ? measure_peak(std::min(devices * threads, pt::available_cores())) : 1;
  std::printf(
      "\nplan: %s on %d %s device%s%s, %d thread%s each; the CPU's matrix products reach %s\n"
      "model: %d layer%s, hidden %d, %d heads, %s parameters; a step: %d x %d bytes\n",
      (searched               ? searched->words
       : command.reads_plan() ? o.plan
                              : plan.text())
          .c_str(),
      devices, o.backend == "cuda" ? "CUDA" : "CPU", devices == 1 ? "" : "s", processes.place(devices).c_str(), threads,
      threads == 1 ? "" : "s", pt::quantity_text(peak, "FLOP/s").c_str(), o.layers, o.layers == 1 ? "" : "s", o.hidden, o.heads,
      pt::quantity_text(static_cast<double>(t.parameter_count())).c_str(), o.batch, o.length);

  const std::uint64_t warm_up = o.warm_up.value_or(std::min<std::uint64_t>(50, o.steps / 10));
  const auto rate = pt::learning_rate::cosine(o.learning_rate, warm_up, o.steps, o.learning_rate / 10);
  double held_out = 0;
  std::vector<double> step_seconds;
  {
    pt::progress line(stdout, {.steps = o.steps, .flops_per_step = t.step_flops(), .peak_flops = peak, .every = 10});
    auto evaluate = [&](std::uint64_t step) {
      held_out = held_out_loss(t, o, data);
      char text[128];
      std::snprintf(text, sizeof text, "after step %llu: held-out loss %.4f nats/byte; byte unigrams have %.4f",
                    static_cast<unsigned long long>(step), held_out, unigrams);
      line.message(text);
    };
    if (const std::string told = checkpoints.resume(t, data); !told.empty()) line.message(told);
    auto save = [&](bool ends) {
      if (const std::string told = checkpoints.save(t, data, ends); !told.empty()) line.message(told);
    };
    std::uint64_t step = static_cast<std::uint64_t>(t.steps()), evaluated = 0;
    // [signal]
    // A signal may have reached one process only; all stop after the same step.
    auto is_asked_to_end = [&] { return pt::any(processes.together(), stop.requested()); };
    bool ends = is_asked_to_end();
    for (; step < o.steps && !ends; ends = is_asked_to_end()) {
      // [/signal]
      const pt::text_batch b = data.batch(step, static_cast<std::size_t>(o.batch), static_cast<std::size_t>(o.length));
      t.set_learning_rate(rate.rate(step));
      const double begin = now();
      const float loss = t.step({{"tokens", b.inputs}, {"targets", b.targets}});
      const double seconds = now() - begin;
      step_seconds.push_back(seconds);
      line.step({.step = ++step,
                 .loss = loss,
                 .gradient_norm = t.output("gradient_norm")[0],
                 .learning_rate = t.learning_rate(),
                 .seconds = seconds,
                 .tokens = static_cast<double>(b.inputs.size())});
      if (o.evaluate_every > 0 && step % o.evaluate_every == 0) evaluate(evaluated = step);
      save(false);
    }
    save(true);
    if (ends) line.message("asked to end: " + std::to_string(step) + " steps were done");
    if (step > 0 && evaluated != step) evaluate(step);
  }
  if (searched && !step_seconds.empty()) print_prediction(*searched, t, step_seconds);
  if (o.sample > 0) std::printf("\nIt writes:\n\n%s\n", pt::printable(write(t, o, processes)).c_str());

  constexpr double well_under = 0.8;  // nats/byte that the demo is to win over byte unigrams
  if (o.demo && !stop.requested()) {
    const bool learned = held_out <= unigrams - well_under;
    std::printf("\nHeld-out loss %.3f nats/byte, %.3f under byte unigrams: %s.\n", held_out, unigrams - held_out,
                learned ? "it learned" : "NOT well under");
    return learned ? 0 : 1;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  gpt_command command;
  try {
    command.app.parse(argc, argv);
  } catch (CLI::ParseError const& e) {
    if (e.get_exit_code() == 0) return command.app.exit(e);  // --help
    std::fprintf(stderr, "train_gpt: %s; see --help\n", e.what());
    return 2;
  }
  return run(command);
} catch (std::bad_alloc const&) {
  std::fprintf(stderr, "train_gpt: not enough memory; make the model or the batch smaller\n");
  return 1;
} catch (std::exception const& e) {
  std::fprintf(stderr, "train_gpt: %s\n", e.what());
  return 1;
}
