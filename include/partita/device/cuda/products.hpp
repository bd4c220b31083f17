// Matrix products of a CUDA device: made ready once for each shape, with the library's choice of an algorithm, and run by
// number.
#pragma once
#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <partita/core/words.hpp>
#include <partita/device/cuda/call.hpp>
#include <partita/device/cuda/checked.hpp>
#include <partita/device/cuda/memory.hpp>

namespace partita::on_cuda {

// A product as BLAS names it, column-major: c [m, n] = alpha op(a) [m, k] op(b) [k, n] + beta c; `batch` of them, so many
// elements apart.
struct product_shape {
  bool transpose_a = false, transpose_b = false;
  dtype type = f32;
  std::size_t m = 0, n = 0, k = 0, lda = 0, ldb = 0, ldc = 0;
  std::size_t batch = 1, next_a = 0, next_b = 0, next_c = 0;
  // Bytes: what the addresses promise. `vector` is the bias or the sums of rows, `gelu` what gelu is, or was, applied to; 256
  // where there is none.
  std::size_t aligned_a = 0, aligned_b = 0, aligned_c = 0, aligned_vector = 256, aligned_gelu = 256;
  bool adds_bias = false, gelu = false, gelu_gradient = false, sums_rows = false;
  bool is_plain() const { return !adds_bias && !gelu && !gelu_gradient && !sums_rows; }
  // cuBLASLt has no epilogues in f64. Of gelu it keeps what it is applied to in rows that are a multiple of 8 elements, and takes
  // its slope at such. It says nothing of the alignment that it wants: a piece of a tensor that is held whole may begin anywhere.
  bool has_possible_epilogue() const {
    const bool bends = gelu || gelu_gradient;
    return type != f64 && (!bends || ldc % 8 == 0) && aligned_vector >= 16 && aligned_gelu >= 16;
  }
  auto operator<=>(product_shape const&) const = default;
};

// f(product) for each step of its loops, in their order.
template <class F> void each_product(launch_step const& step, F f) {
  std::size_t all = 1;
  for (int l = 0; l < step.loop_count; ++l) all *= step.loops[l].count;
  for (std::size_t item = 0; item < all; ++item) {
    product p = step.multiply;
    std::size_t left = item, a = 0, b = 0, c = 0;
    for (int l = step.loop_count - 1; l >= 0; --l) {
      product_loop const& loop = step.loops[l];
      const std::size_t index = left % loop.count;
      left /= loop.count;
      a += index * loop.a;
      b += index * loop.b;
      c += index * loop.c;
      if (loop.c == 0 && index > 0) p.accumulate = true;
    }
    const std::size_t size = size_of(p.type);
    p.a = static_cast<std::byte const*>(p.a) + a * size;
    p.b = static_cast<std::byte const*>(p.b) + b * size;
    p.c = static_cast<std::byte*>(p.c) + c * size;
    f(p);
  }
}

// The power of two, up to 256, that an address is a multiple of, and those `next` bytes on. The library's fast algorithms want
// 16 at least.
inline std::size_t alignment_of(void const* at, std::size_t next = 0) {
  const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(at) | next | 256;
  return static_cast<std::size_t>(address & (~address + 1));
}

// A row-major matrix is a column-major one turned, and (a b)^T = b^T a^T: the operands change places and nothing is moved.
inline product_shape shape_of(product const& p) {
  const auto aligned = [&](void const* at, std::size_t next) {
    return alignment_of(at, p.batch.count > 1 ? next * size_of(p.type) : 0);
  };
  return {p.transpose_b,
          p.transpose_a,
          p.type,
          p.n,
          p.m,
          p.k,
          p.ldb,
          p.lda,
          p.ldc,
          p.batch.count,
          p.batch.b,
          p.batch.a,
          p.batch.c,
          aligned(p.b, p.batch.b),
          aligned(p.a, p.batch.a),
          std::min(aligned(p.c, p.batch.c), alignment_of(p.addend)),
          std::min(alignment_of(p.bias), alignment_of(p.row_sums)),
          std::min(alignment_of(p.before_gelu), alignment_of(p.gelu_of)),
          p.bias != nullptr,
          p.before_gelu != nullptr,
          p.gelu_of != nullptr,
          p.row_sums != nullptr};
}

// Belongs to one device, whose thread makes and ends it: all its programs share it, and the workspace, since products run in
// the compute lane alone. `Api` is device/cuda/runtime.hpp's, or a test's.
template <class Api> class products {
 public:
  static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;  // what cuBLAS takes for Hopper; smaller ones lose speed

  products() = default;
  products(products const&) = delete;
  products& operator=(products const&) = delete;
  ~products() {
    for (auto& [shape, made] : made_) Api::destroy_product(made);
    if (has_multiplier_) Api::destroy_multiplier(multiplier_);
  }

  // Null where the library makes no such product: with a bias or gelu, of some types and sizes, whatever it answers then. A
  // plain one it has, or this throws.
  typename Api::product_type const* ready(product_shape const& shape) {
    auto found = made_.find(shape);
    if (found == made_.end()) {
      if (refused_.contains(shape)) return nullptr;
      if (!has_multiplier_) check<Api>(Api::create_multiplier(multiplier_), "the library of matrix products");
      has_multiplier_ = true;
      if (workspace_.size() == 0) workspace_ = device_memory<Api>(workspace_bytes, "the workspace of matrix products");
      typename Api::product_type made{};
      const auto answer = Api::create_product(multiplier_, made, shape, workspace_bytes);
      if (answer != Api::success && !shape.is_plain()) {
        refused_.insert(shape);
        return nullptr;
      }
      check<Api>(answer, words({"a product of ", shape.m, " x ", shape.k, " and ", shape.k, " x ", shape.n, " in ",
                                name_of(shape.type)}));
      found = made_.emplace(shape, made).first;
    }
    return &found->second;
  }
  // Puts a product into a stream.
  void put(typename Api::product_type const& ready, product const& p, typename Api::stream_type stream) const {
    check<Api>(Api::run_product(multiplier_, ready, p, workspace_.data(), workspace_.size(), stream), "a matrix product");
  }

 private:
  typename Api::multiplier_type multiplier_{};
  bool has_multiplier_ = false;
  device_memory<Api> workspace_;
  std::map<product_shape, typename Api::product_type> made_;
  std::set<product_shape> refused_;
};

}  // namespace partita::on_cuda
