// Measures ops and transfers on the CPU devices at hand, all devices at work at the same time, as in a step.
#pragma once
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <partita/comm/threads/world.hpp>
#include <partita/device/cpu/backend.hpp>
#include <partita/device/cpu/copy.hpp>
#include <partita/device/cpu/cpu.hpp>
#include <partita/device/cpu/memory.hpp>
#include <partita/profile/pieces.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

struct measure_options {
  double seconds = 45;                       // no new op is begun after that
  int repetitions = 7;                       // of each piece; the middle one counts
  int most_batches = 8;                      // pieces that the batch is measured in: 1, 2, 4, ...
  std::size_t pool = std::size_t{32} << 20;  // bytes of a device through which operands move, so that caches forget them
};

namespace on_cpu {

// Threads that do the same at the same time and report the middle time.
class bench {
 public:
  using clock = std::chrono::steady_clock;

  bench(int devices, int threads, std::size_t pool_bytes)
      : start_(devices), groups_{{}}, devices_(static_cast<std::size_t>(devices)) {
    for (int d = 0; d < devices; ++d) groups_[0].push_back(d);
    world_ = std::make_unique<thread_world>(devices, groups_,
                                            thread_world_options{.threads = static_cast<unsigned>(devices * threads)});
    for (int d = 0; d < devices; ++d)
      devices_[static_cast<std::size_t>(d)] = std::make_unique<device>(threads, pool_bytes, world_->communicator(d));
  }
  int size() const { return static_cast<int>(devices_.size()); }

  // Numbers that no kernel stumbles over, in one part that is only read and one that is written.
  class pool {
   public:
    explicit pool(std::size_t bytes) { grow(bytes); }
    // The next so many bytes, aligned; from the start again where it ends.
    std::byte* take(std::size_t bytes) {
      const std::size_t whole = (bytes + 63) / 64 * 64;
      if (at_ + whole > held_.bytes().size()) at_ = 0;
      std::byte* const p = held_.data() + at_;
      at_ += whole;
      return p;
    }
    // Room for twice as much, so that what was used last is not used next.
    void reserve(std::size_t bytes) {
      if (2 * bytes > held_.bytes().size()) grow(2 * bytes);
    }

   private:
    void grow(std::size_t bytes) {
      held_ = memory(bytes);
      at_ = 0;
      auto* const x = reinterpret_cast<float*>(held_.data());
      for (std::size_t i = 0; i < held_.bytes().size() / sizeof(float); ++i)
        x[i] = 0.25f + static_cast<float>(i * 2654435761u % 1024) / 2048.0f;
    }
    memory held_;
    std::size_t at_ = 0;
  };
  struct device {
    device(int threads, std::size_t bytes, thread_communicator const& c)
        : team(threads), inputs(bytes), outputs(bytes / 2), comm(c) {}
    workers team;
    pool inputs, outputs;
    thread_communicator comm;
  };

  // prepare(device, rank) and then run(device, rank), `repetitions` times on all devices at once. Returns the middle of
  // the times that `run` took, over devices and repetitions.
  template <class Prepare, class Run> double measure(int repetitions, Prepare prepare, Run run) {
    std::vector<std::vector<double>> times(devices_.size());
    std::exception_ptr failure;
    std::atomic_flag failed = ATOMIC_FLAG_INIT;
    auto work = [&](std::size_t rank) {
      device& d = *devices_[rank];
      for (int k = 0; k <= repetitions; ++k) {  // the first is not counted
        bool good = true;
        try {
          prepare(d, static_cast<int>(rank));
        } catch (...) {
          good = false;
          if (!failed.test_and_set()) failure = std::current_exception();
        }
        start_.arrive_and_wait();
        if (failed.test()) break;
        const auto begin = clock::now();
        if (good) run(d, static_cast<int>(rank));
        const double seconds = std::chrono::duration<double>(clock::now() - begin).count();
        if (k > 0) times[rank].push_back(seconds);
      }
    };
    std::vector<std::thread> others;
    for (std::size_t r = 1; r < devices_.size(); ++r) others.emplace_back(work, r);
    work(0);
    for (std::thread& t : others) t.join();
    if (failure) std::rethrow_exception(failure);
    std::vector<double> all;
    for (auto const& t : times) all.insert(all.end(), t.begin(), t.end());
    std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
    return std::max(1e-9, all[all.size() / 2]);
  }

 private:
  struct gate {  // std::barrier sleeps; devices start together only if they look
    explicit gate(int n) : size(n) {}
    void arrive_and_wait() {
      const int turn = turns.load(std::memory_order_acquire);
      if (come.fetch_add(1, std::memory_order_acq_rel) + 1 == size) {
        come.store(0, std::memory_order_relaxed);
        turns.fetch_add(1, std::memory_order_release);
        return;
      }
      for (int look = 0; turns.load(std::memory_order_acquire) == turn; ++look)
        if (look > 100000) std::this_thread::yield();
    }
    const int size;
    std::atomic<int> come{0}, turns{0};
  } start_;
  list<list<int>> groups_;
  std::unique_ptr<thread_world> world_;
  std::vector<std::unique_ptr<device>> devices_;
};

namespace detail {

// One piece of an op, ready to be run again and again on one device.
class op_run {
 public:
  op_run(graph_data const& g, launcher const& kernel, piece_to_measure const& p, std::size_t workers) : kernel_(&kernel), p_(&p) {
    op_entry const& e = g.ops[p.op];
    a_.info = e.info;
    a_.input_count = e.info->input_count;
    std::copy(p.extents, p.extents + max_dims, a_.extents);
    std::copy(p.wholes, p.wholes + max_dims, a_.wholes);
    a_.given = e.given;
    a_.key = 1;
    a_.accumulate = p.accumulates;
    a_.step = &step_;
    step_.learning_rate = 1e-6;
    scratch_ = kernel.workspace == nullptr ? 0 : kernel.workspace(*e.info, p.extents, workers);
  }
  op_run(op_run const& o) = delete;

  std::size_t input_bytes() const {
    std::size_t n = 0;
    for (int i = 0; i < a_.info->input_count; ++i) n += bytes_of(a_.info->input(i)) + 64;
    return n;
  }
  std::size_t output_bytes() const {
    std::size_t n = 0;
    for (int o = 0; o < a_.info->output_count; ++o) n += bytes_of(a_.info->outputs[o]) + 64;
    return n;
  }
  // Scratch and indices stay where they are: they are used again and again, and small.
  void place(bench::device& d) {
    for (int i = 0; i < a_.info->input_count; ++i) {
      operand const& x = a_.info->input(i);
      if (x.type == i32) inputs_[i] = indices(i, x);
      else inputs_[i] = d.inputs.take(bytes_of(x));
    }
    for (int o = 0; o < a_.info->output_count; ++o) outputs_[o] = d.outputs.take(bytes_of(a_.info->outputs[o]));
    a_.inputs = inputs_;
    a_.outputs = outputs_;
    if (scratch_ > 0 && own_scratch_.empty()) own_scratch_.resize(scratch_ + 64);
    const auto address = reinterpret_cast<std::uintptr_t>(own_scratch_.data());
    a_.scratch = scratch_ > 0 ? own_scratch_.data() + (64 - address % 64) % 64 : nullptr;
  }
  void run(bench::device& d) {
    a_.team = d.team.size() > 1 && !p_->tile ? &d.team : nullptr;
    kernel_->run(a_);
  }

 private:
  void const* indices(int i, operand const& x) {
    std::vector<std::int32_t>& own = indices_[i];
    if (own.empty()) {
      const std::size_t most = smallest_missing(x);
      own.resize(std::max<std::size_t>(1, bytes_of(x) / sizeof(std::int32_t)));
      for (std::size_t k = 0; k < own.size(); ++k) own[k] = static_cast<std::int32_t>(k * 2654435761u % most);
    }
    return own.data();
  }
  std::size_t bytes_of(operand const& x) const { return elements(x, p_->extents) * size_of(x.type); }
  // An index is of an axis that its tensor does not have: below the smallest of those it is in range.
  std::size_t smallest_missing(operand const& x) const {
    std::size_t least = 1u << 30;
    for (int d = 0; d < a_.info->dim_count; ++d) {
      bool has = false;
      for (int k = 0; k < x.rank; ++k) has = has || x.dims[k] == d;
      if (!has) least = std::min(least, p_->extents[d]);
    }
    // Of the features that it selects rows of, and of the classes that it names, the larger one is meant.
    for (int d = 0; d < a_.info->dim_count; ++d) {
      bool has = false;
      for (int k = 0; k < x.rank; ++k) has = has || x.dims[k] == d;
      if (!has && indexed(d)) least = p_->extents[d];
    }
    return std::max<std::size_t>(1, least);
  }
  bool indexed(int d) const {  // a letter that some input leads with and that no output but a table has
    for (int i = 0; i < a_.info->input_count; ++i) {
      operand const& x = a_.info->input(i);
      if (x.type != i32 && x.rank == 2 && x.dims[0] == d) return true;
    }
    return false;
  }

  launcher const* kernel_;
  piece_to_measure const* p_;
  launch_arguments a_{};
  step_context step_{};
  std::size_t scratch_ = 0;
  std::vector<std::byte> own_scratch_;
  std::vector<std::int32_t> indices_[max_inputs];
  void const* inputs_[max_inputs]{};
  void* outputs_[max_outputs]{};
};

inline op_sample measure_piece(bench& b, graph_data const& g, launcher const& kernel, piece_to_measure const& p,
                               int repetitions) {
  std::vector<std::unique_ptr<op_run>> runs(static_cast<std::size_t>(b.size()));
  const int times = p.tile ? 20 : 1;
  const double seconds = b.measure(
      repetitions,
      [&](bench::device& d, int rank) {
        auto& mine = runs[static_cast<std::size_t>(rank)];
        const bool first = mine == nullptr;
        if (first) {
          mine = std::make_unique<op_run>(g, kernel, p, d.team.size());
          d.inputs.reserve(mine->input_bytes());
          d.outputs.reserve(mine->output_bytes());
        }
        if (first || !p.tile) mine->place(d);
        if (first || p.tile) mine->run(d);  // what a kernel throws is caught here; a tile's operands are in the cache then
      },
      [&](bench::device& d, int rank) {
        for (int k = 0; k < times; ++k) runs[static_cast<std::size_t>(rank)]->run(d);
      });
  op_sample s;
  for (int d = 0; d < g.ops[p.op].info->dim_count; ++d) s.extents.push_back(static_cast<int>(p.extents[d]));
  s.seconds = seconds / times;
  return s;
}

}  // namespace detail
}  // namespace on_cpu
}  // namespace partita

#include <partita/core/end_planning_code.hpp>
