// The flags of train_gpt, and the words of its --plan.
#pragma once
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <string_view>
#include <type_traits>

#include <CLI/CLI.hpp>

#include <partita/partita.hpp>

namespace pt = partita;

// Which micro-batch a stage works on next: by the words of --plan.
struct stage_order {
  std::string_view word;
  pt::schedule::recipe recipe;
};
inline constexpr stage_order stage_orders[]{{"1f1b", pt::schedule::one_f_one_b{}},
                                            {"gpipe", pt::schedule::gpipe{}},
                                            {"interleaved", pt::schedule::interleaved<2>{}},
                                            {"h1", pt::schedule::zero_bubble<pt::schedule::h1>{}},
                                            {"h2", pt::schedule::zero_bubble<pt::schedule::h2>{}},
                                            {"v", pt::schedule::zero_bubble<pt::schedule::v_shaped>{}}};

// Data parallel x tensor parallel x pipeline, as one policy: a value, so that flags can make it at run time.
struct parallel {
  int data = 1, tensor = 1, stages = 1, micro_batches = 1;
  stage_order order = stage_orders[0];

  int devices() const { return data * tensor * stages; }

  constexpr void operator()(auto& plan) const {
    pt::policy::data_parallel_of{data}(plan);
    pt::policy::tensor_parallel_of{tensor}(plan);
    pt::policy::pipeline_of{stages, micro_batches, order.recipe}(plan);
  }

  std::string text() const {
    std::string words;
    auto put = [&](std::string const& word, const char* between) { words += (words.empty() ? "" : between) + word; };
    if (data > 1) put("dp" + std::to_string(data), " x ");
    if (tensor > 1) put("tp" + std::to_string(tensor), " x ");
    if (stages > 1) put("pp" + std::to_string(stages), " x ");
    if (words.empty()) words = "one device";
    if (micro_batches > 1) put("m" + std::to_string(micro_batches), " ");
    if (stages > 1 && order.word != "1f1b") put(std::string(order.word), " ");
    return words;
  }
};

// "dp2 x tp2 x pp2 m8 1f1b": dpN replicas, each with its part of the batch; tpN devices that share every layer; ppN
// stages; mN micro-batches, by default two a stage. Words in any order; an x between them is for reading only.
// `batch`: sequences a step, which replicas and micro-batches divide among themselves.
inline parallel parse_plan(std::string_view words, int batch) {
  parallel plan;
  std::optional<int> data, tensor, stages, micro_batches;
  std::optional<stage_order> order;
  auto wrong = [&](std::string const& what) { return pt::error("--plan '" + std::string(words) + "': " + what); };
  auto keep = [&](auto& slot, auto value, std::string_view word) {
    if (slot) throw wrong("'" + std::string(word) + "' says again what an earlier word said");
    slot = value;
  };
  auto take = [&](std::string_view word) {
    const std::size_t letters = std::min(word.find_first_of("0123456789"), word.size());
    const std::string_view name = word.substr(0, letters), digits = word.substr(letters);
    if (word == "one" || word == "device") return;
    for (stage_order const& known : stage_orders)
      if (word == known.word) return keep(order, known, word);
    std::optional<int>* const slot = name == "dp"   ? &data
                                     : name == "tp" ? &tensor
                                     : name == "pp" ? &stages
                                     : name == "m"  ? &micro_batches
                                                    : nullptr;
    if (slot == nullptr)
      throw wrong("'" + std::string(word) +
                  "' is no word of a plan; the words are dpN, tpN, ppN, mN, 1f1b, gpipe, interleaved, h1, h2 and v");
    int number = 0;
    const auto [end, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
    if (failed != std::errc{} || end != digits.data() + digits.size() || number < 1 || number > 1024)
      throw wrong("'" + std::string(word) + "' needs a whole number from 1 to 1024 after " + std::string(name));
    keep(*slot, number, word);
  };
  for (std::size_t at = 0; at < words.size();) {
    constexpr std::string_view between = " x,\t";  // no word has an x
    const std::size_t begin = words.find_first_not_of(between, at);
    if (begin == words.npos) break;
    const std::size_t end = std::min(words.find_first_of(between, begin), words.size());
    take(words.substr(begin, end - begin));
    at = end;
  }
  plan.data = data.value_or(1);
  plan.tensor = tensor.value_or(1);
  plan.stages = stages.value_or(1);
  if (order && plan.stages == 1) throw wrong(std::string(order->word) + " is an order of pipeline stages; add pp2, or more");
  plan.order = order.value_or(stage_orders[0]);
  plan.micro_batches = micro_batches.value_or(plan.stages > 1 ? std::clamp(batch / plan.data, 1, 2 * plan.stages) : 1);
  if (std::int64_t{plan.data} * plan.tensor * plan.stages > 1024) throw wrong("more than 1024 devices");
  return plan;
}

inline constexpr const char* largest_plan_of_demo = "dp2 x tp2 x pp2";

struct gpt_options {
  std::string data;  // empty: this project's own text
  std::string plan, save_plan, report;
  std::string backend = "cpu", comm = "threads", capture = "on";
  double timeout = 300;
  std::optional<int> devices;
  int threads = 0;
  int layers = 4, hidden = 128, heads = 4, length = 64, batch = 16;
  std::uint64_t steps = 600;
  double learning_rate = 3e-3, beta1 = 0.9, beta2 = 0.99;  // for trainings of hundreds of steps, not of hundreds of thousands
  std::optional<std::uint64_t> warm_up;
  double clip = 1, weight_decay = 0.1, dropout = 0;
  std::uint64_t seed = 1;
  int sample = 400;
  std::string prompt = "// ";
  double temperature = 0.8;
  std::uint64_t evaluate_every = 100;
  std::string save, resume;
  std::uint64_t save_every = 0;
  bool demo = false;
};

// Throws CLI::ParseError, CLI::CallForHelp among them, and pt::error where flags contradict each other.
struct gpt_command {
  CLI::App app{"Trains a GPT over bytes on CPU devices, under a parallel plan, and writes like what it read."};
  gpt_options options;

  gpt_command() {
    gpt_options& o = options;
    app.get_formatter()->column_width(26);
    auto flag = [&](const char* name, auto& value, const char* kind, const char* text) {
      CLI::Option* const made = app.add_option(name, value, text)->type_name(kind);
      if constexpr (!requires { value.has_value(); }) made->capture_default_str();
      return made;
    };
    auto number = [&](const char* name, auto& value, auto least, auto most, const char* text) {
      flag(name, value, "N", text)->check(between(least, most));
    };
    constexpr int many = 1 << 20, most_steps = 1 << 30;
    constexpr double below_one = 0.999999;
    flag("--data", o.data, "PATH", "A file, or a folder of text files; by default this project's own text");
    flag("--plan", o.plan, "WORDS",
         "dpN replicas, tpN devices to a layer, ppN stages, mN micro-batches,\n"
         "an order of stages (1f1b, gpipe, interleaved, h1, h2, v),\n"
         "as in \"dp2 x tp2 x pp2 m4\"; by default all devices are replicas.\n"
         "auto: measures this machine and searches the best plan for its devices.\n"
         "A word with a dot or a slash, as plan.json, is a plan file");
    flag("--save-plan", o.save_plan, "FILE", "The plan that is trained under, as a plan file");
    flag("--report", o.report, "FILE", "A page about the plan that auto has found (HTML)");
    flag("--backend", o.backend, "NAME",
         "cpu, or cuda: GPUs of this process, or of those that torchrun or\n"
         "Slurm start (a plan of auto is searched for CPU devices)")
        ->check(CLI::IsMember({"cpu", "cuda"}).description(""));
    flag("--comm", o.comm, "NAME",
         "threads: devices are threads of this process. mpi: each is a process,\n"
         "as many as mpirun -n has started; with --backend cuda each has its GPUs")
        ->check(CLI::IsMember({"threads", "mpi"}).description(""));
    flag("--capture", o.capture, "NAME",
         "on, or off: with --backend cuda and one GPU to a process, whether a step\n"
         "is one CUDA graph; without, a profiler shows its parts")
        ->check(CLI::IsMember({"on", "off"}).description(""));
    number("--timeout", o.timeout, 1e-3, 1e9,
           "Seconds in which communication between GPUs has to make progress, and\n"
           "after which processes of MPI ask those that they wait for to answer");
    number("--devices", o.devices, 1, 1024, "CPU devices; by default as many as the plan needs");
    number("--threads", o.threads, 0, 1024, "Threads that compute, for each device; 0 shares out the cores");
    number("--layers", o.layers, 1, 10000, "Blocks of attention and MLP");
    number("--hidden", o.hidden, 1, many, "Features of a byte");
    number("--heads", o.heads, 1, many, "Attention heads, which divide the features");
    number("--length", o.length, 1, many, "Bytes of a sequence");
    number("--batch", o.batch, 1, many, "Sequences a step, all devices together");
    number("--steps", o.steps, 1, most_steps, "Training steps");
    number("--learning-rate", o.learning_rate, 0.0, 1e30, "The highest; a cosine falls from there to a tenth");
    number("--beta1", o.beta1, 0.0, below_one, "AdamW's, of the gradient's mean");
    number("--beta2", o.beta2, 0.0, below_one, "AdamW's, of its square's");
    number("--warm-up", o.warm_up, 0, most_steps, "Steps up to there; by default a tenth of all, at most 50");
    number("--clip", o.clip, 1e-30, 1e30, "Gradients are scaled down to this norm");
    number("--weight-decay", o.weight_decay, 0.0, 1e30, "AdamW's, of weights and not of biases and norms");
    number("--dropout", o.dropout, 0.0, 0.99, "Probability");
    number("--seed", o.seed, std::int64_t{0}, std::numeric_limits<std::int64_t>::max(),
           "Of weights, dropout, batches and the sample");
    number("--sample", o.sample, 0, many, "Bytes to write in the end");
    flag("--prompt", o.prompt, "TEXT", "What the sample begins with");
    number("--temperature", o.temperature, 0.0, 1e6, "Of the sample; 0 takes the likeliest byte");
    number("--evaluate-every", o.evaluate_every, 0, most_steps, "Steps between losses on held-out text; 0: one in the end");
    flag("--save", o.save, "FILE", "A checkpoint (safetensors), written when training ends or is interrupted");
    number("--save-every", o.save_every, 0, most_steps, "Steps between checkpoints before that; 0: none");
    flag("--resume", o.resume, "FILE", "Goes on from a checkpoint, under this plan or another one");
    app.add_flag("--demo", o.demo, "First compares six plans with one device, then trains, by default under auto");
  }

  bool reads_plan() const { return options.plan.find_first_of("./") != std::string::npos; }
  bool searches() const { return options.plan == "auto" || (options.plan.empty() && options.demo); }
  int devices_to_search_for() const { return options.devices.value_or(std::max(2, pt::available_cores())); }

  // The plan that the flags ask for in words, where they do, after what can be wrong between them. `processes`: that take part.
  parallel plan(int processes) const {
    gpt_options const& o = options;
    if (o.comm == "mpi" && o.demo) throw pt::error("--demo compares plans on threads; leave --comm mpi out");
    if (o.comm == "mpi" && o.devices && *o.devices != processes)
      throw pt::error(word("--devices", *o.devices) + " and --comm mpi, which has a device in each process, of which there are " +
                      std::to_string(processes) + ": start it with mpirun -n " + std::to_string(*o.devices));
    if (o.save_every > 0 && o.save.empty()) throw pt::error(word("--save-every", o.save_every) + " needs --save FILE");
    if (o.hidden % o.heads != 0) throw pt::error(word("--hidden", o.hidden) + " is no multiple of " + word("--heads", o.heads));
    if (o.warm_up && *o.warm_up >= o.steps)
      throw pt::error(word("--warm-up", *o.warm_up) + " leaves nothing of " + word("--steps", o.steps));
    if (o.demo)
      fit(parse_plan(largest_plan_of_demo, o.batch), "--demo, whose largest plan is " + std::string(largest_plan_of_demo) + ",");
    if (!o.report.empty() && !searches()) throw pt::error("--report is about what --plan auto has found");
    if (searches() || reads_plan()) return {};
    if (o.plan.empty() && (o.devices || processes > 1)) {
      const int devices = o.devices.value_or(processes);
      const parallel p = parse_plan("dp" + std::to_string(devices), o.batch);
      fit(p, word("--devices", devices) + " without --plan");
      return p;
    }
    const std::string name = "--plan '" + o.plan + "'";
    const parallel p = parse_plan(o.plan, o.batch);
    if (o.devices && *o.devices < p.devices())
      throw pt::error(name + " needs " + std::to_string(p.devices()) + " devices, more than " + word("--devices", *o.devices));
    fit(p, name);
    return p;
  }

 private:
  // NaN is between nothing, and neither is what has no digits.
  template <class N> static CLI::Validator between(N least, N most) {
    return {[least, most](std::string& text) {
              std::conditional_t<std::is_integral_v<N>, std::int64_t, double> value{};
              if (CLI::detail::lexical_cast(text, value) && value >= least && value <= most) return std::string();
              std::ostringstream words;
              words << text << " is no " << (std::is_integral_v<N> ? "whole " : "") << "number from " << least << " to " << most;
              return words.str();
            },
            ""};
  }
  static std::string word(const char* flag, auto value) { return std::string(flag) + " " + std::to_string(value); }
  void fit(parallel const& p, std::string const& name) const {
    gpt_options const& o = options;
    const int parts = p.data * p.micro_batches;
    auto cuts = [&](const char* what, int pieces) { return name + " cuts " + what + " into " + std::to_string(pieces) + ", "; };
    if (parts > o.batch) throw pt::error(cuts("the batch", parts) + "more than " + word("--batch", o.batch));
    if (p.tensor > o.heads) throw pt::error(cuts("the heads", p.tensor) + "more than " + word("--heads", o.heads));
    if (p.stages > o.layers) throw pt::error(cuts("the layers", p.stages) + "more than " + word("--layers", o.layers));
  }
};
