#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <vector>

#include <partita/core/random.hpp>

namespace pt = partita;

namespace {
constexpr bool equal(pt::philox_block a, std::uint32_t b0, std::uint32_t b1, std::uint32_t b2, std::uint32_t b3) {
  return a.word[0] == b0 && a.word[1] == b1 && a.word[2] == b2 && a.word[3] == b3;
}
// Random123, examples/kat_vectors, the lines "philox4x32 10".
static_assert(equal(pt::philox(0, 0, 0), 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
static_assert(equal(pt::philox(~0ull, ~0ull, ~0ull), 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
static_assert(equal(pt::philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e), 0xd16cfe09, 0x94fdcceb, 0x5001e420,
                    0x24126ea1));
}  // namespace

TEST_CASE("an element's number depends on key, step and its index alone") {
  constexpr std::uint64_t key = 0x1234567890abcdef, step = 77;
  for (std::uint64_t base : {std::uint64_t{0}, std::uint64_t{3}, (std::uint64_t{1} << 34) - 70})
    for (std::size_t count : {0u, 1u, 3u, 63u, 64u, 65u, 200u})
      for (std::uint64_t offset = 0; offset < 5; ++offset) {
        const std::uint64_t first = base + offset;
        std::vector<float> uniforms(count + 1, -1.f), factors(count + 1, -1.f), normals(count + 1, -9.f);
        std::vector<double> doubles(count + 1, -9);
        std::vector<std::uint64_t> bits(count / 64 + 2, 0x5555);
        pt::fill_uniform(uniforms.data(), key, step, first, count);
        pt::fill_dropout(factors.data(), key, step, first, count, 0.3f, 2.5f);
        pt::fill_normal(normals.data(), key, step, first, count);
        pt::fill_normal(doubles.data(), key, step, first, count, 0.5);
        pt::fill_keep_bits(bits.data(), key, step, first, count, 0.3f);
        bool same = true;
        for (std::size_t j = 0; j < count; ++j) {
          const float expected = pt::random_uniform(key, step, first + j);
          const bool kept = expected >= 0.3f;
          same &= uniforms[j] == expected && pt::keeps(key, step, first + j, 0.3f) == kept;
          same &= factors[j] == (kept ? 2.5f : 0.f) && (bits[j / 64] >> (j % 64) & 1) == kept;
          same &= normals[j] == pt::random_normal(key, step, first + j);
          same &= static_cast<float>(2 * doubles[j]) == normals[j];
        }
        CHECK(same);
        CHECK(uniforms[count] == -1.f);
        CHECK(factors[count] == -1.f);
        CHECK(normals[count] == -9.f);
        if (count % 64 != 0) CHECK((bits[count / 64] >> (count % 64)) == 0);
        CHECK(bits[(count + 63) / 64] == 0x5555);
      }
}

TEST_CASE("uniforms and normals have the moments of their distributions") {
  constexpr std::size_t count = 1 << 20;
  std::vector<float> values(count);
  for (std::uint64_t step : {0, 1, 2}) {
    auto moment = [&](double center, int power) {
      double sum = 0;
      for (float v : values) sum += std::pow(v - center, power);
      return sum / count;
    };
    pt::fill_uniform(values.data(), 42, step, 0, count);
    bool inside = true;
    for (float v : values) inside &= v >= 0 && v < 1;
    CHECK(inside);
    // five standard errors
    CHECK(std::abs(moment(0, 1) - 0.5) < 5 * std::sqrt(1. / 12 / count));
    CHECK(std::abs(moment(0.5, 2) - 1. / 12) < 5 * std::sqrt(1. / 180 / count));
    double lag = 0;
    for (std::size_t j = 0; j + 1 < count; ++j) lag += (values[j] - 0.5) * (values[j + 1] - 0.5);
    CHECK(std::abs(lag / count) < 5 * (1. / 12) / std::sqrt(count));
    pt::fill_normal(values.data(), 42, step, 0, count);
    CHECK(std::abs(moment(0, 1)) < 5 / std::sqrt(count));
    CHECK(std::abs(moment(0, 2) - 1) < 5 * std::sqrt(2. / count));
    CHECK(std::abs(moment(0, 3)) < 5 * std::sqrt(15. / count));
    CHECK(std::abs(moment(0, 4) - 3) < 5 * std::sqrt(96. / count));
    CHECK(std::abs(moment(0, 6) - 15) < 5 * std::sqrt(10170. / count));
  }
}

TEST_CASE("the largest word is below one, the probabilities 0 and 1 keep all and nothing") {
  CHECK(pt::uniform_of(~0u) < 1.f);
  CHECK(pt::uniform_of(0) == 0.f);
  CHECK(pt::keeps(0u, 0.f));
  CHECK_FALSE(pt::keeps(~0u, 1.f));
}
