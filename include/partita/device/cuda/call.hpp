// What a kernel sees of the op it runs on a GPU, and how one function is both the host's and the device's.
//
// The `kernel` of an op is a few loops over teams, one after the other, and products of matrices. The host runs it once for
// each piece, with a call that records: every loop is written down as a launch, every product as a product, and no element
// is touched. A launch runs the same function in every block, with a call that skips all loops but the launch's own. So a
// kernel is written once, needs no closure in a kernel's name, and costs a launch for each loop it has.
//
// For that a kernel's loops depend on extents, attributes and `training` alone, never on what tensors hold; scalars are read
// by `call.scalar`, and written in `call.once`. It is marked PARTITA_HOST_DEVICE, as is what it calls.
#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>

#include <partita/core/data_fault.hpp>
#include <partita/core/hash.hpp>
#include <partita/core/host_device.hpp>
#include <partita/core/packs.hpp>
#include <partita/device/typed_op.hpp>
#include <partita/program/step.hpp>

namespace partita::on_cuda {

// Where a kernel writes down a mistake in its data, in device memory; the first counts.
struct fault_record {
  unsigned found = 0;  // 0: none, 1: being written, 2: written
  int compute = -1;    // into program::computes
  data_fault what;
};

// One run of one piece of an op: a kernel's argument, by value. Pointers are of device memory but in `info`, whose axes and
// names are the host's. Extents as in on_cpu::launch_arguments.
struct kernel_arguments {
  void const* inputs[max_inputs]{};
  void* outputs[max_outputs]{};
  void const* const* all_inputs = nullptr;  // a variadic op's
  int input_count = 0, compute = -1;
  op_info info{};
  std::size_t extents[max_dims]{}, offsets[max_dims]{}, wholes[max_dims]{};
  attributes given{};
  std::uint64_t key = 0;
  bool accumulate = false;
  void* scratch = nullptr;
  void* partials = nullptr;  // of sums over more than a block: `most_partials` doubles for each
  step_context const* step = nullptr;
  fault_record* fault = nullptr;
};

inline constexpr std::size_t most_partials = 256;
inline constexpr unsigned warp = 32, most_threads = 256;  // of a block: whole warps, so many at most

// Equal products, so many elements apart: 0 where they have an operand in common.
struct product_loop {
  std::size_t count = 1, a = 0, b = 0, c = 0;
};

// c = alpha op(a) op(b), row-major, added to c where `accumulate`: one for each step of `batch`, all at once.
struct product {
  bool transpose_a = false, transpose_b = false, accumulate = false;
  dtype type = f32;
  std::size_t m = 0, n = 0, k = 0, lda = 0, ldb = 0, ldc = 0;
  double alpha = 1;
  void const *a = nullptr, *b = nullptr;
  void* c = nullptr;
  product_loop batch{};
  void const* bias = nullptr;     // n numbers that are added to every row; null: none
  void const* addend = nullptr;   // added, like c; null: none. It may be c
  void const* gelu_of = nullptr;  // not null: c is multiplied by the slope of gelu at it
  void* row_sums = nullptr;       // n sums over the rows of that c; null: none
  void* before_gelu = nullptr;    // not null: this is what it was without gelu, and c is gelu of it
};

// What one run of a kernel launches, in order.
struct launch_step {
  std::size_t items = 0;     // that teams share out: a launch has so many blocks at most
  std::size_t per_item = 1;  // elements of one, about
  std::size_t memory = 0;    // bytes that the members of a team have in common, beside what kernels declare
  bool is_product = false;   // and no launch
  product multiply{};
  static constexpr int most_loops = 4;
  int loop_count = 0;  // the product is made again for each step of them; what has c in common is added up
  product_loop loops[most_loops]{};
};
struct recording {
  static constexpr int most = 16;
  int count = 0, sums = 0;
  launch_step steps[most]{};
  bool refused = false, too_long = false;
  data_fault fault{};

  PARTITA_HOST_DEVICE void add(launch_step const& s) {
    if (count == most) too_long = true;
    else steps[count++] = s;
  }
};

// f(i) for those i < n that are one block's of several: a member takes one at a time, next to each other.
template <class Team, class F>
PARTITA_HOST_DEVICE void share_out(Team const& team, std::size_t n, std::size_t block, std::size_t blocks, F f) {
  if constexpr (requires { team.share(n, block, blocks, f); }) team.share(n, block, blocks, f);
  else
    for (std::size_t begin = block * most_threads; begin < n; begin += blocks * most_threads)
      team.each(n - begin < most_threads ? n - begin : most_threads, [=](std::size_t i) { f(begin + i); });
}

// Writes down what a kernel would run.
class recorder_of_launches {
 public:
  PARTITA_HOST_DEVICE explicit recorder_of_launches(recording& to) : to_(&to) {}
  template <class F> PARTITA_HOST_DEVICE void each(std::size_t n, F) {
    to_->add({(n + most_threads - 1) / most_threads, most_threads});
  }
  template <class F> PARTITA_HOST_DEVICE void parallel(std::size_t n, F) {
    to_->add({(n + most_threads - 1) / most_threads, most_threads});
  }
  template <class F> PARTITA_HOST_DEVICE void rows(std::size_t n, std::size_t per_row, F) { to_->add({n, per_row}); }
  template <class F> PARTITA_HOST_DEVICE void tiles(std::size_t n, std::size_t bytes, F) { to_->add({n, most_threads, bytes}); }
  template <class F> PARTITA_HOST_DEVICE void once(F) { to_->add({1, 1}); }
  template <class F> PARTITA_HOST_DEVICE auto sum(std::size_t n, std::size_t block, std::size_t blocks, void*, F f) {
    ++to_->sums;
    to_->add({blocks, block});
    return std::decay_t<decltype(f(n))>{};
  }
  template <class T> PARTITA_HOST_DEVICE T scalar(T const*) const { return T{}; }
  PARTITA_HOST_DEVICE void multiply(product const& p) {
    launch_step s;
    s.is_product = true;
    s.multiply = p;
    to_->add(s);
  }
  template <class Axis> PARTITA_HOST_DEVICE void multiply(product const& p, Axis const* loops, int count) {
    launch_step s;
    s.is_product = true;
    s.multiply = p;
    s.loop_count = count;
    for (int i = 0; i < count; ++i) s.loops[i] = {loops[i].extent, loops[i].a, loops[i].b, loops[i].c};
    to_->add(s);
  }
  PARTITA_HOST_DEVICE void refuse(kernel_arguments const&, data_fault const& f) const {
    to_->refused = true;
    to_->fault = f;
  }

  static constexpr bool records = true;

 private:
  recording* to_;
};

// Runs one of a kernel's loops, in one block of several.
template <class Team> class runner_of_launch {
 public:
  static constexpr bool records = false;
  PARTITA_HOST_DEVICE runner_of_launch(int step, std::size_t block, std::size_t blocks)
      : step_(step), block_(block), blocks_(blocks) {}

  template <class F> PARTITA_HOST_DEVICE void each(std::size_t n, F f) {
    if (turn()) share_out(team_, n, block_, blocks_, f);
  }
  template <class F> PARTITA_HOST_DEVICE void parallel(std::size_t n, F f) {
    constexpr std::size_t chunk = most_threads;
    if (!turn()) return;
    for (std::size_t begin = block_ * chunk; begin < n; begin += blocks_ * chunk)
      team_.each(n - begin < chunk ? n - begin : chunk, [=](std::size_t i) { f(begin + i, begin + i + 1, std::size_t{0}); });
  }
  template <class F> PARTITA_HOST_DEVICE void rows(std::size_t n, std::size_t, F f) {
    if (!turn()) return;
    for (std::size_t row = block_; row < n; row += blocks_) f(row, team_);
  }
  template <class F> PARTITA_HOST_DEVICE void tiles(std::size_t n, std::size_t, F f) { rows(n, 0, f); }
  template <class F> PARTITA_HOST_DEVICE void once(F f) {
    if (turn() && block_ == 0 && team_.first()) f();
  }
  // In its turn the parts; in later ones all of them, by every team.
  template <class F> PARTITA_HOST_DEVICE auto sum(std::size_t n, std::size_t block, std::size_t blocks, void* partials, F f) {
    using value = std::decay_t<decltype(f(n))>;
    value* const parts = static_cast<value*>(partials);
    const int mine = at_;
    if (turn())
      for (std::size_t b = block_; b < blocks; b += blocks_) {
        const std::size_t begin = b * block;
        const value part = team_.sum(n - begin < block ? n - begin : block, [=](std::size_t i) { return f(begin + i); });
        if (team_.first()) parts[b] = part;
      }
    if (step_ <= mine) return value(0);
    return team_.sum(blocks, [=](std::size_t b) { return parts[b]; });
  }
  template <class T> PARTITA_HOST_DEVICE T scalar(T const* at) const { return *at; }
  PARTITA_HOST_DEVICE void multiply(product const&) { ++at_; }
  PARTITA_HOST_DEVICE void refuse(kernel_arguments const& a, data_fault const& f) const {
#if defined(__CUDA_ARCH__)
    if (atomicCAS(&a.fault->found, 0u, 1u) != 0u) return;
#else
    if (__atomic_exchange_n(&a.fault->found, 1u, __ATOMIC_RELAXED) != 0u) return;
#endif
    a.fault->compute = a.compute;
    a.fault->what = f;
    a.fault->found = 2;
  }

 private:
  PARTITA_HOST_DEVICE bool turn() { return at_++ == step_; }
  int step_, at_ = 0;
  std::size_t block_, blocks_;
  Team team_{};
};

// As on_cpu::call, which says what the functions are.
template <class Op, class Mode, dtype... In> class call {
  using types = partita::detail::typed_op<Op, In...>;
  kernel_arguments const* a_;
  mutable Mode mode_;
  mutable int sums_ = 0;

  PARTITA_HOST_DEVICE int dim_of(char letter) const {
    int d = 0;
    while (d < a_->info.dim_count && a_->info.dims[d].letter != letter) ++d;
    return d;
  }

 public:
  static constexpr int output_count = types::output_count;
  static constexpr bool on_host = false;
  static constexpr bool records = Mode::records;  // what to launch is written down; else a launch runs
  static constexpr bool packs = true;             // core/packs.hpp
  static constexpr std::size_t grain = 8192;      // which parallel does not ask for here

  template <int I> using input_type = element_t<types::inputs[I]>;
  template <int O> using output_type = element_t<types::types.outputs[O]>;
  using accumulation_type = element_t<accumulation_of(types::inputs[0])>;

  PARTITA_HOST_DEVICE call(kernel_arguments const& a, Mode mode) : a_(&a), mode_(mode) {}

  template <int I> PARTITA_HOST_DEVICE input_type<I> const* input() const {
    return static_cast<input_type<I> const*>(a_->inputs[I]);
  }
  template <int O> PARTITA_HOST_DEVICE output_type<O>* output() const { return static_cast<output_type<O>*>(a_->outputs[O]); }
  PARTITA_HOST_DEVICE int input_count() const { return a_->input_count; }
  PARTITA_HOST_DEVICE input_type<0> const* input_at(int i) const { return static_cast<input_type<0> const*>(a_->all_inputs[i]); }
  template <int I> PARTITA_HOST_DEVICE std::size_t input_size() const {
    return partita::detail::elements(a_->info.input(I), a_->extents);
  }
  template <int O> PARTITA_HOST_DEVICE std::size_t output_size() const {
    return partita::detail::elements(a_->info.outputs[O], a_->extents);
  }

  PARTITA_HOST_DEVICE std::size_t size() const {
    std::size_t n = 1;
    for (int d = 0; d < a_->info.dim_count; ++d) n *= a_->extents[d];
    return n;
  }
  PARTITA_HOST_DEVICE std::size_t rest() const { return piece_shape{&a_->info, a_->extents, 0, 1}.rest(); }
  PARTITA_HOST_DEVICE std::size_t extent(char letter) const { return a_->extents[dim_of(letter)]; }
  PARTITA_HOST_DEVICE std::size_t offset(char letter) const { return a_->offsets[dim_of(letter)]; }
  PARTITA_HOST_DEVICE std::size_t whole(char letter) const { return a_->wholes[dim_of(letter)]; }
  PARTITA_HOST_DEVICE op_info const& info() const { return a_->info; }
  PARTITA_HOST_DEVICE kernel_arguments const& arguments() const { return *a_; }

  PARTITA_HOST_DEVICE double attribute(int i) const { return a_->given.values[i]; }
  PARTITA_HOST_DEVICE std::uint64_t key() const { return a_->key; }
  PARTITA_HOST_DEVICE std::int64_t step() const { return a_->step->step; }
  PARTITA_HOST_DEVICE std::uint64_t seed() const { return a_->step->seed; }
  PARTITA_HOST_DEVICE std::uint64_t stream() const { return hash(seed(), a_->key); }
  PARTITA_HOST_DEVICE double learning_rate() const { return a_->step->learning_rate; }
  PARTITA_HOST_DEVICE bool training() const { return a_->step->training; }
  PARTITA_HOST_DEVICE bool accumulate() const { return a_->accumulate; }
  template <class T> PARTITA_HOST_DEVICE T scalar(T const* at) const { return mode_.scalar(at); }
  template <class Of> PARTITA_HOST_DEVICE void refuse(data_fault const& f) const { mode_.refuse(*a_, f); }
  template <class T> PARTITA_HOST_DEVICE T* scratch() const { return static_cast<T*>(a_->scratch); }

  // f(i, i + 1, 0) for every i < n, each on one member of a team.
  template <class F> PARTITA_HOST_DEVICE void parallel(std::size_t n, std::size_t, F f) const { mode_.parallel(n, f); }
  template <class F> PARTITA_HOST_DEVICE void each(std::size_t n, F f) const { mode_.each(n, f); }
  template <class F> PARTITA_HOST_DEVICE void once(F f) const { mode_.once(f); }
  // `elements`: of what a team passes over at a time, where that is not size() / n; it has a member for every 16 bytes.
  template <class F> PARTITA_HOST_DEVICE void rows(std::size_t n, F f, std::size_t elements = 0) const {
    constexpr std::size_t width = pack_bytes / sizeof(input_type<0>);
    const std::size_t of_row = elements > 0 ? elements : n == 0 ? 0 : size() / n;
    mode_.rows(n, (of_row + width - 1) / width, f);
  }
  // f(item, team) for every item < n, by teams of the most members, whose `memory(bytes)` they have in common.
  template <class F> PARTITA_HOST_DEVICE void tiles(std::size_t n, std::size_t bytes, F f) const { mode_.tiles(n, bytes, f); }
  template <class F> PARTITA_HOST_DEVICE auto sum(std::size_t n, F f) const {
    constexpr std::size_t least = 4096;
    const std::size_t even = (n + most_partials - 1) / most_partials, block = even < least ? least : even;
    const std::size_t before = most_partials * static_cast<std::size_t>(sums_++);
    void* const partials = a_->partials == nullptr ? nullptr : static_cast<double*>(a_->partials) + before;
    return mode_.sum(n, block, (n + block - 1) / block, partials, f);
  }

  template <class T> PARTITA_HOST_DEVICE void gemm(bool transpose_a, bool transpose_b, std::size_t m, std::size_t n,
                                                   std::size_t k, std::type_identity_t<double> alpha, T const* a, std::size_t lda,
                                                   T const* b, std::size_t ldb, T* c, std::size_t ldc) const {
    mode_.multiply({transpose_a, transpose_b, a_->accumulate, types::inputs[0], m, n, k, lda, ldb, ldc, alpha, a, b, c, {}});
  }
  // One product for each step of `batch` and of the loops, which give an extent and strides as `a`, `b` and `c`: those without
  // a stride in c are added up, and come last. Where `records`, at most so many loops.
  static constexpr int most_loops = launch_step::most_loops;
  template <class T, class Axis> PARTITA_HOST_DEVICE void gemm_of_each(bool transpose_a, bool transpose_b, std::size_t m,
                                                                       std::size_t n, std::size_t k, T const* a, std::size_t lda,
                                                                       T const* b, std::size_t ldb, T* c, std::size_t ldc,
                                                                       Axis const& batch, Axis const* loops, int count) const {
    mode_.multiply({transpose_a,
                    transpose_b,
                    a_->accumulate,
                    types::inputs[0],
                    m,
                    n,
                    k,
                    lda,
                    ldb,
                    ldc,
                    1,
                    a,
                    b,
                    c,
                    {batch.extent, batch.a, batch.b, batch.c}},
                   loops, count);
  }
};

// The part of a kernel that one block of a launch runs.
template <class Op, class Team, dtype... In>
PARTITA_HOST_DEVICE void run_block(kernel_arguments const& a, int step, std::size_t block, std::size_t blocks) {
  call<Op, runner_of_launch<Team>, In...> c(a, runner_of_launch<Team>(step, block, blocks));
  Op::kernel(c);
}

}  // namespace partita::on_cuda
