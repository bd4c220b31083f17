// Runs an op's kernel on pieces and compares with the whole, for every cut that its annotation allows.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <string>
#include <vector>

#include <partita/device/cpu/backend.hpp>
#include <partita/model/apply.hpp>

#include "buffer.hpp"

namespace partita::testing {

// One op on inputs of given axes, with no graph about it.
class lone_op {
 public:
  op_info info;
  on_cpu::launcher launcher;
  std::size_t wholes[max_dims]{};  // extents by letter
  std::vector<buffer> inputs;      // whole
  attributes given{};
  std::uint64_t key = 0x1234;
  step_context context{0.1, 3, 17, true};
  on_cpu::workers* workers = nullptr;

  // Input i's element j is fill(i, j). Extents of unbound axes come from `bindings`.
  template <class Op, class... In> static lone_op make(attributes const& given, std::vector<binding> const& bindings,
                                                       std::function<double(int, std::size_t)> const& fill) {
    using t = typing<Op, In...>;
    static_assert(t::what == verdict::good, "the op rejects these inputs");
    lone_op r;
    r.info = t::result.info;
    r.launcher = on_cpu::backend::launch<Op, In::type...>();
    r.given = given;
    for (int d = 0; d < r.info.dim_count; ++d) {
      axis_info const* axis = r.info.dims[d].axis;
      r.wholes[d] = axis->extent;
      for (binding const& b : bindings)
        if (b.axis->id == axis->id && axis->extent == unbound) r.wholes[d] = b.extent;
      if (r.wholes[d] == unbound) throw error("lone_op: axis " + std::string(axis->name) + " is not bound");
    }
    for (int i = 0; i < r.info.input_count; ++i) {
      buffer b(r.info.inputs[i].type, r.elements(r.info.inputs[i], r.wholes));
      for (std::size_t j = 0; j < b.size(); ++j) b.set(j, fill(i, j));
      r.inputs.push_back(std::move(b));
    }
    return r;
  }

  static std::size_t elements(operand const& x, std::size_t const* extents) { return on_cpu::detail::elements(x, extents); }
  // Calls f(index in the whole operand) for the elements of a box of letters, in row-major order.
  template <class F> void each_element(operand const& x, std::size_t const* offsets, std::size_t const* extents, F f) const {
    std::size_t count = elements(x, extents);
    for (std::size_t n = 0; n < count; ++n) {
      std::size_t left = n, index = 0, stride = 1;
      for (int a = x.rank - 1; a >= 0; --a) {
        auto take = [&](int d) {
          index += (offsets[d] + left % extents[d]) * stride;
          left /= extents[d];
          stride *= wholes[d];
        };
        if (x.inner[a] >= 0) take(x.inner[a]);
        take(x.dims[a]);
      }
      f(index);
    }
  }

  std::vector<buffer> make_outputs(std::size_t const* extents) const {
    std::vector<buffer> all;
    for (int o = 0; o < info.output_count; ++o) all.emplace_back(info.outputs[o].type, elements(info.outputs[o], extents));
    return all;
  }
  // Runs the kernel on a box of letters. `outputs` are those of the box.
  void run(std::size_t const* offsets, std::size_t const* extents, std::vector<buffer>& outputs, bool accumulate = false) const {
    std::vector<buffer> pieces;
    std::vector<void const*> in;
    std::vector<void*> out;
    for (int i = 0; i < info.input_count; ++i) {
      buffer b(info.inputs[i].type, elements(info.inputs[i], extents));
      std::size_t n = 0;
      each_element(info.inputs[i], offsets, extents,
                   [&](std::size_t index) { b.set(n++, inputs[static_cast<std::size_t>(i)].get(index)); });
      pieces.push_back(std::move(b));
    }
    for (buffer const& b : pieces) in.push_back(b.data());
    for (buffer& b : outputs) out.push_back(b.data());
    on_cpu::launch_arguments a;
    a.inputs = in.data();
    a.outputs = out.data();
    a.input_count = info.input_count;
    a.info = &info;
    for (int d = 0; d < info.dim_count; ++d) {
      a.extents[d] = extents[d];
      a.offsets[d] = offsets[d];
      a.wholes[d] = wholes[d];
    }
    a.given = given;
    a.key = key;
    a.accumulate = accumulate;
    a.step = &context;
    a.team = workers;
    buffer scratch(f32, launcher.workspace(info, extents, workers == nullptr ? 1 : workers->size()) / 4 + 1);
    a.scratch = scratch.data();
    launcher.run(a);
  }
  std::vector<buffer> run_whole(bool accumulate = false, double before = 0) const {
    const std::size_t none[max_dims]{};
    std::vector<buffer> outputs = make_outputs(wholes);
    if (accumulate)
      for (buffer& b : outputs) b.fill(before);
    run(none, wholes, outputs, accumulate);
    return outputs;
  }
  // Cuts every letter d into pieces of the sizes cuts[d], runs all boxes and puts their outputs together: side by side
  // along the letters that an output has, summed (or the largest taken) over those it lacks.
  std::vector<buffer> run_cut(std::vector<std::vector<std::size_t>> const& cuts) const {
    std::vector<buffer> total = make_outputs(wholes);
    for (int o = 0; o < info.output_count; ++o)
      total[static_cast<std::size_t>(o)].fill(
          info.outputs[o].reduce == reduction::sum ? 0 : -std::numeric_limits<double>::infinity());
    const std::size_t dims = static_cast<std::size_t>(info.dim_count);
    std::vector<std::size_t> at(dims, 0);
    for (bool more = true; more;) {
      std::size_t offsets[max_dims]{}, extents[max_dims]{};
      for (std::size_t d = 0; d < dims; ++d) {
        for (std::size_t p = 0; p < at[d]; ++p) offsets[d] += cuts[d][p];
        extents[d] = cuts[d][at[d]];
      }
      std::vector<buffer> piece = make_outputs(extents);
      run(offsets, extents, piece);
      for (int o = 0; o < info.output_count; ++o) {
        buffer& whole = total[static_cast<std::size_t>(o)];
        buffer const& part = piece[static_cast<std::size_t>(o)];
        std::size_t n = 0;
        each_element(info.outputs[o], offsets, extents, [&](std::size_t index) {
          const double value = part.get(n++);
          whole.set(index,
                    info.outputs[o].reduce == reduction::sum ? whole.get(index) + value : std::max(whole.get(index), value));
        });
      }
      more = false;
      for (std::size_t d = 0; d < dims && !more; ++d) {
        if (++at[d] < cuts[d].size()) more = true;
        else at[d] = 0;
      }
    }
    return total;
  }
};

inline std::vector<std::size_t> even_pieces(std::size_t extent, std::size_t pieces) {
  std::vector<std::size_t> sizes;
  for (std::size_t p = 0; p < pieces; ++p) sizes.push_back(extent / pieces + (p < extent % pieces ? 1 : 0));
  return sizes;
}

// The largest difference of two tensors, relative to the larger of 1e-3 and the first one's largest element; a NaN in one
// of them, or two different infinities, count as infinite.
inline double difference(buffer const& a, buffer const& b) {
  double largest = 1e-3, worst = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::isfinite(a.get(i))) largest = std::max(largest, std::abs(a.get(i)));
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a.get(i) == b.get(i)) continue;
    const double d = std::abs(a.get(i) - b.get(i));
    worst = std::isfinite(d) ? std::max(worst, d) : std::numeric_limits<double>::infinity();
  }
  return worst / largest;
}
inline void check_same(std::vector<buffer> const& a, std::vector<buffer> const& b, double tolerance, std::string const& what) {
  REQUIRE(a.size() == b.size());
  for (std::size_t o = 0; o < a.size(); ++o) {
    REQUIRE(a[o].size() == b[o].size());
    INFO(what, ", output ", o);
    CHECK(difference(a[o], b[o]) <= tolerance);
  }
}

// Cuts each letter of the op that may be cut in 2, in 3, and into 1 and the rest; then all letters at once; and adds to
// outputs where the op can. `tolerance` is relative to the largest element. `In` are like<dtype, axes...>.
inline void check_cuts(lone_op op, double tolerance = 2e-6) {
  const std::vector<buffer> whole = op.run_whole();
  std::vector<std::vector<std::size_t>> uncut, all;
  for (int d = 0; d < op.info.dim_count; ++d) uncut.push_back({op.wholes[d]});
  all = uncut;
  for (int d = 0; d < op.info.dim_count; ++d) {
    const std::size_t extent = op.wholes[d], at = static_cast<std::size_t>(d);
    if (op.info.dims[d].whole || extent < 2) continue;
    auto cuts = uncut;
    const std::string what =
        std::string(op.info.kind) + " cut along " + std::string(op.info.dims[d].axis->name) + " (" + op.info.dims[d].letter + ")";
    cuts[at] = all[at] = even_pieces(extent, 2);
    check_same(whole, op.run_cut(cuts), tolerance, what + " in 2");
    cuts[at] = {1, extent - 1};
    check_same(whole, op.run_cut(cuts), tolerance, what + " into 1 and the rest");
    if (extent < 3) continue;
    cuts[at] = even_pieces(extent, 3);
    check_same(whole, op.run_cut(cuts), tolerance, what + " in 3");
  }
  check_same(whole, op.run_cut(all), tolerance, std::string(op.info.kind) + " cut along all letters");
  if (op.info.accumulates && !op.info.merges()) {
    std::vector<buffer> added = op.run_whole(true, 2.5);
    for (buffer& b : added)
      for (std::size_t i = 0; i < b.size(); ++i) b.set(i, b.get(i) - 2.5);
    check_same(whole, added, 4 * tolerance, std::string(op.info.kind) + " added to 2.5");
  }
  on_cpu::workers three(3);
  op.workers = &three;
  check_same(whole, op.run_whole(), tolerance, std::string(op.info.kind) + " on 3 workers");
  const std::vector<buffer> again = op.run_whole();
  check_same(again, op.run_whole(), 0, std::string(op.info.kind) + " run twice");
}

// Numbers between -1 and 1 without a pattern; `fill` of other inputs is the test's.
inline double number(int input, std::size_t index) {
  return std::sin(1.7 * static_cast<double>(index) + 0.9 * input + 0.4) * std::cos(0.31 * static_cast<double>(index) - input);
}

template <class Op, class... In> void check_pieces(attributes const& given = {}, std::vector<binding> const& bindings = {},
                                                   std::function<double(int, std::size_t)> const& fill = number,
                                                   double tolerance = 2e-6) {
  check_cuts(lone_op::make<Op, In...>(given, bindings, fill), tolerance);
}

}  // namespace partita::testing
