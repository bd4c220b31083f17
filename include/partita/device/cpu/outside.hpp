// Where the places of a program are, and copies between them and whole tensors of the world outside.
#pragma once
#include <cstddef>

#include <partita/device/cpu/copy.hpp>
#include <partita/program/program.hpp>

namespace partita::on_cpu {

// The address of a place in a program whose regions begin at `state` and `arena`; null for no place.
inline std::byte* address(program const& p, reference const& at, std::byte* state, std::byte* arena) {
  if (at.buffer < 0) return nullptr;
  buffer const& b = p.buffers[static_cast<std::size_t>(at.buffer)];
  std::byte* const base = b.where == region::state ? state : arena;
  return base == nullptr ? nullptr : base + b.offset + at.offset;
}

namespace detail {
// The box of `o` between the dense piece and the whole row-major tensor; `begin` is where it starts in the whole.
inline box_copy box_of(outside const& o, bool into_whole, std::size_t& begin) {
  box_copy b;
  b.rank = o.rank;
  std::size_t in_piece = 1, in_whole = 1;
  begin = 0;
  for (int d = o.rank - 1; d >= 0; --d) {
    b.extents[d] = o.extents[d];
    b.from_strides[d] = into_whole ? in_piece : in_whole;
    b.to_strides[d] = into_whole ? in_whole : in_piece;
    begin += o.begin[d] * in_whole;
    in_piece *= o.extents[d];
    in_whole *= o.whole[d];
  }
  return b;
}
}  // namespace detail

// Copies the box of `o` out of the whole row-major tensor into `piece`, its place in the program; and back. Only the
// box is touched, so any number of threads may copy boxes that do not overlap.
inline void copy_in(outside const& o, dtype type, void const* whole, void* piece, workers* team = nullptr) {
  std::size_t begin = 0;
  const box_copy b = detail::box_of(o, false, begin);
  copy_box(b, type, static_cast<std::byte const*>(whole) + begin * size_of(type), piece, team);
}
inline void copy_out(outside const& o, dtype type, void const* piece, void* whole, workers* team = nullptr) {
  std::size_t begin = 0;
  const box_copy b = detail::box_of(o, true, begin);
  copy_box(b, type, piece, static_cast<std::byte*>(whole) + begin * size_of(type), team);
}

}  // namespace partita::on_cpu
