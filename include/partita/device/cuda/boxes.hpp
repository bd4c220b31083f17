// Boxes copied, combined and filled in device memory, as an algorithm over teams.
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <partita/core/host_device.hpp>
#include <partita/core/packs.hpp>
#include <partita/device/cuda/keys.hpp>
#include <partita/program/program.hpp>

namespace partita::on_cuda {

enum class box_kind : std::uint8_t { copy, sum, max, fill, to_keys, from_keys };

// One box as a kernel's argument, by value: `rank` loops over dense or strided elements; the last loop is the innermost.
struct box_arguments {
  box_kind kind = box_kind::copy;
  unsigned char width = 4;  // bytes of an element: 2, 4, 8, or 16 where rows and addresses allow
  dtype type = f32;         // of what is combined, filled, or has keys, which are dense
  void const* from = nullptr;
  void* to = nullptr;
  int rank = 0;
  std::size_t elements = 1;
  std::size_t extents[max_rank]{}, from_strides[max_rank]{}, to_strides[max_rank]{};
  double value = 0;
};

// In elements of 16 bytes, where every row begins and ends with one.
inline box_arguments in_packs(box_arguments a) {
  if (a.rank == 0 || a.elements == 0) return a;
  const int inner = a.rank - 1;
  const std::size_t wide = 16, pack = wide / a.width;
  bool fits = a.from_strides[inner] == 1 && a.to_strides[inner] == 1 && a.extents[inner] % pack == 0 &&
              partita::detail::begins_pack(a.from) && partita::detail::begins_pack(a.to);
  for (int d = 0; d < inner; ++d) fits = fits && a.from_strides[d] % pack == 0 && a.to_strides[d] % pack == 0;
  if (!fits) return a;
  a.width = wide;
  a.elements /= pack;
  a.extents[inner] /= pack;
  for (int d = 0; d < inner; ++d) {
    a.from_strides[d] /= pack;
    a.to_strides[d] /= pack;
  }
  return a;
}
// With as few loops as the strides allow.
inline box_arguments arguments_of(box_copy const& b, dtype type, void const* from, void* to) {
  box_arguments a;
  a.kind = !b.combine ? box_kind::copy : b.reduce == reduction::sum ? box_kind::sum : box_kind::max;
  a.width = static_cast<unsigned char>(size_of(type));
  a.type = type;
  a.from = from;
  a.to = to;
  for (int d = 0; d < b.rank; ++d) {
    a.elements *= b.extents[d];
    if (b.extents[d] == 1) continue;
    const int last = a.rank - 1;
    if (last >= 0 && a.from_strides[last] == b.extents[d] * b.from_strides[d] &&
        a.to_strides[last] == b.extents[d] * b.to_strides[d]) {
      a.extents[last] *= b.extents[d];
      a.from_strides[last] = b.from_strides[d];
      a.to_strides[last] = b.to_strides[d];
    } else {
      a.extents[a.rank] = b.extents[d];
      a.from_strides[a.rank] = b.from_strides[d];
      a.to_strides[a.rank++] = b.to_strides[d];
    }
  }
  return in_packs(a);
}
inline box_arguments fill_of(void* to, dtype type, std::size_t elements, double value) {
  box_arguments a;
  a.kind = box_kind::fill;
  a.width = static_cast<unsigned char>(size_of(type));
  a.type = type;
  a.to = to;
  a.rank = 1;
  a.elements = a.extents[0] = elements;
  a.to_strides[0] = a.from_strides[0] = 1;
  a.value = value;
  return in_packs(a);
}

inline constexpr std::size_t box_chunk = 1024;  // elements that a team takes at a time

struct alignas(16) sixteen_bytes {
  std::uint64_t low, high;
};

namespace detail {
PARTITA_HOST_DEVICE inline void place_of(box_arguments const& a, std::size_t element, std::size_t& from, std::size_t& to) {
  from = to = 0;
  for (int d = a.rank - 1; d >= 0; --d) {
    const std::size_t index = element % a.extents[d];
    element /= a.extents[d];
    from += index * a.from_strides[d];
    to += index * a.to_strides[d];
  }
}
template <class T, class Team, class F>
PARTITA_HOST_DEVICE void each_element(Team const& team, box_arguments const& a, std::size_t block, std::size_t blocks, F f) {
  T const* const from = static_cast<T const*>(a.from);
  T* const to = static_cast<T*>(a.to);
  for (std::size_t begin = block * box_chunk; begin < a.elements; begin += blocks * box_chunk)
    team.each(a.elements - begin < box_chunk ? a.elements - begin : box_chunk, [=, &a](std::size_t i) {
      std::size_t source, target;
      place_of(a, begin + i, source, target);
      f(from == nullptr ? from : from + source, to + target);
    });
}
// f(to, from) where `to` is, by packs where the box has them; a fill's box has no `from`.
template <class T, class Team, class F>
PARTITA_HOST_DEVICE void each_joined(Team const& team, box_arguments const& a, std::size_t block, std::size_t blocks, F f) {
  constexpr std::size_t width = sizeof(sixteen_bytes) / sizeof(T);
  const bool fills = a.from == nullptr;
  if (a.width != sizeof(sixteen_bytes))
    return each_element<T>(team, a, block, blocks, [=](T const* from, T* to) { *to = fills ? f(T(0), T(0)) : f(*to, *from); });
  each_element<sixteen_bytes>(team, a, block, blocks, [=](sixteen_bytes const* from, sixteen_bytes* to) {
    T* const there = reinterpret_cast<T*>(to);
    partita::detail::pack<T, width> x{}, y{};
    if (!fills) {
      x = partita::detail::load_pack<width>(static_cast<T const*>(there));
      y = partita::detail::load_pack<width>(reinterpret_cast<T const*>(from));
    }
    for (std::size_t j = 0; j < width; ++j) x.at[j] = f(x.at[j], y.at[j]);
    partita::detail::store_pack<width>(there, x);
  });
}
template <class T> PARTITA_HOST_DEVICE T narrowed(double value) {
  if constexpr (sizeof(T) < sizeof(float)) return T(static_cast<float>(value));
  else return static_cast<T>(value);
}
template <class T, class Team>
PARTITA_HOST_DEVICE void combine_or_fill(Team const& team, box_arguments const& a, std::size_t block, std::size_t blocks) {
  if (a.kind == box_kind::fill) {
    const T value = narrowed<T>(a.value);
    each_joined<T>(team, a, block, blocks, [=](T, T) { return value; });
  } else if (a.kind == box_kind::sum) {
    if constexpr (std::is_integral_v<T>)  // wraps
      each_joined<T>(team, a, block, blocks, [](T to, T from) {
        return static_cast<T>(static_cast<std::make_unsigned_t<T>>(to) + static_cast<std::make_unsigned_t<T>>(from));
      });
    else each_joined<T>(team, a, block, blocks, [](T to, T from) { return static_cast<T>(to + from); });
  } else each_joined<T>(team, a, block, blocks, [](T to, T from) { return to < from || from != from ? from : to; });
}
template <class T, class Team>
PARTITA_HOST_DEVICE void change_keys(Team const& team, box_arguments const& a, std::size_t block, std::size_t blocks) {
  const bool makes = a.kind == box_kind::to_keys;
  void const* const from = a.from;
  void* const to = a.to;
  for (std::size_t begin = block * box_chunk; begin < a.elements; begin += blocks * box_chunk)
    team.each(a.elements - begin < box_chunk ? a.elements - begin : box_chunk, [=](std::size_t i) {
      if (makes) static_cast<key_type<T>*>(to)[begin + i] = key_of(static_cast<T const*>(from)[begin + i]);
      else static_cast<T*>(to)[begin + i] = of_key<T>(static_cast<key_type<T> const*>(from)[begin + i]);
    });
}
}  // namespace detail

// The part of a box that one block does.
template <class Team> PARTITA_HOST_DEVICE void run_box(box_arguments const& a, std::size_t block, std::size_t blocks) {
  const Team team{};
  auto copy = [&](auto word) {
    using T = decltype(word);
    detail::each_element<T>(team, a, block, blocks, [](T const* from, T* to) { *to = *from; });
  };
  if (a.kind == box_kind::to_keys || a.kind == box_kind::from_keys) {
    if (a.type == f64) detail::change_keys<double>(team, a, block, blocks);
    else if (a.type == bf16) detail::change_keys<bfloat16>(team, a, block, blocks);
    else if (a.type == f16) detail::change_keys<float16>(team, a, block, blocks);
    else detail::change_keys<float>(team, a, block, blocks);
  } else if (a.kind != box_kind::copy) {
    if (a.type == f64) detail::combine_or_fill<double>(team, a, block, blocks);
    else if (a.type == bf16) detail::combine_or_fill<bfloat16>(team, a, block, blocks);
    else if (a.type == f16) detail::combine_or_fill<float16>(team, a, block, blocks);
    else if (a.type == i32) detail::combine_or_fill<std::int32_t>(team, a, block, blocks);
    else detail::combine_or_fill<float>(team, a, block, blocks);
  } else if (a.width == 16) copy(sixteen_bytes{});
  else if (a.width == 8) copy(std::uint64_t{});
  else if (a.width == 2) copy(std::uint16_t{});
  else copy(std::uint32_t{});
}

}  // namespace partita::on_cuda
