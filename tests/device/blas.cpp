#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <thread>
#include <utility>
#include <vector>

#include <partita/core/random.hpp>
#include <partita/device/cpu/blas.hpp>

#include "../support/number_of.hpp"

namespace pt = partita;

namespace {
template <class T> std::vector<T> random_values(std::size_t count, std::uint64_t key) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(pt::random_uniform(key, 0, i) - 0.5f);
  return values;
}

// Two matrices, and their product in double, which is what takes long under sanitizers.
template <class T> struct product {
  bool ta, tb;
  std::size_t m, n, k, lda = (ta ? m : k) + 3, ldb = (tb ? k : n) + 1, ldc = n + 2;
  std::vector<T> a = random_values<T>((ta ? k : m) * lda, 1), b = random_values<T>((tb ? n : k) * ldb, 2),
                 before = random_values<T>(m * ldc, 3);
  std::vector<double> sums = std::vector<double>(m * n);

  product(bool transposed_a, bool transposed_b, std::size_t rows, std::size_t columns, std::size_t summed)
      : ta(transposed_a), tb(transposed_b), m(rows), n(columns), k(summed) {
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < n; ++j)
        for (std::size_t l = 0; l < k; ++l)
          sums[i * n + j] += static_cast<double>(a[ta ? l * lda + i : i * lda + l]) * b[tb ? j * ldb + l : l * ldb + j];
  }
  // The largest difference from the sum in double, over what rounding allows: k products of at most 1/4.
  double wrong(pt::on_cpu::workers& workers, T alpha, T beta) const {
    std::vector<T> c = before;
    if (beta == 0)
      for (std::size_t i = 0; i < m; ++i)
        for (std::size_t j = 0; j < n; ++j) c[i * ldc + j] = std::numeric_limits<T>::quiet_NaN();
    pt::on_cpu::gemm<T>(workers, ta, tb, m, n, k, alpha, a.data(), lda, b.data(), ldb, beta, c.data(), ldc);
    const double allowed = std::numeric_limits<T>::epsilon() * (4 + 2 * std::sqrt(static_cast<double>(k)));
    double most = 0;
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < ldc; ++j) {
        const double was = before[i * ldc + j];
        const double sum = j >= n ? was : alpha * sums[i * n + j] + (beta == 0 ? 0 : beta * was);
        const double off = std::abs(c[i * ldc + j] - sum) / allowed;
        if (!(off <= most)) most = off;
      }
    return most;
  }
};
}  // namespace

TEST_CASE_TEMPLATE("gemm is the product, for any transposition, extent and number of workers", T, float, double) {
  pt::on_cpu::workers one(1), two(2), three(3);
  const std::pair<int, pt::on_cpu::workers*> all[]{{1, &one}, {2, &two}, {3, &three}};
  for (bool ta : {false, true})
    for (bool tb : {false, true})
      for (std::size_t m : {0u, 1u, 2u, 7u, 16u, 37u, 130u})
        for (std::size_t n : {0u, 1u, 5u, 16u, 33u, 101u, 260u})
          for (std::size_t k : {0u, 1u, 3u, 17u, 64u, 129u}) {
            if (partita::testing::sanitized_briefly && (m + n + k) % 3 != 0) continue;
            const product<T> of(ta, tb, m, n, k);
            CAPTURE(ta);
            CAPTURE(tb);
            CAPTURE(m);
            CAPTURE(n);
            CAPTURE(k);
            for (auto const& with : all) {
              CAPTURE(with.first);
              CHECK(of.wrong(*with.second, T(1), T(0)) <= 1);
              CHECK(of.wrong(*with.second, T(0.5), T(2)) <= 1);
            }
          }
  const product<T> large(false, true, 300, 500, 700), odd(true, false, 301, 97, 411);
  for (auto const& with : all) {
    CAPTURE(with.first);
    CHECK(large.wrong(*with.second, T(1), T(1)) <= 1);
    CHECK(odd.wrong(*with.second, T(-1), T(0)) <= 1);
  }
}

TEST_CASE_TEMPLATE("a batch of products, in two levels of strides", T, float, double) {
  // [batch, token, head, width], as attention reads it
  constexpr std::size_t batch = 3, token = 19, head = 2, width = 8;
  const auto q = random_values<T>(batch * token * head * width, 1), key = random_values<T>(q.size(), 2);
  for (int threads : {1, 2, 8}) {
    pt::on_cpu::workers workers(threads);
    std::vector<T> scores(batch * head * token * token, T(7));
    const std::size_t row = head * width;
    pt::on_cpu::batched_gemm<T>(workers, batch, head, false, true, token, token, width, T(2), {q.data(), row, token * row, width},
                                {key.data(), row, token * row, width}, T(0),
                                {scores.data(), token, head * token * token, token * token});
    double most = 0;
    for (std::size_t i = 0; i < batch; ++i)
      for (std::size_t j = 0; j < head; ++j)
        for (std::size_t s = 0; s < token; ++s)
          for (std::size_t t = 0; t < token; ++t) {
            double sum = 0;
            for (std::size_t l = 0; l < width; ++l)
              sum += 2. * q[((i * token + s) * head + j) * width + l] * key[((i * token + t) * head + j) * width + l];
            most = std::fmax(most, std::abs(scores[((i * head + j) * token + s) * token + t] - sum));
          }
    CHECK(most < 8 * std::numeric_limits<T>::epsilon());
  }
}

TEST_CASE("several devices multiply at once") {
  constexpr std::size_t m = 96, n = 160, k = 200;
  const auto a = random_values<float>(m * k, 1), b = random_values<float>(k * n, 2);
  pt::on_cpu::workers one(1);
  std::vector<float> expected(m * n);
  pt::on_cpu::gemm<float>(one, false, false, m, n, k, 1, a.data(), k, b.data(), n, 0, expected.data(), n);
  std::vector<int> agree(4, 0);
  std::vector<std::thread> devices;
  for (std::size_t device = 0; device < agree.size(); ++device)
    devices.emplace_back([&, device] {
      pt::on_cpu::workers workers(device % 2 == 0 ? 1 : 2);
      for (int round = 0; round < 100; ++round) {
        std::vector<float> c(m * n, -1.f);
        pt::on_cpu::gemm<float>(workers, false, false, m, n, k, 1, a.data(), k, b.data(), n, 0, c.data(), n);
        double most = 0;
        for (std::size_t i = 0; i < c.size(); ++i) most = std::fmax(most, std::abs(c[i] - expected[i]));
        agree[device] += most < 1e-5;
      }
    });
  for (std::thread& device : devices) device.join();
  CHECK(agree == std::vector<int>(4, 100));
}

TEST_CASE("C is cut along the larger operand, and small products not at all") {
  using pt::on_cpu::detail::choose_tiling;
  using pt::on_cpu::detail::tiling;
  CHECK(choose_tiling(256, 3072, 768, 2) == tiling{1, 2});
  CHECK(choose_tiling(50257, 768, 256, 2) == tiling{2, 1});
  CHECK(choose_tiling(2048, 2048, 2048, 2) == tiling{2, 1});
  CHECK(choose_tiling(2048, 2048, 2048, 4) == tiling{2, 2});
  CHECK(choose_tiling(64, 64, 64, 8) == tiling{1, 1});
  CHECK(choose_tiling(8, 768, 768, 4) == tiling{1, 4});
  CHECK(choose_tiling(1, 1, 1 << 30, 4) == tiling{1, 1});
}

TEST_CASE("an extent beyond BLAS is an error, not a wrong product") {
  pt::on_cpu::workers workers(1);
  float value = 0;
  CHECK_THROWS_AS(
      pt::on_cpu::gemm<float>(workers, false, false, 2, 2, std::size_t{1} << 32, 1, &value, 1, &value, 1, 0, &value, 1),
      pt::error);
}
