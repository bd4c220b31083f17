// Chains of element-wise ops as one kernel: what one op makes stays in registers for the next, and goes to memory where somebody
// else reads it. Every op's result is rounded to its type before the next one takes it, as it is when each has a kernel.
//
// A chain's ops are template arguments, as functions: the graph of a training, traced while compiling, holds their addresses
// (device/cuda/chain_table.hpp).
#pragma once
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include <partita/core/hash.hpp>
#include <partita/core/host_device.hpp>
#include <partita/core/packs.hpp>
#include <partita/core/random.hpp>
#include <partita/device/cuda/call.hpp>
#include <partita/device/typed_op.hpp>
#include <partita/program/step.hpp>

namespace partita::on_cuda {

inline constexpr int most_links = 4;
inline constexpr int most_link_inputs = 2;

// One op of a chain.
struct link_arguments {
  void const* inputs[most_link_inputs]{};  // what the chain makes is not read there
  void* output = nullptr;                  // null: nobody else reads it
  double attribute = 0;
  std::uint64_t key = 0;
  std::size_t first = 0;  // number of the piece's first element in the whole tensor, where the op draws
  step_context const* step = nullptr;
};
// A chain as a kernel's argument, by value.
struct chain_arguments {
  std::size_t elements = 0;
  link_arguments links[most_links]{};
};

// `count` elements from `begin` on: y = the op of x, or of its input in memory where x is null. x and y hold as many floats as
// the chain takes at a time.
using link_function = void (*)(link_arguments const&, std::size_t begin, std::size_t count, float const* x0, float const* x1,
                               float* y);

namespace detail {
// Element-wise ops say what they do to one element (ops/pointwise.hpp); dropout says that it draws. Chains write down no mistakes
// in data, so ops that look for them have kernels of their own; dropout's is in its attribute, which the host sees.
template <class Op> inline constexpr bool draws = requires { Op::draws; };
template <class Op> constexpr bool has_point() {
  constexpr int inputs = annotation_of<Op>::parsed.input_count;
  if constexpr (draws<Op>) return true;
  else if constexpr (requires(data_fault const& f) { Op::words_of(f); }) return false;
  else if constexpr (requires { Op::parameter_count; }) {
    if constexpr (inputs == 1) return requires(float x) {
        Op::point(x, x);
      };
    else return requires(float x) {
        Op::point(x, x, x);
      };
  } else if constexpr (inputs == 1) return requires(float x) {
      Op::point(x);
    };
  else return requires(float x) {
      Op::point(x, x);
    };
}
// f64 is computed in double and integers not at all: their ops are in no chain.
template <class Op, dtype... In> constexpr bool is_link() {
  using types = partita::detail::typed_op<Op, In...>;
  if constexpr (types::input_count < 1 || types::input_count > most_link_inputs || types::output_count != 1) return false;
  else if constexpr (!has_point<Op>()) return false;
  else {
    constexpr dtype operands[]{In..., types::types.outputs[0]};
    bool all = true;
    for (dtype d : operands) all = all && is_float(d) && size_of(d) <= sizeof(float);
    return all;
  }
}
// Whether 16 bytes hold eight elements of one of its operands.
template <class Op, dtype... In> constexpr bool has_narrow_operand() {
  constexpr dtype operands[]{In..., partita::detail::typed_op<Op, In...>::types.outputs[0]};
  bool any = false;
  for (dtype d : operands) any = any || size_of(d) < sizeof(float);
  return any;
}

// A number that a multiplication and an addition of two ops do not make without rounding between them.
PARTITA_HOST_DEVICE inline float rounded(float x) {
#if defined(__CUDA_ARCH__)
  asm("" : "+f"(x));
#endif
  return x;
}
template <std::size_t Width, class T>
PARTITA_HOST_DEVICE void load_values(void const* from, std::size_t begin, std::size_t count, float (&to)[Width]) {
  T const* const at = static_cast<T const*>(from) + begin;
  if (count == Width && partita::detail::begins_pack(at)) {
    const auto p = partita::detail::load_pack<Width>(at);
    for (std::size_t j = 0; j < Width; ++j) to[j] = static_cast<float>(p.at[j]);
  } else
    for (std::size_t j = 0; j < Width; ++j) to[j] = j < count ? static_cast<float>(at[j]) : 0.f;
}
template <std::size_t Width, class T>
PARTITA_HOST_DEVICE void store_values(void* to, std::size_t begin, std::size_t count, float const* from) {
  T* const at = static_cast<T*>(to) + begin;
  if (count == Width && partita::detail::begins_pack(at)) {
    partita::detail::pack<T, Width> p;
    for (std::size_t j = 0; j < Width; ++j) p.at[j] = static_cast<T>(from[j]);
    partita::detail::store_pack<Width>(at, p);
  } else
    for (std::size_t j = 0; j < Width; ++j)
      if (j < count) at[j] = static_cast<T>(from[j]);
}
template <std::size_t Width>
PARTITA_HOST_DEVICE void drop_values(link_arguments const& a, std::size_t begin, float const* x, float* y) {
  const float limit = static_cast<float>(a.attribute), kept = static_cast<float>(1 / (1 - a.attribute));
  bool keep[Width];
  const bool drops = a.step->training && a.attribute != 0;
  if (drops) keeps_each(keep, hash(a.step->seed, a.key), static_cast<std::uint64_t>(a.step->step), a.first + begin, limit);
  for (std::size_t j = 0; j < Width; ++j) y[j] = !drops ? x[j] : x[j] * (keep[j] ? kept : 0.f);
}
}  // namespace detail

template <class Op, std::size_t Width, dtype... In> PARTITA_HOST_DEVICE void run_link(link_arguments const& a, std::size_t begin,
                                                                                      std::size_t count, float const* x0,
                                                                                      float const* x1, float* y) {
  using types = partita::detail::typed_op<Op, In...>;
  using out = element_t<types::types.outputs[0]>;
  float first[Width], second[Width];
  if (x0 == nullptr) detail::load_values<Width, element_t<types::inputs[0]>>(a.inputs[0], begin, count, first);
  float const *const p = x0 == nullptr ? first : x0, *q = x1;
  if constexpr (types::input_count == 2) {
    if (x1 == nullptr) detail::load_values<Width, element_t<types::inputs[1]>>(a.inputs[1], begin, count, second);
    q = x1 == nullptr ? second : x1;
  }
  if constexpr (detail::draws<Op>) detail::drop_values<Width>(a, begin, p, y);
  else {
    [[maybe_unused]] const float parameter = static_cast<float>(a.attribute);
    for (std::size_t j = 0; j < Width; ++j)
      if constexpr (types::input_count == 1) {
        if constexpr (requires { Op::parameter_count; }) y[j] = Op::point(p[j], parameter);
        else y[j] = Op::point(p[j]);
      } else {
        if constexpr (requires { Op::parameter_count; }) y[j] = Op::point(p[j], q[j], parameter);
        else y[j] = Op::point(p[j], q[j]);
      }
  }
  for (std::size_t j = 0; j < Width; ++j) y[j] = detail::rounded(static_cast<float>(static_cast<out>(y[j])));
  if (a.output != nullptr) detail::store_values<Width, out>(a.output, begin, count, y);
}

// The op `F` of a chain: its inputs are what the ops of these numbers made, or in memory (-1).
template <link_function F, int From0, int From1> struct link_of {
  template <std::size_t Width> PARTITA_HOST_DEVICE static void run(link_arguments const& a, std::size_t begin, std::size_t count,
                                                                   float (*made)[Width], int self) {
    F(a, begin, count, From0 < 0 ? nullptr : made[From0 < 0 ? 0 : From0], From1 < 0 ? nullptr : made[From1 < 0 ? 0 : From1],
      made[self]);
  }
};

// Pack p of a chain: `Width` elements.
template <std::size_t Width, class... Links> PARTITA_HOST_DEVICE void run_chain_pack(chain_arguments const& a, std::size_t p) {
  const std::size_t begin = p * Width, count = a.elements - begin < Width ? a.elements - begin : Width;
  float made[sizeof...(Links)][Width];
  int at = 0;
  ((Links::template run<Width>(a.links[at], begin, count, made, at), ++at), ...);
}

// The part of a chain that one block does.
template <std::size_t Width, class Team, class... Links>
PARTITA_HOST_DEVICE void run_chain(chain_arguments const& a, std::size_t block, std::size_t blocks) {
  share_out(Team{}, (a.elements + Width - 1) / Width, block, blocks,
            [&a](std::size_t p) { run_chain_pack<Width, Links...>(a, p); });
}

}  // namespace partita::on_cuda
