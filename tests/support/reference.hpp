// The reference interpreter: a training on one device without a plan. Every tensor stands whole in memory of its own, the
// ops run in the order of their ids. What a planned training computes is compared with it.
#pragma once
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <partita/core/error.hpp>
#include <partita/device/cpu/backend.hpp>
#include <partita/grad/training.hpp>
#include <partita/model/extents.hpp>
#include <partita/model/initial.hpp>
#include <partita/model/names.hpp>

#include "buffer.hpp"

namespace partita::testing {

// The elements of an input, in the type that the test has them in.
struct values {
  std::vector<double> all;
  values() = default;
  template <class T> values(std::vector<T> const& from) : all(from.begin(), from.end()) {}
};
using named_values = std::map<std::string, values, std::less<>>;

// `Training` is a pt::training<...>. Parameters begin as `param` says.
template <class Training> class reference {
 public:
  using recorder_type = recorder<on_cpu::backend, Training>;

  explicit reference(Training const& training = {}, std::uint64_t seed = 1, std::vector<binding> const& bindings = {},
                     int workers = 1)
      : seed_(seed), threads_(workers) {
    for (binding const& b : bindings) g_.bindings.push(b);
    trace(g_, training);
    if (g_.poisoned) throw error("reference: the model was rejected");
    if (g_.stuck >= 0) throw error("reference: no gradient rule for " + std::string(g_.name(g_.stuck).view()));
    check_extents(g_);
    names_ = unique_names(g_);
    keys_ = random_keys(g_, names_);
    for (int t = 0; t < g_.tensors.size; ++t) {
      operand const& x = g_.operand_of(t);
      tensors_.emplace_back(x.type, elements(x));
    }
    for (int op = 0; op < g_.ops.size; ++op) begin(op);
  }

  // One step, whole: forward, backward and update. Returns the weighted sum of the losses.
  double step(named_values const& inputs, double learning_rate = 0.1) {
    run(inputs, g_.ops.size, {learning_rate, steps_, seed_, true});
    const double total = loss();
    for (int t = 0; t < g_.tensors.size; ++t)
      if (g_.tensors[t].carried >= 0) at(g_.tensors[t].carried) = at(t);
    ++steps_;
    return total;
  }
  // The forward pass alone; `training` as the kernels see it (dropout, which draws what the last step drew).
  double evaluate(named_values const& inputs, bool training = false) {
    run(inputs, g_.forward_count, {0, steps_ > 0 ? steps_ - 1 : 0, seed_, training});
    return loss();
  }

  // The sum of the losses with their weights, as of the last run.
  double loss() const {
    double total = 0;
    for (op_entry const& e : g_.ops)
      if (e.info->source == source_kind::constant && e.when == pass::backward)
        total += e.given.values[0] * at(g_.ops[e.origin].first_output).get(0);
    return total;
  }
  std::vector<double> output(std::string_view name) const {
    for (int op = 0; op < g_.ops.size; ++op)
      if (g_.ops[op].info->is_output && g_.name(op).view() == name) return at(g_.ops[op].first_output).values();
    throw error("reference: no output " + std::string(name));
  }
  std::vector<double> parameter(std::string_view name) const { return at(parameter_tensor(name)).values(); }
  void set_parameter(std::string_view name, std::vector<double> const& to) {
    buffer& b = at(parameter_tensor(name));
    for (std::size_t i = 0; i < b.size(); ++i) b.set(i, to.at(i));
  }
  // What a step begins with: a parameter or an optimizer's state, by the graph's tensor.
  void set_stored(int tensor, std::vector<double> const& to) {
    for (std::size_t i = 0; i < at(tensor).size(); ++i) at(tensor).set(i, to.at(i));
  }
  std::vector<double> stored(int tensor) const { return at(tensor).values(); }
  // As of the last step. Throws when no gradient reaches the parameter.
  std::vector<double> gradient(std::string_view name) const {
    const int gradient = g_.tensors[parameter_tensor(name)].gradient;
    if (gradient < 0) throw error("reference: no gradient reaches " + std::string(name));
    return at(gradient).values();
  }
  // Names of the parameters that a gradient reaches.
  std::vector<std::string> trained() const {
    std::vector<std::string> all;
    for (int op = 0; op < g_.ops.size; ++op)
      if (g_.ops[op].info->source == source_kind::parameter && g_.tensors[g_.ops[op].first_output].gradient >= 0)
        all.emplace_back(g_.name(op).view());
    return all;
  }
  // Any tensor by the unique name of its op.
  std::vector<double> tensor(std::string_view op_name, int output = 0) const {
    for (int op = 0; op < g_.ops.size; ++op)
      if (names_[static_cast<std::size_t>(op)] == op_name) return at(g_.ops[op].first_output + output).values();
    throw error("reference: no op " + std::string(op_name));
  }
  recorder_type const& graph() const { return g_; }
  list<std::string> const& names() const { return names_; }
  std::int64_t steps() const { return steps_; }

 private:
  buffer& at(int t) { return tensors_[static_cast<std::size_t>(t)]; }
  buffer const& at(int t) const { return tensors_[static_cast<std::size_t>(t)]; }

  std::size_t elements(operand const& x) const {
    std::size_t n = 1;
    for (int a = 0; a < x.rank; ++a) n *= g_.extent(x.axes[a]);
    return n;
  }
  int parameter_tensor(std::string_view name) const {
    for (int op = 0; op < g_.ops.size; ++op)
      if (g_.ops[op].info->source == source_kind::parameter && g_.name(op).view() == name) return g_.ops[op].first_output;
    throw error("reference: no parameter " + std::string(name));
  }

  void begin(int op) {
    op_entry const& e = g_.ops[op];
    buffer& b = at(e.first_output);
    if (e.info->source == source_kind::constant) b.fill(e.given.values[0]);
    if (e.info->source == source_kind::state) b.fill(0);
    if (e.info->source != source_kind::parameter) return;
    operand const& x = e.info->outputs[0];
    std::size_t extents[max_rank]{}, offsets[max_rank]{};
    for (int a = 0; a < x.rank; ++a) extents[a] = g_.extent(x.axes[a]);
    const std::uint64_t name = hash(g_.name(op).view());
    if (x.type == f64) fill_initial(e.given, name, seed_, x.rank, extents, offsets, extents, static_cast<double*>(b.data()));
    else fill_initial(e.given, name, seed_, x.rank, extents, offsets, extents, static_cast<float*>(b.data()));
  }

  void run(named_values const& inputs, int count, step_context const& context) {
    for (int op = 0; op < count; ++op) {
      op_entry const& e = g_.ops[op];
      if (e.info->source == source_kind::input) {
        const auto given = inputs.find(g_.name(op).view());
        buffer& b = at(e.first_output);
        if (given == inputs.end()) throw error("reference: input " + std::string(g_.name(op).view()) + " is missing");
        if (given->second.all.size() != b.size())
          throw error("reference: input " + given->first + " has " + std::to_string(given->second.all.size()) +
                      " elements, not " + std::to_string(b.size()));
        for (std::size_t i = 0; i < b.size(); ++i) b.set(i, given->second.all[i]);
      }
      if (e.info->source == source_kind::none) launch(op, context);
    }
  }

  void launch(int op, step_context const& context) {
    op_entry const& e = g_.ops[op];
    std::vector<void const*> inputs;
    std::vector<void*> outputs;
    for (int i = 0; i < e.input_count; ++i) inputs.push_back(at(g_.input(e, i)).data());
    for (int o = 0; o < e.info->output_count; ++o) outputs.push_back(at(e.first_output + o).data());
    on_cpu::launch_arguments a;
    a.inputs = inputs.data();
    a.outputs = outputs.data();
    a.input_count = e.input_count;
    a.info = e.info;
    for (int d = 0; d < e.info->dim_count; ++d) a.extents[d] = a.wholes[d] = g_.extent(e.info->dims[d].axis);
    a.given = e.given;
    a.key = keys_[static_cast<std::size_t>(op)];
    a.step = &context;
    a.team = &threads_;
    on_cpu::launcher const& launcher = g_.launchers[op];
    buffer scratch(f32, launcher.workspace(*e.info, a.extents, threads_.size()) / size_of(f32) + 1);
    a.scratch = scratch.data();
    launcher.run(a);
  }

  recorder_type g_;
  std::uint64_t seed_;
  on_cpu::workers threads_;
  list<std::string> names_;
  list<std::uint64_t> keys_;
  std::vector<buffer> tensors_;
  std::int64_t steps_ = 0;
};

}  // namespace partita::testing
