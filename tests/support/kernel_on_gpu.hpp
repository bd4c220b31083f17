// One op by its GPU kernel, alone: on a pretended machine where a test is compiled as C++, on a real one, device 0, where
// nvcc compiles it.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include <partita/device/cuda/checked.hpp>
#include <partita/device/cuda/launcher.hpp>
#include <partita/device/cuda/memory.hpp>
#include <partita/device/cuda/products.hpp>
#include <partita/device/cuda/scratch.hpp>
#if defined(__CUDACC__)
#include <partita/device/cuda/kernels.hpp>
#include <partita/device/cuda/runtime.hpp>
#else
#include "pretend/cuda.hpp"
#endif

#include "pieces.hpp"

namespace partita::testing::gpu {

#if defined(__CUDACC__)
using api = on_cuda::runtime;
using backend = on_cuda::backend<on_cuda::global_launch>;
struct machine {
  machine() { on_cuda::check<api>(api::set_device(0), "device 0"); }
};
#else
using api = pretend::cuda;
using backend = pretend::backend;
using machine = pretend::machine;  // which notices tiles that matrix units do not take
#endif
using stream = on_cuda::stream<api>;

// A value in the device's memory, which ends after the stream's work.
template <class T> class value_there {
 public:
  value_there(T const& value, stream const& s) : here_(value), there_(sizeof(T), "a value") {
    on_cuda::check<api>(api::copy_to_device(there_.data(), &here_, sizeof(T), s.get()), "a value");
  }
  T* at() const { return reinterpret_cast<T*>(there_.data()); }
  T const& fetch(stream const& s) {
    on_cuda::check<api>(api::copy_to_host(&here_, there_.data(), sizeof(T), s.get()), "a value");
    on_cuda::check<api>(api::synchronize(s.get()), "a value");
    return here_;
  }

 private:
  T here_;
  on_cuda::device_memory<api> there_;
};

// An operand of a kernel in the device's memory: it begins `skew` elements after a multiple of 256 bytes.
class operand_there {
 public:
  operand_there(buffer const& from, std::size_t skew, stream const& s)
      : bytes_(from.size() * size_of(from.type())),
        begin_(256 + skew * size_of(from.type())),
        here_((begin_ + bytes_) / 256 * 256 + 512, around),
        there_(here_.size(), "an operand") {
    std::memcpy(here_.data() + begin_, from.data(), bytes_);
    on_cuda::check<api>(api::copy_to_device(there_.data(), here_.data(), here_.size(), s.get()), "an operand");
  }
  std::byte* at() const { return there_.data() + begin_; }
  // What is there now; nothing was written around it.
  void fetch(buffer& to, stream const& s) {
    on_cuda::check<api>(api::copy_to_host(here_.data(), there_.data(), here_.size(), s.get()), "an operand");
    on_cuda::check<api>(api::synchronize(s.get()), "an operand");
    std::memcpy(to.data(), here_.data() + begin_, bytes_);
    std::fill_n(here_.begin() + static_cast<std::ptrdiff_t>(begin_), bytes_, around);
    CHECK(std::count(here_.begin(), here_.end(), around) == static_cast<std::ptrdiff_t>(here_.size()));
  }

 private:
  static constexpr std::byte around{0x5a};
  std::size_t bytes_, begin_;
  std::vector<std::byte> here_;
  on_cuda::device_memory<api> there_;
};

struct kernel_run {
  std::vector<buffer> outputs;
  int launches = 0, products = 0;
  std::string mistake;  // that its kernel finds, in its words
};

// A box of letters of the op, whose outputs hold `before`. Few blocks, so that a block takes more than one item.
inline kernel_run run_kernel(lone_op const& op, on_cuda::launcher const& launcher, std::size_t const* offsets,
                             std::size_t const* extents, bool accumulate, double before, std::size_t skew) {
  const machine here;
  const stream s;
  on_cuda::products<api> multiplies;
  kernel_run run;
  run.outputs = op.make_outputs(extents);
  std::vector<operand_there> in, out;
  on_cuda::kernel_arguments a;
  for (int i = 0; i < op.info.input_count; ++i) {
    buffer piece(op.info.inputs[i].type, lone_op::elements(op.info.inputs[i], extents));
    std::size_t n = 0;
    op.each_element(op.info.inputs[i], offsets, extents,
                    [&](std::size_t index) { piece.set(n++, op.inputs[static_cast<std::size_t>(i)].get(index)); });
    in.emplace_back(piece, skew, s);
    a.inputs[i] = in.back().at();
  }
  for (std::size_t o = 0; o < run.outputs.size(); ++o) {
    run.outputs[o].fill(before);
    out.emplace_back(run.outputs[o], skew, s);
    a.outputs[o] = out.back().at();
  }
  a.input_count = op.info.input_count;
  a.info = op.info;
  std::copy_n(extents, max_dims, a.extents);
  std::copy_n(offsets, max_dims, a.offsets);
  std::copy_n(op.wholes, max_dims, a.wholes);
  a.given = op.given;
  a.accumulate = accumulate;
  a.key = op.key;
  buffer room(f32, on_cuda::scratch_bytes(launcher, op.info, extents) / 4 + 1);
  room.fill(std::nan(""));
  operand_there scratch(room, 0, s);
  a.scratch = scratch.at();
  a.partials = scratch.at() + on_cuda::own_scratch(launcher, op.info, extents);
  value_there<on_cuda::fault_record> fault({}, s);
  value_there<step_context> step(op.context, s);
  a.fault = fault.at();
  a.step = &op.context;  // the host's, while it is recorded
  on_cuda::recording recorded;
  launcher.record(a, recorded);
  REQUIRE_FALSE(recorded.too_long);
  if (recorded.refused) run.mistake = launcher.words(recorded.fault);
  a.step = step.at();
  for (int k = 0; k < recorded.count && !recorded.refused; ++k) {
    on_cuda::launch_step const& each = recorded.steps[k];
    if (each.is_product)
      on_cuda::each_product(each, [&](on_cuda::product const& p) {
        ++run.products;
        multiplies.put(*multiplies.ready(shape_of(p)), p, s.get());
      });
    else if (each.items > 0) {
      ++run.launches;
      const std::size_t threads = std::clamp<std::size_t>((each.per_item + 31) / 32 * 32, 32, on_cuda::most_threads);
      launcher.launch(a, k,
                      {static_cast<unsigned>(std::min<std::size_t>(each.items, 3)), static_cast<unsigned>(threads), each.memory},
                      api::handle(s.get()));
      on_cuda::check<api>(api::launched(), "a launch");
    }
  }
  for (std::size_t o = 0; o < run.outputs.size(); ++o) out[o].fetch(run.outputs[o], s);
  scratch.fetch(room, s);
  for (std::size_t i = 0; i < in.size(); ++i) {
    buffer read(op.info.inputs[i].type, lone_op::elements(op.info.inputs[i], extents));
    in[i].fetch(read, s);
  }
  if (on_cuda::fault_record const& found = fault.fetch(s); found.found != 0)
    run.mistake = launcher.words != nullptr ? launcher.words(found.what) : "a mistake in its data";
  return run;
}

}  // namespace partita::testing::gpu
