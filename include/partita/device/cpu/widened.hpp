// Ops on bf16 and f16: their operands as floats, the op's kernel on those, and what it made rounded once. So every kernel
// does on the CPU what a GPU does that accumulates in f32, and none is compiled a second time.
#pragma once
#include <algorithm>
#include <cstddef>

#include <partita/core/narrow_arrays.hpp>
#include <partita/device/cpu/call.hpp>

namespace partita::on_cpu {

namespace detail {
// Which inputs and outputs the kernel takes as floats, one bit each.
struct widened_operands {
  unsigned inputs = 0, outputs = 0;
};
// A copy as floats begins at a multiple of 64 bytes of the scratch.
inline std::size_t floats_of(operand const& x, std::size_t const* extents) { return (elements(x, extents) + 15) / 16 * 16; }
inline std::size_t widened_bytes(op_info const& info, std::size_t const* extents, widened_operands which) {
  std::size_t floats = 0;
  for (int i = 0; i < info.input_count; ++i)
    if (which.inputs >> i & 1) floats += floats_of(info.inputs[i], extents);
  for (int o = 0; o < info.output_count; ++o)
    if (which.outputs >> o & 1) floats += floats_of(info.outputs[o], extents);
  return floats * sizeof(float);
}

template <class F> void in_parts(workers* team, std::size_t count, F const& f) {
  if (team == nullptr) f(std::size_t{0}, count, std::size_t{0});
  else team->parallel(count, 8192, f);
}
inline void widen_operand(dtype type, void const* from, float* to, std::size_t count, workers* team) {
  in_parts(team, count, [=](std::size_t begin, std::size_t end, std::size_t) {
    widen(type, static_cast<std::uint16_t const*>(from) + begin, 1, to + begin, end - begin);
  });
}
inline void narrow_operand(dtype type, float const* from, void* to, std::size_t count, workers* team) {
  in_parts(team, count, [=](std::size_t begin, std::size_t end, std::size_t) {
    narrow(type, from + begin, static_cast<std::uint16_t*>(to) + begin, 1, end - begin);
  });
}

inline void run_widened(launch_arguments const& a, widened_operands which, void (*kernel)(launch_arguments const&)) {
  op_info const& info = *a.info;
  void const* inputs[max_inputs]{};
  void* outputs[max_outputs]{};
  float* next = static_cast<float*>(a.scratch);
  for (int i = 0; i < info.input_count; ++i) {
    inputs[i] = a.inputs[i];
    if (!(which.inputs >> i & 1) || a.inputs[i] == nullptr) continue;
    widen_operand(info.inputs[i].type, a.inputs[i], next, elements(info.inputs[i], a.extents), a.team);
    inputs[i] = next;
    next += floats_of(info.inputs[i], a.extents);
  }
  for (int o = 0; o < info.output_count; ++o) {
    outputs[o] = a.outputs[o];
    if (!(which.outputs >> o & 1) || a.outputs[o] == nullptr) continue;
    if (a.accumulate) widen_operand(info.outputs[o].type, a.outputs[o], next, elements(info.outputs[o], a.extents), a.team);
    outputs[o] = next;
    next += floats_of(info.outputs[o], a.extents);
  }
  launch_arguments wide = a;
  wide.inputs = inputs;
  wide.outputs = outputs;
  wide.scratch = next;
  kernel(wide);
  for (int o = 0; o < info.output_count; ++o)
    if (outputs[o] != a.outputs[o])
      narrow_operand(info.outputs[o].type, static_cast<float const*>(outputs[o]), a.outputs[o],
                     elements(info.outputs[o], a.extents), a.team);
}
constexpr dtype widened_type(dtype type) { return is_narrow(type) ? dtype::f32 : type; }
}  // namespace detail

template <class Op, dtype... In> struct widened {
  using given = detail::typed_op<Op, In...>;
  using wide = detail::typed_op<Op, detail::widened_type(In)...>;
  // The outputs of a cast are narrow whatever its inputs are.
  static constexpr detail::widened_operands which = [] {
    detail::widened_operands w;
    for (int i = 0; i < static_cast<int>(sizeof...(In)); ++i) w.inputs |= unsigned{is_narrow(given::inputs[i])} << i;
    for (int o = 0; o < given::output_count; ++o) w.outputs |= unsigned{given::types.outputs[o] != wide::types.outputs[o]} << o;
    return w;
  }();
  static void run(launch_arguments const& a) { detail::run_widened(a, which, &detail::run<Op, detail::widened_type(In)...>); }
  static std::size_t workspace(op_info const& info, std::size_t const* extents, std::size_t workers) {
    return detail::widened_bytes(info, extents, which) +
           on_cpu::workspace<Op, detail::widened_type(In)...>(info, extents, workers);
  }
};

}  // namespace partita::on_cpu
