// Scratch of a kernel on a CUDA device.
#pragma once
#include <algorithm>
#include <cstddef>

#include <partita/device/cuda/launcher.hpp>

namespace partita::on_cuda {

// What the op asks for.
inline std::size_t own_scratch(launcher const& l, op_info const& info, std::size_t const* extents) {
  return l.scratch == nullptr ? 0 : (l.scratch(info, extents) + 63) / 64 * 64;
}
inline std::size_t bytes_of_sums(recording const& r) { return static_cast<std::size_t>(r.sums) * most_partials * sizeof(double); }
// Bytes of scratch that a piece needs on this device: what the op asks for, then a place for the parts of each of its sums.
inline std::size_t scratch_bytes(launcher const& l, op_info const& info, std::size_t const* extents) {
  if (l.record == nullptr) return 0;
  alignas(64) std::byte nowhere[64];  // ops count from where their scratch begins, and follow nothing here
  kernel_arguments a;
  a.scratch = nowhere;
  const step_context step;
  a.info = info;
  a.step = &step;
  std::copy_n(extents, max_dims, a.extents);
  std::copy_n(extents, max_dims, a.wholes);
  recording r;
  l.record(a, r);
  return own_scratch(l, info, extents) + bytes_of_sums(r);
}

}  // namespace partita::on_cuda
