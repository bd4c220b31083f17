// What stands beside each op of a graph that is traced for CUDA devices.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>

#include <partita/core/after_product.hpp>
#include <partita/device/cuda/boxes.hpp>
#include <partita/device/cuda/call.hpp>
#include <partita/device/cuda/chain_table.hpp>
#include <partita/grad/training.hpp>
#include <partita/model/runs_kernel_of.hpp>

namespace partita::on_cuda {

struct launch_size {
  unsigned blocks = 1, threads = 32;
  std::size_t memory = 0;  // bytes of a block, beside what its kernel declares
};

struct launcher {
  // Runs the kernel on the host, with a call that records.
  void (*record)(kernel_arguments const&, recording&) = nullptr;
  // Puts one of the recorded launches into a stream.
  void (*launch)(kernel_arguments const&, int step, launch_size const&, void* stream) = nullptr;
  std::size_t (*scratch)(op_info const&, std::size_t const* extents) = nullptr;  // bytes, without those of partial sums
  std::string (*words)(data_fault const&) = nullptr;                             // null where the op finds no mistakes
  after_product after = after_product::none;
  link_functions link{};  // of a chain
  bool draws = false;     // random numbers, by an element's number in the whole tensor
};

namespace detail {
// Reads all operands' extents and types from `a`, whose pointers may be null.
template <class Op, dtype... In> void record(kernel_arguments const& a, recording& to) {
  call<Op, recorder_of_launches, In...> c(a, recorder_of_launches(to));
  Op::kernel(c);
}
template <class Op, dtype... In> std::size_t scratch(op_info const& info, std::size_t const* extents) {
  if constexpr (requires(piece_shape const& s) { Op::workspace(s); })
    return Op::workspace(piece_shape{&info, extents, 0, partita::detail::typed_op<Op, In...>::element_size()});
  else return 0;
}
template <class Op> constexpr auto words_of_faults() -> std::string (*)(data_fault const&) {
  if constexpr (requires(data_fault const& f) { Op::words_of(f); }) return &Op::words_of;
  else return nullptr;
}
template <class Op> constexpr after_product after() {
  if constexpr (requires { Op::after; }) return Op::after;
  else return after_product::none;
}
}  // namespace detail

// What puts the copy, combination or filling of a box into a stream.
using box_launch = void (*)(box_arguments const&, unsigned blocks, unsigned threads, void* stream);

// `Launch::run<Op, dtypes...>` is launcher::launch, `Launch::run_chain<width, links...>` chain_kernel::launch.
template <class Launch> struct backend {
  using launcher = on_cuda::launcher;
  template <class Op, dtype... In> static constexpr launcher launch() {
    if constexpr (requires(Op const* op) { of_kernel<Op, In...>(op); })
      return of_kernel<Op, In...>(static_cast<Op const*>(nullptr));
    else return of_kernel<Op, Op, In...>();
  }

 private:
  template <class Op, class Kernel, dtype... In> static constexpr launcher of_kernel() {
    return {&detail::record<Kernel, In...>,
            &Launch::template run<Kernel, In...>,
            &detail::scratch<Op, In...>,
            detail::words_of_faults<Op>(),
            detail::after<Op>(),
            link_functions_of<Kernel, In...>(),
            detail::draws<Kernel>};
  }
  // Deduced from the base: nvcc would spell what is reached through Op as it is reached.
  template <class Op, dtype... In, class Kernel> static constexpr launcher of_kernel(runs_kernel_of<Kernel> const*) {
    return of_kernel<Op, Kernel, In...>();
  }
};

// All that a program of a training launches.
struct kernels_of_training {
  std::span<launcher const> launchers;  // by op
  box_launch boxes = nullptr;
  std::span<chain_kernel const> chains;
};
// A training that was traced together with its kernels, whatever its type.
struct traced_training : kernels_of_training {
  virtual ~traced_training() = default;
  graph_data* graph = nullptr;
  growing<loss_entry> losses;
};

namespace detail {
template <class Launch, class Training> struct traced_with final : traced_training {
  recorder<backend<Launch>, Training> recorded;
  traced_with(Training const& t, std::span<binding const> extents) {
    for (binding const& b : extents) recorded.bindings.push(b);
    trace(recorded, t);
    graph = &recorded;
    launchers = {recorded.launchers.at, static_cast<std::size_t>(recorded.launchers.size)};
    losses = recorded.losses;
    boxes = &Launch::run_box;
    chains = chain_kernels_of<Launch, Training>();
  }
};
}  // namespace detail

}  // namespace partita::on_cuda
