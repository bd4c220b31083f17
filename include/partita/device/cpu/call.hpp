// What a kernel sees of the op it runs: `template <class Call> static void kernel(Call& call)` of every op is instantiated
// with `on_cpu::call<Op, dtypes...>`.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>

#include <partita/core/data_fault.hpp>
#include <partita/core/hash.hpp>
#include <partita/core/math.hpp>
#include <partita/core/words.hpp>
#include <partita/device/cpu/blas.hpp>
#include <partita/device/cpu/team.hpp>
#include <partita/device/cpu/workers.hpp>
#include <partita/device/typed_op.hpp>
#include <partita/model/graph_entries.hpp>
#include <partita/program/step.hpp>

namespace partita::on_cpu {

// One run of one piece of an op. Inputs and outputs are the local pieces, dense and row-major. Extents are per letter,
// in the order of op_info::dims: of this piece, where it begins in the whole axis, and of the whole axis.
struct launch_arguments {
  void const* const* inputs = nullptr;
  void* const* outputs = nullptr;
  int input_count = 0;
  op_info const* info = nullptr;
  std::size_t extents[max_dims]{}, offsets[max_dims]{}, wholes[max_dims]{};
  attributes given{};
  std::uint64_t key = 0;    // names the random stream of the op: one for a forward op and the ops of its gradient
  bool accumulate = false;  // add to the outputs instead of writing them; only where Op::accumulates
  void* scratch = nullptr;  // as many bytes as the launcher's workspace says, aligned to 64
  step_context const* step = nullptr;
  workers* team = nullptr;  // null: the calling thread alone
};

using shape = piece_shape;
namespace detail {
using partita::detail::elements;
using partita::detail::typed_op;
}  // namespace detail

template <class Op, dtype... In> class call {
  using types = detail::typed_op<Op, In...>;
  launch_arguments const& a_;

  int dim_of(char letter) const {
    int d = 0;
    while (d < a_.info->dim_count && a_.info->dims[d].letter != letter) ++d;
    return d;
  }

 public:
  static constexpr std::size_t grain = 8192;  // elements below which a second thread is not worth waking

  static constexpr int output_count = types::output_count;
  static constexpr bool on_host = true;  // kernels may keep arrays of their own and call BLAS inside loops

  template <int I> using input_type = element_t<types::inputs[I]>;
  template <int O> using output_type = element_t<types::types.outputs[O]>;
  using team_type = team;
  using accumulation_type = element_t<accumulation_of(types::inputs[0])>;

  explicit call(launch_arguments const& a) : a_(a) {}

  // --- operands
  template <int I> input_type<I> const* input() const { return static_cast<input_type<I> const*>(a_.inputs[I]); }
  template <int O> output_type<O>* output() const { return static_cast<output_type<O>*>(a_.outputs[O]); }
  int input_count() const { return a_.input_count; }
  input_type<0> const* input_at(int i) const { return static_cast<input_type<0> const*>(a_.inputs[i]); }
  template <int I> std::size_t input_size() const { return detail::elements(a_.info->input(I), a_.extents); }
  template <int O> std::size_t output_size() const { return detail::elements(a_.info->outputs[O], a_.extents); }

  // --- extents
  // Product over all letters: the number of elements of an element-wise op, or of a full reduction.
  std::size_t size() const {
    std::size_t n = 1;
    for (int d = 0; d < a_.info->dim_count; ++d) n *= a_.extents[d];
    return n;
  }
  // Product over the letters of '...'; 1 when it stands for none.
  std::size_t rest() const { return shape{a_.info, a_.extents, 1, 1}.rest(); }
  // By letter: of the piece, where the piece begins, of the whole axis.
  std::size_t extent(char letter) const { return a_.extents[dim_of(letter)]; }
  std::size_t offset(char letter) const { return a_.offsets[dim_of(letter)]; }
  std::size_t whole(char letter) const { return a_.wholes[dim_of(letter)]; }
  op_info const& info() const { return *a_.info; }
  launch_arguments const& arguments() const { return a_; }

  // --- numbers
  double attribute(int i) const { return a_.given.values[i]; }
  std::uint64_t key() const { return a_.key; }
  std::int64_t step() const { return a_.step->step; }
  std::uint64_t seed() const { return a_.step->seed; }
  // The key that a kernel draws with, from the op's and the seed.
  std::uint64_t stream() const { return hash(seed(), a_.key); }
  double learning_rate() const { return a_.step->learning_rate; }
  bool training() const { return a_.step->training; }
  bool accumulate() const { return a_.accumulate; }
  // What a scalar operand holds. Kernels read it by this alone: outside loops a GPU's host runs them too.
  template <class T> std::remove_const_t<T> scalar(T* at) const { return *at; }
  // Throws what `Op` has to say of a mistake in its data.
  template <class Of> [[noreturn]] void refuse(data_fault const& f) const { throw error(Of::words_of(f)); }
  template <class T> T* scratch() const { return static_cast<T*>(a_.scratch); }
  std::size_t worker_count() const { return a_.team == nullptr ? 1 : a_.team->size(); }

  // --- loops. None is called inside another one's f.
  // f(begin, end, worker) over parts of [0, n) of at least `least` elements, one a worker; worker < worker_count().
  template <class F> void parallel(std::size_t n, std::size_t least, F f) const {
    if (a_.team != nullptr) a_.team->parallel(n, least, f);
    else if (n > 0) f(std::size_t{0}, n, std::size_t{0});
  }
  // f(i) for every i < n, in any order and at once: f writes what belongs to i alone.
  template <class F> void each(std::size_t n, F f) const {
    parallel(n, grain, [&](std::size_t begin, std::size_t end, std::size_t) {
      team{}.each(end - begin, [=](std::size_t i) { f(begin + i); });
    });
  }
  // f(), once: for what a kernel writes beside its loops.
  template <class F> void once(F f) const { f(); }
  // The sum of f(i) over i < n, in the type that f returns. The order of additions depends on n alone.
  template <class F> auto sum(std::size_t n, F f) const {
    using value = std::decay_t<decltype(f(n))>;
    constexpr std::size_t most = 256, least = 4096;
    const std::size_t block = std::max(least, (n + most - 1) / most), blocks = (n + block - 1) / block;
    value partial[most]{};
    parallel(blocks, 4, [&](std::size_t begin, std::size_t end, std::size_t) {
      for (std::size_t b = begin; b < end; ++b)
        partial[b] = team{}.sum(std::min(block, n - b * block), [=](std::size_t i) { return f(b * block + i); });
    });
    for (std::size_t width = most / 2; width > 0; width /= 2)
      for (std::size_t i = 0; i < width; ++i) partial[i] += partial[i + width];
    return partial[0];
  }
  // f(row, team) for every row < n, each by a team of its own with each(n, f), sum(n, f), max(n, f).
  // The last argument speaks to GPUs.
  template <class F> void rows(std::size_t n, F f, std::size_t = 0) const {
    const std::size_t row_size = std::max<std::size_t>(1, size() / std::max<std::size_t>(1, n));
    parallel(n, std::max<std::size_t>(1, grain / row_size), [&](std::size_t begin, std::size_t end, std::size_t) {
      for (std::size_t row = begin; row < end; ++row) f(row, team{});
    });
  }

  // --- matrix products, row-major: c = alpha op(a) op(b), added to c where accumulate()
  template <class T> void gemm(bool transpose_a, bool transpose_b, std::size_t m, std::size_t n, std::size_t k,
                               std::type_identity_t<T> alpha, T const* a, std::size_t lda, T const* b, std::size_t ldb, T* c,
                               std::size_t ldc) const {
    const T beta = a_.accumulate ? T(1) : T(0);
    if (a_.team != nullptr) on_cpu::gemm<T>(*a_.team, transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    else gemm_on_this_thread<T>(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  }
  // outer x inner such products, each of its own a, b and c.
  template <class T> void batched_gemm(std::size_t outer, std::size_t inner, bool transpose_a, bool transpose_b, std::size_t m,
                                       std::size_t n, std::size_t k, std::type_identity_t<T> alpha, batch_of<T const> a,
                                       batch_of<T const> b, batch_of<T> c) const {
    const T beta = a_.accumulate ? T(1) : T(0);
    if (a_.team != nullptr)
      on_cpu::batched_gemm<T>(*a_.team, outer, inner, transpose_a, transpose_b, m, n, k, alpha, a, b, beta, c);
    else
      for (std::size_t i = 0; i < outer; ++i)
        for (std::size_t j = 0; j < inner; ++j)
          gemm_on_this_thread<T>(transpose_a, transpose_b, m, n, k, alpha, a.at(i, j), a.row, b.at(i, j), b.row, beta, c.at(i, j),
                                 c.row);
  }
  // For use inside `parallel` and `rows`: c = alpha op(a) op(b) + beta c.
  template <class T> static void gemm_on_this_thread(bool transpose_a, bool transpose_b, std::size_t m, std::size_t n,
                                                     std::size_t k, std::type_identity_t<T> alpha, T const* a, std::size_t lda,
                                                     T const* b, std::size_t ldb, std::type_identity_t<T> beta, T* c,
                                                     std::size_t ldc) {
    detail::prepare_blas();
    detail::gemm_on_this_thread<T>(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  }
};

// Runs an op's kernel, and says how many bytes of scratch a piece of these extents needs.
struct launcher {
  void (*run)(launch_arguments const&) = nullptr;
  std::size_t (*workspace)(op_info const&, std::size_t const* extents, std::size_t workers) = nullptr;
};

template <class Op, dtype... In> std::size_t workspace(op_info const& info, std::size_t const* extents, std::size_t workers) {
  if constexpr (requires(shape const& s) { Op::workspace(s); })
    return Op::workspace(shape{&info, extents, workers, detail::typed_op<Op, In...>::element_size()});
  else return 0;
}

namespace detail {
template <class Op, dtype... In> void run(launch_arguments const& a) {
  call<Op, In...> c(a);
  Op::kernel(c);
}
}  // namespace detail
}  // namespace partita::on_cpu
