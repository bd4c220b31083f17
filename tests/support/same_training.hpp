// One training under a plan and on one device, step by step from equal weights (DESIGN D10).
#pragma once
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <partita/program/check.hpp>
#include <partita/program/lower.hpp>
#include <partita/train/engine.hpp>
#include <partita/train/thread_devices.hpp>

#include "agreement.hpp"
#include "compare_step.hpp"
#include "memory_rule.hpp"
#include "program_interpreter.hpp"
#include "reference.hpp"

namespace partita::testing {

// An optimizer of one type for the price of compiling a model once.
struct either_optimizer {
  bool is_adamw = false;
  adamw first{};
  sgd second{};
  template <class G, class P, class D, class S>
  constexpr void update(G& g, std::string_view name, P parameter, D gradient, S scale) const {
    if (is_adamw) first.update(g, name, parameter, gradient, scale);
    else second.update(g, name, parameter, gradient, scale);
  }
};

struct comparison_options {
  int steps = 3;
  double learning_rate = 0.01;
  double granted_narrow = 2;  // in bf16 and f16: of one device's distance to double
  bool on_threads = false;    // by the executor too, whose bits are compared with the interpreter's
  int lanes = 2;              // of its devices
  double bucket_bytes = lowering_options{}.bucket_bytes;
  bool also_without_buckets = false;  // whose bits are compared
};
struct comparison {
  std::string fault;  // empty: agreed
  double worst = 0;   // difference over what is allowed
  int devices = 0;
  std::size_t instructions = 0;
};

// `Exact` is the same training in double: what rounding does to one device is told by it, in double by its sensitivity to
// roundings of the weights. Its optimizer is not used.
template <class Training, class Exact = Training> class same_training {
 public:
  using graph_type = recorder<on_cpu::backend, Training>;
  static constexpr dtype type = graph_type::precision;

  same_training(Training const& t, Exact const& exact, std::vector<binding> const& extents, std::uint64_t seed)
      : training_(t), exact_(exact), extents_(extents), seed_(seed) {
    for (binding const& b : extents) g_.bindings.push(b);
    trace(g_, training_);
  }
  graph_type const& graph() const { return g_; }

  // `inputs` gives those of the next step.
  comparison under(plan_base const& plan, std::function<named_values()> const& inputs, comparison_options const& how = {}) const {
    comparison r;
    try {
      completed c;
      if (const finding f = verify_plan(g_, plan, c)) throw error("the plan is rejected: " + describe(f));
      r.devices = c.devices;
      lowering_options options;
      options.keep_gradients = true;
      options.bucket_bytes = how.bucket_bytes;
      options.workspace = [this](int op, std::size_t const* extents) {
        return g_.launchers[op].workspace(*g_.ops[op].info, extents, 1);
      };
      const lowering shared(g_, plan, c, options);
      std::vector<program> programs, forward, apart;
      if (how.also_without_buckets) {
        options.bucket_bytes = 0;
        const lowering without(g_, plan, c, options);
        for (int rank = 0; rank < c.devices; ++rank) apart.push_back(lower(without, rank));
      }
      for (int rank = 0; rank < c.devices; ++rank) {
        programs.push_back(lower(shared, rank));
        forward.push_back(lower(shared, rank, true));
        r.instructions += programs.back().instructions.size();
        for (program const* p : {&programs.back(), &forward.back()})
          for (std::string const& fault : {memory_fault(*p), late_reader(*p)})
            if (!fault.empty()) throw error("rank " + std::to_string(rank) + ": " + fault);
      }
      for (auto const* all : {&programs, &forward})
        if (const program_finding f = check_programs(
                g_, *all, {.forward_only = all == &forward, .workspace = options.workspace, .graphs = {}, .keys = {}}))
          throw error("the check says " + std::string(name_of(f.what)) + ": " + f.words);
      compare(plan, programs, forward, apart, inputs, how, r);
    } catch (std::exception const& e) { r.fault = e.what(); }
    return r;
  }

 private:
  // The indices in time of every op, in the order in which a rank runs them: sums over time are made in this order.
  static std::vector<std::map<int, std::vector<int>>> turns_of_ops(std::vector<program> const& programs) {
    std::vector<std::map<int, std::vector<int>>> all;
    for (program const& p : programs) {
      all.emplace_back();
      for (instruction const& i : p.instructions) {
        auto add = [&](int call) { all.back()[p.computes[static_cast<std::size_t>(call)].op].push_back(i.index); };
        if (i.kind == instruction_kind::compute) add(i.payload);
        if (i.kind != instruction_kind::chain) continue;
        chain_call const& c = p.chains[static_cast<std::size_t>(i.payload)];
        for (int l = 0; l < c.link_count; ++l) add(p.links[static_cast<std::size_t>(c.first_link + l)].compute);
      }
    }
    return all;
  }
  void compare(plan_base const& plan, std::vector<program> const& programs, std::vector<program> const& forward,
               std::vector<program> const& apart, std::function<named_values()> const& draw, comparison_options const& how,
               comparison& r) const {
    reference<Training> one(training_, seed_, extents_);
    reference<Exact> exact(exact_, seed_, extents_);
    program_interpreter<graph_type> all(g_, programs, seed_), outputs(g_, forward, seed_), without_buckets(g_, apart, seed_);
    std::unique_ptr<partita::detail::engine> engine;
    if (how.on_threads) {
      cpu devices{.devices = r.devices, .threads = 1, .lanes = how.lanes};
      engine = std::make_unique<partita::detail::engine>(
          g_, g_.losses, plan, device_source_of(devices, {g_.launchers.at, static_cast<std::size_t>(g_.launchers.size)}),
          trainer_options{.seed = seed_, .learning_rate = how.learning_rate, .bucket_bytes = how.bucket_bytes});
    }
    agreement rule(type, how.granted_narrow), of_weights(accumulation_of(type));
    for (int step = 0; step < how.steps; ++step) {
      // From equal weights: rounding that one step has made large is not carried to the next.
      for (int op = 0; op < g_.ops.size; ++op)
        if (const source_kind k = g_.ops[op].info->source; k == source_kind::parameter || k == source_kind::state) {
          const int t = g_.ops[op].first_output;
          const std::vector<double> now = all.gather(&program::stored, t);
          one.set_stored(t, now);
          if (k == source_kind::parameter) exact.set_parameter(g_.name(op).view(), type == f64 ? nudged(now) : now);
        }
      const named_values inputs = draw();
      auto find = [&](std::string const& name) -> values const& { return inputs.find(name)->second; };
      if (step == 0) {
        outputs.run(find, {0, 0, seed_, false});
        rule.loss(one.evaluate(inputs), loss_of(outputs));
      }
      const double wanted = one.step(inputs, how.learning_rate);
      if (!(std::abs(wanted) < 1e6)) break;  // the training diverges
      (void)exact.step(inputs, 0);
      all.run(find, {how.learning_rate, step, seed_, true});
      if (engine) compare_bits(*engine, inputs, all);
      if (!apart.empty() && turns_of_ops(apart) == turns_of_ops(programs)) {
        without_buckets.run(find, {how.learning_rate, step, seed_, true});
        for (int op = 0; op < g_.ops.size; ++op)
          if (const source_kind k = g_.ops[op].info->source; k == source_kind::parameter || k == source_kind::state)
            if (const int t = g_.ops[op].first_output;
                all.gather(&program::stored, t) != without_buckets.gather(&program::stored, t))
              throw error("without buckets " + std::string(g_.name(op).view()) + " has other bits");
      }
      rule.loss(is_narrow(type) ? exact.loss() : wanted, loss_of(all), std::abs(wanted - exact.loss()));
      auto rounding = [&](std::vector<double> const& mine, auto of) { return rule.distance(mine, of(exact)); };
      constexpr double smallest_of_losses = 4 * 0x1p-52;  // a small cross-entropy is a difference of numbers near one
      for (int op = 0; op < g_.ops.size; ++op) {
        if (!g_.ops[op].info->is_output) continue;
        const std::string name(g_.name(op).view());
        // Scalars, as the norm of all gradients, in double alone: their rounding is that of many sums.
        if (g_.ops[op].info->outputs[0].rank > 0 || type == f64) {
          const std::vector<double> value = one.output(name);
          const double noise = rounding(value, [&](auto const& e) { return e.output(name); });
          rule.tensor("output " + name, is_narrow(type) ? exact.output(name) : value,
                      all.gather(&program::outputs, g_.ops[op].first_output),
                      std::max(rule.allowed(value, largest(value), noise), smallest_of_losses));
        }
      }
      compare_step(rule, of_weights, one, exact, of_plan{*this, all}, training_.optimizer.is_adamw, how.learning_rate);
      for (int op = 0; op < g_.ops.size; ++op)  // replicas are equal, of moments too
        if (g_.ops[op].info->source == source_kind::state) (void)all.gather(&program::stored, g_.ops[op].first_output);
      agreement const& worse = rule.worst() >= of_weights.worst() ? rule : of_weights;
      r.worst = worse.worst();
      if (!worse.holds())
        throw error("step " + std::to_string(step) + ": " + worse.where() + " differs by " + std::to_string(worse.worst()) +
                    " of what is allowed");
    }
  }
  void compare_bits(partita::detail::engine& engine, named_values const& inputs,
                    program_interpreter<graph_type> const& all) const {
    std::vector<std::vector<std::byte>> bytes;
    std::vector<feed> feeds;
    bytes.reserve(static_cast<std::size_t>(g_.ops.size));
    for (int op = 0; op < g_.ops.size; ++op) {
      if (g_.ops[op].info->source != source_kind::input) continue;
      const dtype of = g_.ops[op].info->outputs[0].type;
      auto const& [name, given] = *inputs.find(std::string(g_.name(op).view()));
      buffer whole(of, given.all.size());
      for (std::size_t i = 0; i < given.all.size(); ++i) whole.set(i, given.all[i]);
      auto const* data = static_cast<std::byte const*>(whole.data());
      bytes.emplace_back(data, data + given.all.size() * size_of(of));
      feeds.push_back(feed(name, bytes.back().data(), given.all.size(), of));
    }
    const double loss = engine.step(feeds);
    // A total of weighted losses: a compiler may fuse the product with the sum in one place and not in the other.
    if (const double wanted = loss_of(all); !(std::abs(loss - wanted) <= 1e-15 * std::max(1.0, std::abs(wanted))))
      throw error("on threads the loss is " + std::to_string(loss) + ", not " + std::to_string(wanted));
    auto same = [&](std::string const& what, host_tensor const& have, std::vector<double> const& wanted) {
      if (have.size() != wanted.size()) throw error("on threads " + what + " has another size");
      for (std::size_t i = 0; i < wanted.size(); ++i)
        if (have[i] != wanted[i])
          throw error("on threads " + what + " is " + std::to_string(have[i]) + ", not " + std::to_string(wanted[i]));
    };
    for (int op = 0; op < g_.ops.size; ++op) {
      const source_kind k = g_.ops[op].info->source;
      const int t = g_.ops[op].first_output;
      const std::string name(g_.name(op).view());
      if (k == source_kind::parameter) same(name, engine.parameter(name), all.gather(&program::stored, t));
      if (k == source_kind::state) same(name, engine.state(name), all.gather(&program::stored, t));
    }
  }
  struct of_plan {
    same_training const& of;
    program_interpreter<graph_type> const& all;
    std::vector<double> gradient(std::string const& name) const {
      return all.gather(&program::gradients, of.tensor_of_parameter(name));
    }
    std::vector<double> parameter(std::string const& name) const {
      return all.gather(&program::stored, of.tensor_of_parameter(name));
    }
  };
  double loss_of(program_interpreter<graph_type> const& all) const {
    double total = 0;
    for (loss_entry const& l : g_.losses) total += l.weight * all.gather(&program::outputs, g_.ops[l.op].first_output)[0];
    return total;
  }
  int tensor_of_parameter(std::string const& name) const {
    for (int op = 0; op < g_.ops.size; ++op)
      if (g_.ops[op].info->source == source_kind::parameter && g_.name(op).view() == name) return g_.ops[op].first_output;
    return -1;
  }

  Training training_;
  Exact exact_;
  std::vector<binding> extents_;
  std::uint64_t seed_;
  graph_type g_;
};

}  // namespace partita::testing
