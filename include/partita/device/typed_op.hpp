// What every device knows of an op whose inputs have these dtypes, and of one piece of it.
#pragma once
#include <cstddef>

#include <partita/core/host_device.hpp>
#include <partita/model/graph_entries.hpp>

namespace partita {

// What an op's `static std::size_t workspace(shape const&)`, the bytes of its scratch, may depend on.
struct piece_shape {
  op_info const* info;
  std::size_t const* extents;  // of the piece, per letter
  std::size_t workers;         // of a CPU device; 0: the device's kernels keep nothing for each of its threads
  std::size_t element_size;    // of the first float input, in bytes
  PARTITA_HOST_DEVICE std::size_t extent(char letter) const {
    for (int d = 0; d < info->dim_count; ++d)
      if (info->dims[d].letter == letter) return extents[d];
    return 1;
  }
  PARTITA_HOST_DEVICE std::size_t rest() const {
    std::size_t n = 1;
    for (int d = 0; d < info->dim_count; ++d)
      if (info->dims[d].letter == rest_letter) n *= extents[d];
    return n;
  }
};

namespace detail {
PARTITA_HOST_DEVICE inline std::size_t elements(operand const& x, std::size_t const* extents) {
  std::size_t n = 1;
  for (int a = 0; a < x.rank; ++a) {
    n *= extents[x.dims[a]];
    if (x.inner[a] >= 0) n *= extents[x.inner[a]];
  }
  return n;
}

template <class Op, dtype... In> struct typed_op {
  static constexpr int input_count = annotation_of<Op>::parsed.input_count;
  static constexpr int output_count = annotation_of<Op>::parsed.output_count;
  static constexpr dtype inputs[sizeof...(In) + 1]{In..., f32};
  static constexpr typed types = resolve_dtypes(dtypes_of<Op>(), output_count, inputs, static_cast<int>(sizeof...(In)));
  // The CPU computes in f32, f64 and i32. An op with operands of narrower types runs on floats there (on_cpu::widened),
  // unless it takes any type as it is.
  static constexpr bool is_widened() {
    if constexpr (requires { Op::converts; }) return false;
    bool any = false;
    for (dtype d : inputs) any = any || is_narrow(d);
    for (int o = 0; o < output_count; ++o) any = any || is_narrow(types.outputs[o]);
    return any;
  }
  static constexpr std::size_t element_size() {
    for (int i = 0; i < static_cast<int>(sizeof...(In)); ++i)
      if (is_float(inputs[i])) return size_of(inputs[i]);
    return size_of(f32);
  }
};
}  // namespace detail

}  // namespace partita
