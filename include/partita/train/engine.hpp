// What a trainer does whatever the model's type is: from a plan to programs on devices, steps, whole tensors back.
#pragma once
#include <algorithm>
#include <cmath>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <partita/core/words.hpp>
#include <partita/grad/training.hpp>
#include <partita/model/extents.hpp>
#include <partita/model/initial.hpp>
#include <partita/model/names.hpp>
#include <partita/plan/verify.hpp>
#include <partita/program/lower.hpp>
#include <partita/train/tensors.hpp>
#include <partita/train/thread_devices.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

struct trainer_options {
  std::uint64_t seed = 1;         // of initial values and dropout
  double learning_rate = 1e-3;    // until `set_learning_rate` says otherwise
  bool fuse = true;               // chains of element- and row-wise ops run tile by tile
  bool keep_gradients = true;     // `gradient(name)` works; false may need less memory
  double bucket_bytes = 0;  // of moves that are made as one; 0: each is made alone, which between threads is faster
};

// Bytes of every device: what was planned before anything ran, and what is resident now.
struct memory_use {
  std::size_t planned = 0, measured = 0;
  std::size_t state = 0, arena = 0;  // of what is planned
};

// What all devices together sent in the last step.
struct communication_use {
  std::uint64_t bytes = 0, calls = 0;
};

namespace detail {

class engine {
 public:
  enum which : std::size_t { training_set = 0, forward_set = 1 };

  engine(graph_data const& g, std::span<on_cpu::launcher const> launchers, growing<loss_entry> const& losses,
         plan_base plan, cpu wanted, trainer_options const& options)
      : graph_(g), launchers_(launchers), losses_(losses), plan_(std::move(plan)), options_(options),
        rate_(options.learning_rate) {
    check_extents(g);
    if (const finding f = verify_plan(g, plan_, completed_, false)) throw error(describe(f));
    if (completed_.devices > wanted.devices)
      throw_error({"the plan is for ", completed_.devices, " devices, there are ", wanted.devices,
                   ": give pt::cpu{.devices = ", completed_.devices, "}"});
    names_ = unique_names(g);
    keys_ = random_keys(g, names_);
    devices_used_ = completed_.devices;
    wanted.devices = devices_used_;  // idle devices hold nothing
    const int workers = wanted.threads > 0 ? wanted.threads : std::max(1, available_cores() / wanted.devices);
    wanted.threads = workers;
    lowering_options how;
    how.keep_gradients = options.keep_gradients;
    how.fuse = options.fuse;
    how.bucket_bytes = options.bucket_bytes;
    how.workers = workers;
    how.workspace = [this, workers](int op, std::size_t const* extents) {
      return launchers_[static_cast<std::size_t>(op)].workspace(*graph_.ops[op].info, extents, static_cast<std::size_t>(workers));
    };
    shared_ = std::make_unique<lowering>(g, plan_, completed_, std::move(how));
    std::vector<std::vector<program>> sets(2);
    for (int r = 0; r < devices_used_; ++r) {
      sets[training_set].push_back(lower(*shared_, r, false));
      sets[forward_set].push_back(lower(*shared_, r, true));
    }
    devices_ = std::make_unique<on_cpu::thread_devices>(wanted, g, launchers_, keys_, std::move(sets));
    sent_before_.resize(static_cast<std::size_t>(devices_used_));
    initialise();
  }

  double step(std::span<feed const> inputs) {
    give(training_set, inputs);
    const step_context context{rate_, steps_, options_.seed, true};
    for (int r = 0; r < devices_used_; ++r) sent_before_[static_cast<std::size_t>(r)] = devices_->traffic(r, training_set);
    devices_->run(training_set, context);
    last_set_ = training_set;
    const double loss = total_loss(), norm = gradient_norm();
    if (!std::isfinite(loss) || !std::isfinite(norm)) {
      give(training_set, inputs);  // the step has used their place for other things
      const std::string where = devices_->first_non_finite(training_set, context);
      throw_error({"step ", steps_, ": the ", std::isfinite(loss) ? "gradient norm" : "loss", " is ",
                   std::isfinite(loss) ? norm : loss,
                   where.empty() ? "" : "; the first number that is not finite came from ", where,
                   "; nothing was updated. Lower the learning rate, clip gradients, or check the data"});
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

  void set_learning_rate(double rate) { rate_ = rate; }
  double learning_rate() const { return rate_; }
  std::int64_t steps() const { return steps_; }
  int devices() const { return devices_used_; }

  host_tensor parameter(std::string_view name) const { return stored(name, source_kind::parameter); }
  host_tensor state(std::string_view name) const { return stored(name, source_kind::state); }
  host_tensor gradient(std::string_view name) const {
    const int t = find(name, source_kind::parameter);
    if (!options_.keep_gradients) throw_error({"gradients are not kept: make the trainer with keep_gradients = true"});
    if (last_set_ != training_set)
      throw_error({"gradient ", name, ": an evaluation came after the last step and has used its memory"});
    return gather(training_set, &program::gradients, t, name);
  }
  // The output of that name as of the last step or evaluation.
  host_tensor output(std::string_view name) const {
    for (int op = 0; op < graph_.ops.size; ++op)
      if (graph_.ops[op].info->is_output && graph_.name(op).view() == name)
        return gather(last_set_, &program::outputs, graph_.ops[op].first_output, name);
    throw_error({"the model has no output ", name, " (there are: ",
                 list([](op_info const& f) { return f.is_output; }), ")"});
  }
  std::vector<std::string> output_names() const {  // of the last step or evaluation, which has no gradient norm
    std::vector<std::string> all;
    for (int op = 0; op < graph_.ops.size; ++op)
      if (graph_.ops[op].info->is_output && (last_set_ == training_set || graph_.ops[op].when != pass::update))
        all.emplace_back(graph_.name(op).view());
    return all;
  }
  std::vector<std::string> parameter_names(bool trained_only = false) const {
    std::vector<std::string> all;
    for (int op = 0; op < graph_.ops.size; ++op)
      if (graph_.ops[op].info->source == source_kind::parameter &&
          (!trained_only || graph_.tensors[graph_.ops[op].first_output].gradient >= 0))
        all.emplace_back(graph_.name(op).view());
    return all;
  }
  void set_parameter(std::string_view name, feed const& values) {
    const int t = find(name, source_kind::parameter);
    operand const& x = graph_.operand_of(t);
    check_feed(name, x, values);
    for (int r = 0; r < devices_used_; ++r)
      for (outside const& o : devices_->what(training_set, r).stored)
        if (o.tensor == t) on_cpu::copy_in(o, x.type, values.data, devices_->address(r, training_set, o.at));
  }
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
  std::vector<memory_use> memory() const {
    std::vector<memory_use> all;
    for (int r = 0; r < devices_used_; ++r) {
      const on_cpu::device_memory m = devices_->memory_of(r);
      all.push_back({m.planned_state + m.planned_arena, m.resident_state + m.resident_arena, m.planned_state, m.planned_arena});
    }
    return all;
  }
  communication_use communication() const {
    communication_use all;
    for (int r = 0; r < devices_used_; ++r) {
      const traffic_counts t = devices_->traffic(r, training_set) - sent_before_[static_cast<std::size_t>(r)];
      all.bytes += t.total_bytes();
      for (std::uint64_t c : t.calls) all.calls += c;
    }
    return all;
  }
  program const& what(int rank, which set = training_set) const { return devices_->what(set, rank); }
  lowering const& lowered() const { return *shared_; }
  std::span<on_cpu::timing const> times(int rank) const { return devices_->times(rank, training_set); }
  graph_data const& graph() const { return graph_; }
  std::vector<std::string> const& names() const { return names_; }

 private:
  std::size_t elements(operand const& x) const {
    std::size_t n = 1;
    for (int a = 0; a < x.rank; ++a) n *= graph_.extent(x.axes[a]);
    return n;
  }
  template <class Keep> std::string list(Keep keep) const {
    std::string all;
    for (int op = 0; op < graph_.ops.size; ++op)
      if (keep(*graph_.ops[op].info)) all += words({all.empty() ? "" : ", ", graph_.name(op).view()});
    return all;
  }
  int find(std::string_view name, source_kind kind) const {
    for (int op = 0; op < graph_.ops.size; ++op)
      if (graph_.ops[op].info->source == kind && graph_.name(op).view() == name) return graph_.ops[op].first_output;
    throw_error({"the model has no ",
                 kind == source_kind::input ? "input" : kind == source_kind::state ? "state" : "parameter", " named ",
                 name, " (there are: ", list([&](op_info const& f) { return f.source == kind; }), ")"});
  }
  void check_feed(std::string_view name, operand const& x, feed const& f) const {
    const std::size_t want = elements(x);
    if (f.count != want) {
      std::string shape;
      for (int a = 0; a < x.rank; ++a)
        shape += words({a ? " x " : "", x.axes[a]->name, " ", graph_.extent(x.axes[a])});
      throw_error({name, " holds ", want, " elements (", shape, "), was given ", f.count});
    }
    if (f.type != x.type)
      throw_error({name, " is of type ", name_of(x.type), ", was given ", name_of(f.type)});
  }
  void give(which set, std::span<feed const> inputs) {
    std::vector<feed const*> by_tensor(static_cast<std::size_t>(graph_.tensors.size), nullptr);
    for (feed const& f : inputs) {
      const int t = find(f.name, source_kind::input);
      check_feed(words({"input ", f.name}), graph_.operand_of(t), f);
      feed const*& of = by_tensor[static_cast<std::size_t>(t)];
      if (of != nullptr) throw_error({"input ", f.name, " was given twice"});
      of = &f;
    }
    for (int r = 0; r < devices_used_; ++r)
      for (outside const& o : devices_->what(set, r).inputs)
        if (by_tensor[static_cast<std::size_t>(o.tensor)] == nullptr)
          throw_error({"input ", graph_.name(graph_.tensors[o.tensor].op).view(), " was not given"});
    devices_->on_each([&](int r) {
      for (outside const& o : devices_->what(set, r).inputs)
        on_cpu::copy_in(o, graph_.operand_of(o.tensor).type, by_tensor[static_cast<std::size_t>(o.tensor)]->data, devices_->address(r, set, o.at));
    });
  }
  double total_loss() const {
    double total = 0;
    for (loss_entry const& l : losses_)
      total += l.weight * gather(last_set_, &program::outputs, graph_.ops[l.op].first_output, "loss")[0];
    return total;
  }
  double gradient_norm() const {
    for (int op = 0; op < graph_.ops.size; ++op)
      if (graph_.ops[op].info->is_output && graph_.ops[op].when == pass::update)
        return gather(training_set, &program::outputs, graph_.ops[op].first_output, "gradient_norm")[0];
    return 0;
  }
  host_tensor stored(std::string_view name, source_kind kind) const {
    return gather(training_set, &program::stored, find(name, kind), name);
  }
  host_tensor gather(which set, std::vector<outside> program::*list, int tensor, std::string_view name) const {
    operand const& x = graph_.operand_of(tensor);
    host_tensor h;
    h.name = name;
    h.type = x.type;
    for (int a = 0; a < x.rank; ++a) h.extents.push_back(graph_.extent(x.axes[a]));
    h.bytes.resize(elements(x) * size_of(x.type));
    std::vector<outside const*> taken;  // replicas are equal: one of each box
    std::size_t found = 0;
    for (int r = 0; r < devices_used_; ++r)
      for (outside const& o : devices_->what(set, r).*list)
        if (o.tensor == tensor) {
          if (std::any_of(taken.begin(), taken.end(), [&](outside const* t) { return same_box(*t, o); })) continue;
          taken.push_back(&o);
          std::size_t n = 1;
          for (int a = 0; a < o.rank; ++a) n *= o.extents[a];
          on_cpu::copy_out(o, x.type, devices_->address(r, set, o.at), h.bytes.data());
          found += n;
        }
    if (found < h.size())
      throw_error({"no device holds all of ", name, set == forward_set ? " after an evaluation" : ""});
    return h;
  }
  static bool same_box(outside const& a, outside const& b) {
    for (int d = 0; d < a.rank; ++d)
      if (a.begin[d] != b.begin[d] || a.extents[d] != b.extents[d]) return false;
    return true;
  }
  void initialise() {
    devices_->on_each([&](int r) {
      for (outside const& o : devices_->what(training_set, r).stored) {
        const int op = graph_.tensors[o.tensor].op;
        op_entry const& e = graph_.ops[op];
        attributes given = e.given;
        if (e.info->source == source_kind::constant) given = {{0, e.given.values[0]}};
        if (e.info->source == source_kind::state) given = {};
        std::byte* const to = devices_->address(r, training_set, o.at);
        const std::uint64_t name = hash(graph_.name(op).view());
        std::size_t row = 1;  // elements of one index of the first axis, by which workers share the work
        for (int a = 1; a < o.rank; ++a) row *= o.extents[a];
        auto fill = [&](std::size_t begin, std::size_t end) {
          std::size_t offsets[max_rank]{}, extents[max_rank]{};
          for (int a = 0; a < o.rank; ++a) {
            offsets[a] = o.begin[a];
            extents[a] = o.extents[a];
          }
          if (o.rank > 0) {
            offsets[0] += begin;
            extents[0] = end - begin;
          }
          std::byte* const at = to + begin * row * size_of(e.info->outputs[0].type);
          if (e.info->outputs[0].type == f64)
            fill_initial(given, name, options_.seed, o.rank, o.whole, offsets, extents, reinterpret_cast<double*>(at));
          else fill_initial(given, name, options_.seed, o.rank, o.whole, offsets, extents, reinterpret_cast<float*>(at));
        };
        if (o.rank == 0) fill(0, 1);
        else devices_->team(r).parallel(o.extents[0], 1 + 16384 / std::max<std::size_t>(row, 1), fill);
      }
    });
  }

  graph_data const& graph_;
  std::span<on_cpu::launcher const> launchers_;
  growing<loss_entry> losses_;
  plan_base plan_;
  completed completed_;
  trainer_options options_;
  double rate_;
  std::int64_t steps_ = 0;
  int devices_used_ = 1;
  which last_set_ = training_set;
  std::vector<std::string> names_;
  std::vector<std::uint64_t> keys_;
  std::unique_ptr<lowering> shared_;
  std::unique_ptr<on_cpu::thread_devices> devices_;
  std::vector<traffic_counts> sent_before_;  // by device, when the last step began
};

}  // namespace detail
}  // namespace partita

#include <partita/core/end_planning_code.hpp>
