// What a trainer does whatever the model's type is: from a plan to programs on devices, steps, whole tensors back.
// The devices may be those of several processes: each has an engine, and all of them make the same calls.
#pragma once
#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <partita/core/list.hpp>
#include <partita/core/narrow_arrays.hpp>
#include <partita/core/words.hpp>
#include <partita/grad/training.hpp>
#include <partita/model/extents.hpp>
#include <partita/model/initial.hpp>
#include <partita/model/names.hpp>
#include <partita/plan/digest.hpp>
#include <partita/plan/verify.hpp>
#include <partita/program/lower.hpp>
#include <partita/train/devices.hpp>
#include <partita/train/gathering.hpp>
#include <partita/train/input_boxes.hpp>
#include <partita/train/same_everywhere.hpp>
#include <partita/train/tensors.hpp>
#include <partita/train/trainer_options.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

namespace detail {

class engine {
 public:
  enum which : std::size_t { training_set = 0, forward_set = 1 };

  engine(graph_data const& g, growing<loss_entry> const& losses, plan_base plan, std::unique_ptr<device_source> source,
         trainer_options const& options)
      : graph_(g),
        losses_(losses),
        plan_(std::move(plan)),
        options_(options),
        rate_(finite_rate(options.learning_rate)),
        source_(std::move(source)),
        together_(source_->together()) {
    if (!(options.bucket_bytes >= 0))
      throw_error({"bucket_bytes is ", options.bucket_bytes, "; give a number of bytes, or 0 for no buckets"});
    check_extents(g);
    if (const finding f = verify_plan(g, plan_, completed_, false)) throw error(describe(f));
    check_same(together_, what_is_trained());
    source_->fit(completed_.devices);
    here_ = source_->here();
    names_ = unique_names(g);
    keys_ = random_keys(g, names_);
    lowering_options how;
    how.keep_gradients = options.keep_gradients;
    how.fuse = source_->fuses(options.fuse);
    how.bucket_bytes = options.bucket_bytes;
    how.workers = source_->workers();
    how.workspace = [this](int op, std::size_t const* extents) { return source_->workspace(graph_.ops[op], op, extents); };
    how.arrange = [this](program& p) { source_->arrange(p, graph_); };
    shared_ = std::make_unique<lowering>(g, plan_, completed_, std::move(how));
    check_same(together_, {{"order of programs", shared_->digest()}});
    list<list<program>> sets(2);
    for (int r : here_) {
      sets[training_set].push_back(lower(*shared_, r, false));
      sets[forward_set].push_back(lower(*shared_, r, true));
    }
    devices_ = source_->make(g, keys_, std::move(sets));
    gathering_ = std::make_unique<gathering>(g, *devices_, together_);
    boxes_ = std::make_unique<input_boxes>(g, *devices_, 2);
    sent_before_.resize(here_.size());
    initialise();
  }

  double step(std::span<feed const> inputs) {
    give(training_set, inputs);
    const step_context context{rate_, steps_, options_.seed, true};
    for (std::size_t i = 0; i < here_.size(); ++i) sent_before_[i] = devices_->traffic(here_[i], training_set);
    devices_->run(training_set, context);
    last_set_ = training_set;
    const double loss = total_loss(), norm = gradient_norm();
    if (!std::isfinite(loss) || !std::isfinite(norm)) {
      give(training_set, inputs);  // the step has used their place for other things
      const std::string where = first_non_finite(context);
      throw_error({"step ", steps_, ": the ", std::isfinite(loss) ? "gradient norm" : "loss", " is ",
                   std::isfinite(loss) ? norm : loss, where.empty() ? "" : "; the first number that is not finite came from ",
                   where, "; nothing was updated. Lower the learning rate, clip gradients, or check the data"});
    }
    ++steps_;
    return loss;
  }
  // The forward part, dropout off. Returns the loss.
  double evaluate(std::span<feed const> inputs) {
    give(forward_set, inputs);
    devices_->run(forward_set, {rate_, steps_, options_.seed, false});
    last_set_ = forward_set;
    return total_loss();
  }

  void set_learning_rate(double rate) { rate_ = finite_rate(rate); }
  double learning_rate() const { return rate_; }
  std::int64_t steps() const { return steps_; }
  int devices() const { return completed_.devices; }  // of all processes
  processes& together() const { return together_; }

  host_tensor parameter(std::string_view name) const { return stored(find(name, source_kind::parameter)); }
  host_tensor state(std::string_view name) const { return stored(find(name, source_kind::state)); }
  host_tensor gradient(std::string_view name) const {
    const int t = find(name, source_kind::parameter);
    if (!options_.keep_gradients) throw_error({"gradients are not kept: make the trainer with keep_gradients = true"});
    if (last_set_ != training_set)
      throw_error({"gradient ", name, ": an evaluation came after the last step and has used its memory"});
    return gathering_->whole(training_set, &program::gradients, t, name);
  }
  // The output of that name as of the last step or evaluation.
  host_tensor output(std::string_view name) const {
    for (int op = 0; op < graph_.ops.size; ++op)
      if (graph_.ops[op].info->is_output && graph_.name(op).view() == name)
        return gathering_->whole(last_set_, &program::outputs, graph_.ops[op].first_output, name,
                                 last_set_ == forward_set ? " after an evaluation" : "");
    throw_error(
        {"the model has no output ", name, " (there are: ", names_where([](op_info const& f) { return f.is_output; }), ")"});
  }
  std::vector<std::string> output_names() const {  // of the last step or evaluation, which has no gradient norm
    std::vector<std::string> all;
    for (int op = 0; op < graph_.ops.size; ++op)
      if (graph_.ops[op].info->is_output && (last_set_ == training_set || graph_.ops[op].when != pass::update))
        all.emplace_back(graph_.name(op).view());
    return all;
  }
  std::vector<std::string> parameter_names(bool trained = false) const { return names_of(source_kind::parameter, trained); }
  std::vector<std::string> state_names() const { return names_of(source_kind::state, false); }
  void set_parameter(std::string_view name, feed const& values) { set(name, source_kind::parameter, values); }
  void set_state(std::string_view name, feed const& values) { set(name, source_kind::state, values); }
  // A parameter or a state by its tensor in the graph: what a training consists of between steps.
  host_tensor stored(int tensor) const {
    return gathering_->whole(training_set, &program::stored, tensor, graph_.name(graph_.tensors[tensor].op).view());
  }
  void set_stored(int tensor, void const* whole) {
    for (int r : here_)
      for (outside const& o : devices_->what(training_set, r).stored)
        if (o.tensor == tensor) devices_->write(training_set, r, o, graph_.operand_of(tensor).type, whole);
  }
  // The next step is made as the one after `steps` steps: dropout goes by their number and the seed.
  void resume(std::int64_t steps, double rate, std::uint64_t seed) {
    set_learning_rate(rate);
    steps_ = steps;
    options_.seed = seed;
  }
  std::uint64_t seed() const { return options_.seed; }
  std::size_t parameter_count() const {
    std::size_t n = 0;
    for (op_entry const& e : graph_.ops)
      if (e.info->source == source_kind::parameter) n += elements(e.info->outputs[0]);
    return n;
  }
  // FLOPs of the ops of one step, without what a plan repeats (what MFU is counted by).
  double step_flops() const {
    double all = 0;
    for (op_entry const& e : graph_.ops) {
      double points = e.info->flops_per_point;
      for (int d = 0; d < e.info->dim_count; ++d) points *= static_cast<double>(graph_.extent(e.info->dims[d].axis));
      all += points;
    }
    return all;
  }
  // By rank, of all processes.
  std::vector<memory_use> memory() const {
    struct of_rank {
      int rank;
      memory_use use;
    };
    list<of_rank> mine;
    for (int r : here_) {
      const device_memory m = devices_->memory_of(r);
      mine.push_back(
          {r, {m.planned_state + m.planned_arena, m.resident_state + m.resident_arena, m.planned_state, m.planned_arena}});
    }
    std::vector<memory_use> all(static_cast<std::size_t>(devices()));
    for (auto const& list : gather_lists(together_, mine, "the memory of all devices"))
      for (of_rank const& each : list) all[static_cast<std::size_t>(each.rank)] = each.use;
    return all;
  }
  communication_use communication() const {
    communication_use mine, all;
    for (std::size_t i = 0; i < here_.size(); ++i) {
      const traffic_counts t = devices_->traffic(here_[i], training_set) - sent_before_[i];
      mine.bytes += t.total_bytes();
      for (std::uint64_t c : t.calls) mine.calls += c;
    }
    for (communication_use const& each : gather(together_, mine, "the traffic of all devices")) {
      all.bytes += each.bytes;
      all.calls += each.calls;
    }
    return all;
  }
  // What this process's devices read of an input, in either set of programs: the smallest box around it. The whole of it
  // where one process has all devices; empty where it is read elsewhere only.
  box input_box(std::string_view name) const { return boxes_->of(find(name, source_kind::input)); }

  // Of a rank of this process.
  program const& what(int rank, which set = training_set) const { return devices_->what(set, rank); }
  lowering const& lowered() const { return *shared_; }
  std::span<timing const> times(int rank) const { return devices_->times(rank, training_set); }
  // By rank, of all processes, each from when its process began the step.
  list<list<timing>> all_times() const {
    struct of_rank {
      int rank;
      timing when;
    };
    list<of_rank> mine;
    for (int r : here_)
      for (timing const& t : times(r)) mine.push_back({r, t});
    list<list<timing>> all(static_cast<std::size_t>(devices()));
    for (auto const& list : gather_lists(together_, mine, "the times of all devices"))
      for (of_rank const& each : list) all[static_cast<std::size_t>(each.rank)].push_back(each.when);
    return all;
  }
  graph_data const& graph() const { return graph_; }
  list<std::string> const& names() const { return names_; }

 private:
  // Nothing after it would stop a NaN on its way into the weights. Kernels in float take it as one.
  static double finite_rate(double rate) {
    if (!(std::abs(rate) <= std::numeric_limits<float>::max()))
      throw_error({"the learning rate is ", rate, "; give a number that is finite as a float"});
    return rate;
  }
  std::size_t elements(operand const& x) const {
    std::size_t n = 1;
    for (int a = 0; a < x.rank; ++a) n *= graph_.extent(x.axes[a]);
    return n;
  }
  template <class Keep> std::string names_where(Keep keep) const {
    std::string all;
    for (int op = 0; op < graph_.ops.size; ++op)
      if (keep(*graph_.ops[op].info)) all += words({all.empty() ? "" : ", ", graph_.name(op).view()});
    return all;
  }
  std::vector<std::string> names_of(source_kind kind, bool trained_only) const {
    std::vector<std::string> all;
    for (op_entry const& e : graph_.ops)
      if (e.info->source == kind && (!trained_only || graph_.tensors[e.first_output].gradient >= 0))
        all.emplace_back(graph_.name(graph_.tensors[e.first_output].op).view());
    return all;
  }
  int find(std::string_view name, source_kind kind) const {
    for (int op = 0; op < graph_.ops.size; ++op)
      if (graph_.ops[op].info->source == kind && graph_.name(op).view() == name) return graph_.ops[op].first_output;
    throw_error({"the model has no ",
                 kind == source_kind::input   ? "input"
                 : kind == source_kind::state ? "state"
                                              : "parameter",
                 " named ", name, " (there are: ", names_where([&](op_info const& f) { return f.source == kind; }), ")"});
  }
  // `part`: the elements of the box that may stand for the whole.
  void check_feed(std::string_view name, operand const& x, feed const& f, std::size_t part) const {
    const std::size_t want = elements(x);
    if (f.count != want && f.count != part) {
      std::string shape;
      for (int a = 0; a < x.rank; ++a) shape += words({a ? " x " : "", x.axes[a]->name, " ", graph_.extent(x.axes[a])});
      throw_error({name, " holds ", want, " elements (", shape, "), ",
                   part == want ? std::string() : words({"of which this process reads ", part, ", "}), "was given ", f.count});
    }
    if (f.type != x.type && !(f.type == f32 && is_narrow(x.type)))
      throw_error({name, " is of type ", name_of(x.type), ", was given ", name_of(f.type)});
  }
  void give(which set, std::span<feed const> inputs) {
    list<feed const*> by_tensor(static_cast<std::size_t>(graph_.tensors.size), nullptr);
    for (feed const& f : inputs) {
      const int t = find(f.name, source_kind::input);
      check_feed(words({"input ", f.name}), graph_.operand_of(t), f, boxes_->of(t).elements());
      feed const*& of = by_tensor[static_cast<std::size_t>(t)];
      if (of != nullptr) throw_error({"input ", f.name, " was given twice"});
      of = &f;
    }
    for (int r : here_)
      for (outside const& o : devices_->what(set, r).inputs)
        if (by_tensor[static_cast<std::size_t>(o.tensor)] == nullptr)
          throw_error({"input ", graph_.name(graph_.tensors[o.tensor].op).view(), " was not given"});
    list<list<std::uint16_t>> rounded(by_tensor.size());
    auto data_of = [&](int tensor) -> void const* {
      const std::size_t t = static_cast<std::size_t>(tensor);
      return rounded[t].empty() ? by_tensor[t]->data : rounded[t].data();
    };
    for (std::size_t t = 0; t < by_tensor.size(); ++t) {
      if (by_tensor[t] == nullptr) continue;
      const dtype type = graph_.operand_of(static_cast<int>(t)).type;
      if (type == by_tensor[t]->type) continue;
      rounded[t].resize(by_tensor[t]->count);
      narrow(type, static_cast<float const*>(by_tensor[t]->data), rounded[t].data(), 1, rounded[t].size());
    }
    devices_->on_each([&](int r) {
      for (outside const& o : devices_->what(set, r).inputs) {
        operand const& x = graph_.operand_of(o.tensor);
        const bool whole = by_tensor[static_cast<std::size_t>(o.tensor)]->count == elements(x);
        devices_->write(set, r, whole ? o : boxes_->inside(o), x.type, data_of(o.tensor));
      }
    });
  }
  // Of all processes. Clocks of several machines differ: time counts from when all begin.
  std::string first_non_finite(step_context const& context) {
    using clock = std::chrono::steady_clock;
    barrier(together_);
    const auto begin = clock::now();
    const non_finite mine = devices_->first_non_finite(training_set, context);
    double when = INFINITY;
    if (!mine.where.empty())
      when = mine.when == clock::time_point::min() ? -1 : std::chrono::duration<double>(mine.when - begin).count();
    const list<double> all = gather(together_, when, "the first number that is not finite");
    return broadcast(together_, mine.where, static_cast<int>(std::min_element(all.begin(), all.end()) - all.begin()));
  }
  double total_loss() const {
    double total = 0;
    for (loss_entry const& l : losses_)
      total += l.weight * gathering_->whole(last_set_, &program::outputs, graph_.ops[l.op].first_output, "loss")[0];
    return total;
  }
  double gradient_norm() const {
    for (int op = 0; op < graph_.ops.size; ++op)
      if (graph_.ops[op].info->is_output && graph_.ops[op].when == pass::update)
        return gathering_->whole(training_set, &program::outputs, graph_.ops[op].first_output, "gradient_norm")[0];
    return 0;
  }
  void set(std::string_view name, source_kind kind, feed const& values) {
    const int t = find(name, kind);
    operand const& x = graph_.operand_of(t);
    check_feed(name, x, values, elements(x));
    set_stored(t, values.data);
  }
  void initialise() {
    devices_->on_each([&](int r) {
      for (outside const& o : devices_->what(training_set, r).stored) {
        const int op = graph_.tensors[o.tensor].op;
        op_entry const& e = graph_.ops[op];
        attributes given = e.given;
        if (e.info->source == source_kind::constant) given = {{0, e.given.values[0]}};
        if (e.info->source == source_kind::state) given = {};
        const std::uint64_t name = hash(graph_.name(op).view());
        const dtype type = e.info->outputs[0].type;
        devices_->make(training_set, r, o, type, [&](std::size_t begin, std::size_t end, std::byte* at) {
          std::size_t offsets[max_rank]{}, extents[max_rank]{};
          for (int a = 0; a < o.rank; ++a) {
            offsets[a] = o.begin[a];
            extents[a] = o.extents[a];
          }
          if (o.rank > 0) {
            offsets[0] += begin;
            extents[0] = end - begin;
          }
          if (is_narrow(type)) {  // constants alone are
            const float value = static_cast<float>(given.values[1]);
            narrow(type, &value, at, 1, 1);
          } else if (type == f64)
            fill_initial(given, name, options_.seed, o.rank, o.whole, offsets, extents, reinterpret_cast<double*>(at));
          else fill_initial(given, name, options_.seed, o.rank, o.whole, offsets, extents, reinterpret_cast<float*>(at));
        });
      }
    });
  }
  // What all processes must have the same of.
  list<common> what_is_trained() const {
    auto number = [](double x) { return hash(std::bit_cast<std::uint64_t>(x), hash_seed); };
    return {{"model or plan", digest_of(graph_, plan_, completed_)},
            {"seed", options_.seed},
            {"keep_gradients", options_.keep_gradients},
            {"fuse", options_.fuse},
            {"bucket_bytes", number(options_.bucket_bytes)},
            {"learning rate", number(options_.learning_rate)}};
  }

  graph_data const& graph_;
  growing<loss_entry> losses_;
  plan_base plan_;
  completed completed_;
  trainer_options options_;
  double rate_;
  std::int64_t steps_ = 0;
  std::unique_ptr<device_source> source_;
  processes& together_;
  list<int> here_;  // ranks of this process
  which last_set_ = training_set;
  list<std::string> names_;
  list<std::uint64_t> keys_;
  std::unique_ptr<lowering> shared_;
  std::unique_ptr<local_devices> devices_;
  std::unique_ptr<gathering> gathering_;
  std::unique_ptr<input_boxes> boxes_;
  list<traffic_counts> sent_before_;  // by rank of this process, when the last step began
};

}  // namespace detail
}  // namespace partita

#include <partita/core/end_planning_code.hpp>
