#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <partita/train/sampling.hpp>

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

// How often each token is drawn over a fine grid of uniform numbers: its probability.
std::vector<double> frequencies(const std::vector<float>& logits, partita::sampling_options options) {
  std::vector<double> result(logits.size());
  for (int i = 0; i < 10'000; ++i)
    result[static_cast<std::size_t>(partita::sample_token(logits, (i + 0.5) / 10'000, options))] += 1e-4;
  return result;
}

}  // namespace

TEST_CASE("greedy takes the first of the largest") {
  CHECK(partita::greedy_token(std::vector<float>{-1, 3, 2, 3}) == 1);
  CHECK(partita::greedy_token(std::vector<float>{-infinity, -5}) == 1);
  for (double uniform : {0.0, 0.5, 0.999}) {
    CHECK(partita::sample_token(std::vector<float>{-1, 3, 2, 3}, uniform, {.temperature = 0}) == 1);
    CHECK(partita::sample_token(std::vector<float>{-1, 3, 2, 3}, uniform, {.top_k = 1}) == 1);
  }
}

TEST_CASE("tokens come as often as softmax says") {
  const std::vector<float> logits{0.5f, -1, 2, 700, 699, -infinity};
  for (double temperature : {0.5, 1.0, 2.0, 1e6})
    for (std::size_t top_k : {0u, 2u, 3u, 5u, 100u}) {
      std::vector<std::size_t> kept{3, 4, 2, 0, 1, 5};  // by size
      if (top_k > 0 && top_k < kept.size()) kept.resize(top_k);
      std::vector<double> expected(logits.size());
      double sum = 0;
      for (std::size_t i : kept) sum += expected[i] = std::exp((logits[i] - 700.0) / temperature);
      const auto drawn = frequencies(logits, {.temperature = temperature, .top_k = top_k});
      for (std::size_t i = 0; i < logits.size(); ++i) CHECK(std::abs(drawn[i] - expected[i] / sum) < 2.1e-4);
    }
}

TEST_CASE("equal logits: the first k count") {
  const auto drawn = frequencies({1, 1, 1, 1}, {.top_k = 2});
  CHECK(drawn[0] == doctest::Approx(0.5));
  CHECK(drawn[1] == doctest::Approx(0.5));
}

TEST_CASE("the ends of the range of the uniform number") {
  const std::vector<float> logits{-infinity, 0, 0, -infinity};
  CHECK(partita::sample_token(logits, 0) == 1);
  CHECK(partita::sample_token(logits, std::nextafter(1.0, 0.0)) == 2);
}

TEST_CASE("what cannot be drawn from is refused") {
  using partita::sample_token;
  const std::vector<float> good{0, 1};
  CHECK_THROWS_AS(sample_token(std::vector<float>{}, 0), partita::error);
  CHECK_THROWS_AS(sample_token(std::vector<float>{0, std::nanf("")}, 0), partita::error);
  CHECK_THROWS_AS(sample_token(std::vector<float>{0, infinity}, 0), partita::error);
  CHECK_THROWS_AS(sample_token(std::vector<float>{-infinity, -infinity}, 0), partita::error);
  for (double uniform : {-0.1, 1.0, std::nan("")}) CHECK_THROWS_AS(sample_token(good, uniform), partita::error);
  for (double temperature : {-1.0, std::nan(""), std::numeric_limits<double>::infinity()})
    CHECK_THROWS_AS(sample_token(good, 0, {.temperature = temperature}), partita::error);
}

TEST_CASE("bytes are printed, and what is not printable is escaped") {
  using partita::printable;
  CHECK(printable("a b\n\tc\r") == "a b\n\tc\\x0d");
  CHECK(printable("a\n\tb", false) == "a\\n\\tb");
  CHECK(printable(std::string("\0\x1b[2J\x7f\\", 7)) == "\\x00\\x1b[2J\\x7f\\");
  CHECK(printable("caf\xc3\xa9 \xe4\xb8\xad \xf0\x9f\x8e\xb5") == "caf\xc3\xa9 \xe4\xb8\xad \xf0\x9f\x8e\xb5");
  CHECK(printable("\xe4\xb8") == "\\xe4\\xb8");             // cut short
  CHECK(printable("\xc0\x80 \xff") == "\\xc0\\x80 \\xff");  // overlong; no first byte
  CHECK(printable("\xed\xa0\x80") == "\\xed\\xa0\\x80");    // a surrogate
  CHECK(printable("\xc2\x9b") == "\\xc2\\x9b");             // a control character
  CHECK(printable(std::vector<std::int32_t>{104, 105, 10, 255}) == "hi\n\\xff");
  CHECK_THROWS_AS(printable(std::vector<std::int32_t>{256}), partita::error);
  CHECK_THROWS_AS(printable(std::vector<std::int32_t>{-1}), partita::error);
}
