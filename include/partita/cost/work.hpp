// The work of a piece of an op, in FLOPs and bytes, and the time a device takes for it by its roofline (Williams,
// Waterman and Patterson 2009): the larger of the two, each at the efficiency that pieces of that size reach.
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>

#include <partita/cost/cluster.hpp>
#include <partita/model/op_info.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

struct op_work {
  double flops = 0, bytes = 0;
  dtype type = f32;      // in which it computes
  bool product = false;  // more points than any operand has elements: what matrix units do
  double reuse = 0;      // points for an element of the largest operand
};

// Elements of an operand's piece, the extents per letter.
constexpr double elements_of(operand const& x, std::size_t const* extents) {
  double n = 1;
  for (int a = 0; a < x.rank; ++a) {
    n *= static_cast<double>(extents[static_cast<int>(x.dims[a])]);
    if (x.inner[a] >= 0) n *= static_cast<double>(extents[static_cast<int>(x.inner[a])]);
  }
  return n;
}
// Every operand once, an output twice where the op adds to it. `inputs`: how many, where the op takes any number.
constexpr op_work work_of(op_info const& f, std::size_t const* extents, int inputs = -1, bool accumulates = false) {
  op_work w;
  if (f.source != source_kind::none || f.is_view) return w;
  double points = 1, most = 0;
  for (int d = 0; d < f.dim_count; ++d) points *= static_cast<double>(extents[d]);
  w.flops = f.flops_per_point * points;
  bool typed = false;
  const int count = f.variadic && inputs >= 0 ? inputs : f.input_count;
  for (int i = 0; i < count; ++i) {
    operand const& x = f.input(i);
    const double n = elements_of(x, extents);
    most = std::max(most, n);
    w.bytes += n * static_cast<double>(size_of(x.type));
    if (!typed && is_float(x.type)) {
      w.type = x.type;
      typed = true;
    }
  }
  for (int o = 0; o < f.output_count; ++o) {
    const double n = elements_of(f.outputs[o], extents);
    most = std::max(most, n);
    w.bytes += n * static_cast<double>(size_of(f.outputs[o].type)) * (accumulates ? 2 : 1);
    if (!typed && is_float(f.outputs[o].type)) {
      w.type = f.outputs[o].type;
      typed = true;
    }
  }
  w.product = points > most;
  w.reuse = most > 0 ? points / most : 0;
  return w;
}

class roofline {
 public:
  explicit roofline(device_kind const& kind) : kind_(kind) {
    for (dtype type : types) {
      const auto own = kind.flops.find(std::string(name_of(type)));
      peak_[static_cast<std::size_t>(type)] = own != kind.flops.end() ? own->second : kind.flops.at("f32");
    }
    if (kind.flops_efficiency) flops_ = *kind.flops_efficiency;
    if (kind.memory_efficiency) memory_ = *kind.memory_efficiency;
  }
  double peak(dtype type) const { return peak_[static_cast<std::size_t>(type)]; }
  double seconds(op_work const& w) const {
    if (w.flops <= 0 && w.bytes <= 0) return 0;
    const double compute = w.product ? w.flops / (peak(w.type) * flops_.at(w.flops)) : w.flops / peak(accumulation_of(w.type));
    const double memory = w.bytes / (kind_.memory_bandwidth * memory_.at(w.bytes));
    return kind_.launch + std::max(compute, memory);
  }

 private:
  static constexpr std::array types{f32, f64, bf16, f16, i32};
  device_kind kind_;
  std::array<double, types.size()> peak_{};
  efficiency_curve flops_{1, 0}, memory_{1, 0};
};

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
