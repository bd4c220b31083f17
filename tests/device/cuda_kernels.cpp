// The algorithms of GPU kernels beside the CPU's kernels: sizes that packs of 16 bytes divide and others, operands that
// begin at a multiple of 16 bytes and others, more rows than a team takes at once. Compiled as C++ the host's teams run
// them; tests/cuda has nvcc compile this too, for a GPU's.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include <partita/ops/add.hpp>
#include <partita/ops/attention.hpp>
#include <partita/ops/cast.hpp>
#include <partita/ops/cross_entropy.hpp>
#include <partita/ops/dropout.hpp>
#include <partita/ops/embedding.hpp>
#include <partita/ops/gelu.hpp>
#include <partita/ops/layer_norm.hpp>
#include <partita/ops/linear.hpp>
#include <partita/ops/multiply.hpp>
#include <partita/ops/optimizer_ops.hpp>
#include <partita/ops/rms_norm.hpp>
#include <partita/ops/rotary.hpp>
#include <partita/ops/scale.hpp>
#include <partita/ops/softmax.hpp>
#include <partita/ops/sum.hpp>

#include "../support/kernel_on_gpu.hpp"
#include "../support/number_of.hpp"
#include "../support/pieces.hpp"

namespace pt = partita;
using namespace partita::testing;

namespace {
struct row : pt::axis<"row"> {};
struct across : pt::axis<"across"> {};

struct sizes {
  std::size_t rows, wide;
  std::vector<pt::binding> bindings() const { return {pt::bind<row>(rows), pt::bind<across>(wide)}; }
};
constexpr sizes several[]{{1, 1}, {3, 8}, {5, 37}, {40, 64}, {70, 131}};

// What the kernel makes on a GPU.
template <class Op, class... In> std::vector<buffer> on_gpu(lone_op const& op, std::size_t const* offsets,
                                                            std::size_t const* extents, bool accumulate, double before,
                                                            std::size_t skew) {
  constexpr auto launcher = gpu::backend::launch<Op, In::type...>();
  gpu::kernel_run run = gpu::run_kernel(op, launcher, offsets, extents, accumulate, accumulate ? before : std::nan(""), skew);
  CHECK(run.mistake == "");
  return std::move(run.outputs);
}

double allowed(pt::dtype type) { return type == pt::f64 ? 1e-12 : type == pt::f32 ? 2e-5 : 1.0 / 128; }

template <class Op, class... In> void compare_at(sizes const& s, std::function<double(int, std::size_t)> const& fill,
                                                 pt::attributes const& given, bool accumulate = false) {
  const lone_op op = lone_op::make<Op, In...>(given, s.bindings(), fill);
  const std::size_t none[pt::max_dims]{};
  const std::vector<buffer> wanted = op.run_whole(accumulate, 0.5);
  for (std::size_t skew : {0, 1}) {
    const std::vector<buffer> have = on_gpu<Op, In...>(op, none, op.wholes, accumulate, 0.5, skew);
    for (std::size_t o = 0; o < wanted.size(); ++o) {
      CAPTURE(op.info.kind);
      CAPTURE(s.rows);
      CAPTURE(s.wide);
      CAPTURE(skew);
      CAPTURE(o);
      double most = 1e-30, worst = 0;
      for (std::size_t i = 0; i < wanted[o].size(); ++i) most = std::max(most, std::abs(wanted[o].get(i)));
      for (std::size_t i = 0; i < wanted[o].size(); ++i) {
        const double away = std::abs(wanted[o].get(i) - have[o].get(i));
        worst = away <= worst ? worst : away;  // a NaN counts
      }
      CHECK(worst <= allowed(op.info.outputs[o].type) * most);
    }
  }
}
double numbers(int input, std::size_t i) {
  return static_cast<double>((i * 7 + static_cast<std::size_t>(input) * 3 + i / 11) % 23) / 8 - 1.25;
}

template <class Op, class... In> void compare(pt::attributes const& given = {}, bool accumulate = false) {
  for (sizes const& s : several)
    if (!sanitized_briefly || s.wide % 2 != 0) compare_at<Op, In...>(s, numbers, given, accumulate);
}
template <pt::dtype T> using matrix = pt::like<T, row, across>;
template <pt::dtype T> using line = pt::like<T, across>;
template <pt::dtype T> using column = pt::like<T, row>;
}  // namespace

TEST_CASE("packs of 16 bytes: the last one may be short, and none are taken from addresses that are no multiple") {
  compare<pt::gelu_op, matrix<pt::f32>>();
  compare<pt::gelu_gradient_op, matrix<pt::bf16>, matrix<pt::bf16>>();
  compare<pt::multiply_op, matrix<pt::f64>, matrix<pt::f64>>();
  compare<pt::scale_op, matrix<pt::f16>>({{0.75}});
  compare<pt::add_op, matrix<pt::bf16>, matrix<pt::bf16>>();
  compare<pt::cast_op<pt::bf16>, matrix<pt::f32>>();
  compare<pt::cast_op<pt::f32>, matrix<pt::bf16>>();
  compare<pt::bias_op<1>, matrix<pt::bf16>, line<pt::bf16>>();
}

TEST_CASE("optimizers' steps by packs, and the step that a clip scale that is no number skips") {
  for (sizes const& s : several)
    for (double scale : {0.75, std::nan("")}) {
      const auto fill = [=](int last) {
        return [=](int input, std::size_t i) {
          return input == last ? scale : input == 2 && last == 4 ? 2 + numbers(2, i) : numbers(input, i);
        };
      };
      compare_at<pt::sgd_op, matrix<pt::f32>, matrix<pt::f32>, pt::like<pt::f32>>(s, fill(2), {{0.1}});
      compare_at<pt::momentum_op, matrix<pt::f32>, matrix<pt::f32>, matrix<pt::f32>, pt::like<pt::f32>>(s, fill(3), {{0.1, 0.9}});
      compare_at<pt::adamw_op, matrix<pt::f32>, matrix<pt::f32>, matrix<pt::f32>, matrix<pt::f32>, pt::like<pt::f32>>(
          s, fill(4), {{0.1, 0.9, 0.99, 1e-8}});
    }
}

TEST_CASE("dropout draws by packs what the CPU draws element by element, in every piece") {
  for (sizes const& s : {sizes{3, 8}, sizes{5, 37}, sizes{70, 131}, sizes{40, 2000}}) {
    compare_at<pt::dropout_op, matrix<pt::bf16>>(s, numbers, {{0.3}});
    compare_at<pt::dropout_op, matrix<pt::f32>>(s, numbers, {{0.3}});
    compare_at<pt::dropout_gradient_op, matrix<pt::f32>>(s, numbers, {{0.0}});
  }
}

TEST_CASE("rows: norms, softmax, the terms of cross-entropy") {
  compare<pt::layer_norm_op<true>, matrix<pt::bf16>, line<pt::bf16>, line<pt::bf16>>({{1e-3}});
  compare<pt::layer_norm_op<false>, matrix<pt::f32>, line<pt::f32>>({{1e-3}});
  compare<pt::rms_norm_op, matrix<pt::f32>, line<pt::f32>>({{1e-3}});
  compare<pt::softmax_op<0>, matrix<pt::f32>>();
  compare<pt::softmax_op<0>, matrix<pt::bf16>>();
  compare<pt::softmax_op<1>, matrix<pt::f32>>();
  compare<pt::softmax_gradient_op<0>, matrix<pt::bf16>, matrix<pt::bf16>>();
  compare<pt::row_max_op, matrix<pt::bf16>>();
  for (sizes const& s : several) {
    const auto targets = [&](int input, std::size_t i) {
      return input == 2 ? static_cast<double>(i % 4 == 3 ? -1 : static_cast<int>(i * 5 % s.wide)) : numbers(input, i);
    };
    compare_at<pt::softmax_terms_op, matrix<pt::bf16>, column<pt::f32>, column<pt::i32>>(s, targets, {{0.1}});
    const auto gradient_targets = [&](int input, std::size_t i) {
      return input == 4 ? static_cast<double>(i % 4 == 3 ? -1 : static_cast<int>(i * 5 % s.wide)) : numbers(input, i);
    };
    compare_at<pt::softmax_terms_gradient_op, matrix<pt::f32>, column<pt::f32>, column<pt::f32>, column<pt::f32>,
               column<pt::i32>>(s, gradient_targets, {{0.1}});
  }
}

namespace {
struct group : pt::axis<"group", 3> {};
}  // namespace

TEST_CASE("rotary positions: heads that packs divide and others") {
  for (sizes const& s : {sizes{1, 2}, sizes{5, 6}, sizes{7, 8}, sizes{9, 64}}) {
    compare_at<pt::rotary_op<1>, pt::like<pt::bf16, row, group, across>>(s, numbers, {{10000, 1}});
    compare_at<pt::rotary_op<1>, pt::like<pt::f32, row, group, across>>(s, numbers, {{10000, -1}});
    compare_at<pt::rotary_op<0>, matrix<pt::f64>>(s, numbers, {{50, 1}});
  }
}

TEST_CASE("sums and means of all elements and along axes, and their gradients") {
  compare<pt::sum_all_op<false>, matrix<pt::bf16>>();
  compare<pt::sum_all_op<true>, matrix<pt::f32>>();
  compare<pt::spread_all_op<true>, matrix<pt::bf16>, pt::like<pt::f32>>();
  compare<pt::sum_axis_op<0, true>, matrix<pt::f32>>();
  compare<pt::sum_axis_op<0, false>, matrix<pt::bf16>>();
  compare<pt::spread_axis_op<0, true>, matrix<pt::bf16>, column<pt::bf16>>();
  for (sizes const& s : {sizes{1, 1}, sizes{40, 64}, sizes{70, 131}, sizes{2100, 8}}) {
    compare_at<pt::sum_axis_op<1, true>, matrix<pt::bf16>>(s, numbers, {});
    compare_at<pt::sum_axis_op<1, false>, matrix<pt::f32>>(s, numbers, {});
    compare_at<pt::spread_axis_op<1, true>, matrix<pt::f32>, line<pt::f32>>(s, numbers, {});
  }
}

TEST_CASE("sums down columns, of more blocks of rows than one") {
  compare<pt::bias_grad_op<1>, matrix<pt::f32>>();
  compare<pt::bias_grad_op<1>, matrix<pt::bf16>>({}, true);
  const sizes high{1100, 9}, broad{20, 4100};
  for (sizes const& s : {sizes{40, 64}, sizes{70, 131}, sizes{33, 8}, high, broad}) {
    compare_at<pt::bias_grad_op<1>, matrix<pt::f32>>(s, numbers, {}, true);
    const auto positive = [](int input, std::size_t i) { return input == 4 ? 0.5 : numbers(input, i); };
    compare_at<pt::layer_norm_gradient_op<true>, matrix<pt::bf16>, matrix<pt::bf16>, line<pt::bf16>, column<pt::f32>,
               column<pt::f32>>(s, positive, {});
    compare_at<pt::rms_norm_gradient_op, matrix<pt::f32>, matrix<pt::f32>, line<pt::f32>, column<pt::f32>>(s, numbers, {});
  }
}

namespace {
struct token : pt::axis<"token"> {};
}  // namespace

TEST_CASE("rows of a table, and their gradient: numbers that are many, few, one, and of other pieces of the table") {
  for (sizes const& s : {sizes{1, 1}, sizes{32, 8}, sizes{33, 5}, sizes{700, 24}, sizes{2100, 3}})
    for (std::size_t tokens : {1u, 3u, 50u, 900u, 70000u})  // 70,000 numbers are sorted by three of their bytes
      for (std::size_t kind : {0u, 1u}) {
        std::mt19937 random(static_cast<unsigned>(s.rows + tokens));
        std::vector<double> ids(s.rows);
        for (double& id : ids)
          id = static_cast<double>(kind == 0 ? random() % tokens
                                             : std::min<std::size_t>(random() % 2 * (random() % tokens), tokens - 1));
        std::vector<pt::binding> bound = s.bindings();
        bound.push_back(pt::bind<token>(tokens));
        const auto fill = [&](int input, std::size_t i) { return input == 1 ? ids[i] : numbers(input, i); };
        const bool add = kind == 1;
        const lone_op op =
            lone_op::make<pt::embedding_grad_op, matrix<pt::f32>, column<pt::i32>, pt::like<pt::f32, token, across>>({}, bound,
                                                                                                                     fill);
        const std::vector<buffer> wanted = op.run_whole(add, 0.5);
        const std::size_t none[pt::max_dims]{};
        for (std::size_t skew : {0, 1}) {
          const std::vector<buffer> have =
              on_gpu<pt::embedding_grad_op, matrix<pt::f32>, column<pt::i32>, pt::like<pt::f32, token, across>>(
                  op, none, op.wholes, add, 0.5, skew);
          double worst = 0, most = 1;
          for (std::size_t i = 0; i < wanted[0].size(); ++i) {
            most = std::max(most, std::abs(wanted[0].get(i)));
            const double away = std::abs(wanted[0].get(i) - have[0].get(i));
            worst = away <= worst ? worst : away;
          }
          CAPTURE(s.rows);
          CAPTURE(tokens);
          CHECK(worst <= 1e-5 * most);
        }
        if (tokens < 50) continue;
        // a piece of the table: what lies before and after it is left out
        std::size_t offsets[pt::max_dims]{}, extents[pt::max_dims]{};
        std::copy_n(op.wholes, pt::max_dims, extents);
        for (int d = 0; d < op.info.dim_count; ++d)
          if (op.info.dims[d].letter == 'v') {
            offsets[d] = 13;
            extents[d] = tokens - 20;
          }
        const std::vector<buffer> piece =
            on_gpu<pt::embedding_grad_op, matrix<pt::f32>, column<pt::i32>, pt::like<pt::f32, token, across>>(
                op, offsets, extents, add, 0.5, 0);
        double worst = 0;
        for (std::size_t i = 0; i < piece[0].size(); ++i) {
          const double away = std::abs(piece[0].get(i) - wanted[0].get(i + 13 * s.wide));
          worst = away <= worst ? worst : away;
        }
        CHECK(worst <= 1e-2);
      }
}

TEST_CASE("in bf16 the rows of a table are added in f32 and rounded once") {
  const sizes s{640, 16};
  std::vector<pt::binding> bound = s.bindings();
  bound.push_back(pt::bind<token>(2));
  const auto fill = [](int input, std::size_t) { return input == 1 ? 1.0 : 1.0; };
  using ids = column<pt::i32>;
  const lone_op op =
      lone_op::make<pt::embedding_grad_op, matrix<pt::bf16>, ids, pt::like<pt::bf16, token, across>>({}, bound, fill);
  const std::size_t none[pt::max_dims]{};
  const std::vector<buffer> have =
      on_gpu<pt::embedding_grad_op, matrix<pt::bf16>, ids, pt::like<pt::bf16, token, across>>(op, none, op.wholes, false, 0, 0);
  for (std::size_t j = 0; j < 16; ++j) {
    CHECK(have[0].get(j) == 0);
    CHECK(have[0].get(16 + j) == 640);  // bf16 alone would stop at 256
  }
}

namespace {
struct sequence : pt::axis<"sequence", 2> {};
struct query : pt::axis<"query"> {};
struct key : pt::axis<"key"> {};
struct head : pt::axis<"head", 2> {};
struct share : pt::axis<"share", 3> {};
struct width : pt::axis<"width"> {};

struct attention_sizes {
  std::size_t queries, keys, width;
};
// Queries and keys of the piece begin at `first_query` and `first_key`.
template <class Op, class... In>
void compare_attention(attention_sizes const& s, bool accumulate, std::size_t first_query = 0, std::size_t first_key = 0) {
  const auto fill = [](int input, std::size_t i) {
    return input == 5 ? 3.5 : static_cast<double>((i * 13 + static_cast<std::size_t>(input) * 5 + i / 7) % 29) / 20 - 0.7;
  };
  const lone_op op = lone_op::make<Op, In...>(
      {}, {pt::bind<query>(s.queries + first_query), pt::bind<key>(s.keys + first_key), pt::bind<width>(s.width)}, fill);
  std::size_t offsets[pt::max_dims]{}, extents[pt::max_dims]{};
  std::copy_n(op.wholes, pt::max_dims, extents);
  for (int d = 0; d < op.info.dim_count; ++d)
    if (const char letter = op.info.dims[d].letter; letter == 's' || letter == 't') {
      offsets[d] = letter == 's' ? first_query : first_key;
      extents[d] -= offsets[d];
    }
  std::vector<buffer> wanted = op.make_outputs(extents);
  for (buffer& b : wanted) b.fill(accumulate ? 0.5 : 0);
  op.run(offsets, extents, wanted, accumulate);
  for (std::size_t skew : {0, 1}) {
    const std::vector<buffer> have = on_gpu<Op, In...>(op, offsets, extents, accumulate, 0.5, skew);
    for (std::size_t o = 0; o < wanted.size(); ++o) {
      double most = 1e-30, worst = 0;
      for (std::size_t i = 0; i < wanted[o].size(); ++i)
        if (std::abs(wanted[o].get(i)) < 1e30) most = std::max(most, std::abs(wanted[o].get(i)));
      for (std::size_t i = 0; i < wanted[o].size(); ++i) {
        const double away = wanted[o].get(i) == have[o].get(i) ? 0 : std::abs(wanted[o].get(i) - have[o].get(i));
        worst = away <= worst ? worst : away;
      }
      CAPTURE(op.info.kind);
      CAPTURE(s.queries);
      CAPTURE(s.keys);
      CAPTURE(s.width);
      CAPTURE(first_query);
      CAPTURE(first_key);
      CAPTURE(skew);
      CAPTURE(o);
      CHECK(worst <= (op.info.inputs[0].type == pt::f32 ? 2e-5 : op.info.outputs[o].type == pt::f32 ? 1e-3 : 1.0 / 64) * most);
    }
  }
}
template <pt::dtype T, bool Causal>
void compare_both(attention_sizes const& s, bool accumulate, std::size_t first_query = 0, std::size_t first_key = 0) {
  using of_query = pt::like<T, sequence, query, head, width>;
  using of_key = pt::like<T, sequence, key, head, width>;
  compare_attention<pt::attention_op<Causal>, of_query, of_key, of_key>(s, accumulate, first_query, first_key);
  compare_attention<pt::attention_grad_op<Causal>, of_query, of_query, of_key, of_key, of_query,
                    pt::like<pt::f32, sequence, head, query>>(s, accumulate, first_query, first_key);
}
}  // namespace

TEST_CASE(
    "attention by tiles of matrix units, and by rows: heads, queries and keys that tiles divide and others, masks, pieces") {
  for (attention_sizes const& s : {attention_sizes{1, 1, 16},
                                   {70, 70, 5},
                                   {64, 64, 64},
                                   {130, 150, 24},
                                   {40, 100, 80},
                                   {33, 33, 128},
                                   {9, 20, 140},
                                   {5, 9, 300}}) {
    compare_both<pt::bf16, true>(s, false);
    compare_both<pt::bf16, false>(s, true);
  }
  compare_both<pt::bf16, true>({70, 90, 16}, false, 50, 0);  // later queries
  compare_both<pt::bf16, true>({70, 90, 16}, true, 20, 45);  // queries some of which see no key of the piece
  compare_both<pt::bf16, true>({70, 90, 16}, false, 0, 80);  // none sees any
  compare_both<pt::f32, true>({9, 20, 300}, true, 6, 3);
  using of_query = pt::like<pt::f16, sequence, query, head, share, width>;
  using of_key = pt::like<pt::f16, sequence, key, head, width>;
  compare_attention<pt::attention_op<true, true>, of_query, of_key, of_key>({70, 80, 20}, false);
  compare_attention<pt::attention_grad_op<true, true>, of_query, of_query, of_key, of_key, of_query,
                    pt::like<pt::f32, sequence, head, share, query>>({70, 80, 20}, true);
}

TEST_CASE("the memory that a team needs for tiles is in every device, for heads of up to 128") {
  for (std::size_t width = 1; width <= pt::detail::widest_tiled_head; ++width) {
    using pt::detail::attention_tiles;
    CHECK(attention_tiles::forward(width).forward_bytes() <= std::size_t{99} << 10);
    CHECK(attention_tiles::of_queries(width).of_queries_bytes() <= std::size_t{99} << 10);
    CHECK(attention_tiles::of_keys(width).of_keys_bytes() <= std::size_t{99} << 10);
  }
}

TEST_CASE("the alignment that an address promises to a product") {
  const auto at = [](std::uintptr_t n) { return pt::on_cuda::alignment_of(reinterpret_cast<void const*>(n)); };
  CHECK(at(0) == 256);
  CHECK(at(512) == 256);
  CHECK(at(128 + 64) == 64);
  CHECK(at(1024 + 16) == 16);
  CHECK(at(1026) == 2);
  pt::on_cuda::product p;
  const auto whole = shape_of(p);
  p.a = reinterpret_cast<void const*>(std::uintptr_t{2});
  CHECK(shape_of(p) != whole);
  CHECK(shape_of(p).aligned_b == 2);
  CHECK(shape_of(p).aligned_vector == 256);
  p.bias = reinterpret_cast<void const*>(std::uintptr_t{1230});
  p.gelu_of = reinterpret_cast<void const*>(std::uintptr_t{1024 + 16});
  CHECK(shape_of(p).aligned_vector == 2);
  CHECK(shape_of(p).aligned_gelu == 16);
}

#if !defined(__CUDACC__)  // of the pretended machine
namespace {
struct checked_gelu : pt::gelu_op {
  static std::string words_of(pt::data_fault const&) { return "no number"; }
};
// cuBLASLt as it could be: it has no product with a bias, and says so in its own way.
struct without_biases : pretend::cuda {
  static inline int asked = 0;
  static result create_product(multiplier_type m, product_type& made, pt::on_cuda::product_shape const& s, std::size_t bytes) {
    ++asked;
    return s.adds_bias ? failed : pretend::cuda::create_product(m, made, s, bytes);
  }
};
}  // namespace

TEST_CASE("an op that looks for mistakes in its data is no link of a chain") {
  CHECK(pt::on_cuda::link_functions_of<pt::gelu_op, pt::f32>().is_link());
  CHECK(pt::on_cuda::link_functions_of<pt::dropout_op, pt::f32>().is_link());
  CHECK_FALSE(pt::on_cuda::link_functions_of<checked_gelu, pt::f32>().is_link());
}

TEST_CASE("a product takes in no vector that may begin anywhere, and is told of none at another place than it was promised") {
  alignas(256) pt::bfloat16 a[16]{}, b[16]{}, c[256]{}, bias[64]{};
  pt::on_cuda::product p;
  p.type = pt::bf16;
  p.m = p.n = p.ldb = p.ldc = 16;
  p.k = p.lda = 1;
  p.a = a;
  p.b = b;
  p.c = c;
  {
    pretend::machine machine;
    pt::on_cuda::products<pretend::cuda> products;
    pretend::cuda::stream_type stream;
    CHECK(pretend::cuda::create_stream(stream) == pretend::cuda::success);
    CHECK(products.ready(shape_of(p)) != nullptr);
    p.bias = bias + 1;
    CHECK(products.ready(shape_of(p)) == nullptr);
    p.bias = bias + 8;
    auto const* const ready = products.ready(shape_of(p));
    REQUIRE(ready != nullptr);
    products.put(*ready, p, stream);
    CHECK(pretend::cuda::synchronize(stream) == pretend::cuda::success);
    p.bias = bias + 1;
    CHECK_THROWS(products.put(*ready, p, stream));
    CHECK(machine.at(0).error().find("less aligned than was promised") != std::string::npos);
  }
  const pretend::machine machine;
  pt::on_cuda::products<without_biases> products;
  p.bias = bias;
  CHECK(products.ready(shape_of(p)) == nullptr);
  CHECK(products.ready(shape_of(p)) == nullptr);
  CHECK(without_biases::asked == 1);
  p.bias = nullptr;
  CHECK(products.ready(shape_of(p)) != nullptr);
}
#endif
