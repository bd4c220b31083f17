// The next token from a model's logits, and bytes as a person can read them.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <partita/core/error.hpp>
#include <partita/core/words.hpp>

namespace partita {

struct sampling_options {
  double temperature = 1;  // logits are divided by it; 0 takes the largest logit
  std::size_t top_k = 0;   // only the k largest logits count; 0 counts all

  bool operator==(const sampling_options&) const = default;
};

// The index of the largest logit, of several equal ones the first. A logit of -inf is never taken. Throws `error`
// when there are no logits, when one is NaN or +inf, and when all are -inf.
inline std::int32_t greedy_token(std::span<const float> logits) {
  std::size_t best = logits.size();
  for (std::size_t i = 0; i < logits.size(); ++i) {
    if (std::isnan(logits[i]) || logits[i] == std::numeric_limits<float>::infinity())
      throw_error({"sampling: logit ", i, " of ", logits.size(), " is ", logits[i],
                   "; the model has diverged or its weights are damaged"});
    if (std::isinf(logits[i])) continue;
    if (best == logits.size() || logits[i] > logits[best]) best = i;
  }
  if (best == logits.size()) throw_error({"sampling: none of ", logits.size(), " logits is above -inf; nothing can be chosen"});
  return static_cast<std::int32_t>(best);
}

// A token drawn from softmax(logits / temperature) among the top_k largest (of equal logits the first ones count),
// by inverting the cumulative distribution in the order of the tokens at `uniform`, a number in [0, 1) that the
// caller draws: the same number gives the same token. Throws `error` as `greedy_token` does, and when the
// temperature is negative or not finite or `uniform` lies outside [0, 1).
inline std::int32_t sample_token(std::span<const float> logits, double uniform, sampling_options options = {}) {
  if (!(options.temperature >= 0) || std::isinf(options.temperature))
    throw_error({"sampling: the temperature is ", options.temperature, "; give a finite number, at least 0"});
  if (!(uniform >= 0 && uniform < 1)) throw_error({"sampling: the uniform number is ", uniform, "; give one in [0, 1)"});
  const std::int32_t likeliest = greedy_token(logits);
  if (options.temperature == 0 || options.top_k == 1) return likeliest;

  std::vector<std::size_t> kept(logits.size());
  std::iota(kept.begin(), kept.end(), std::size_t{0});
  if (options.top_k > 0 && options.top_k < kept.size()) {
    const auto end = kept.begin() + static_cast<std::ptrdiff_t>(options.top_k);
    std::nth_element(kept.begin(), end, kept.end(),
                     [&](std::size_t a, std::size_t b) { return logits[a] != logits[b] ? logits[a] > logits[b] : a < b; });
    kept.erase(end, kept.end());
    std::sort(kept.begin(), kept.end());
  }
  const double largest = logits[static_cast<std::size_t>(likeliest)];
  const auto weight = [&](std::size_t i) { return std::exp((logits[i] - largest) / options.temperature); };
  double sum = 0;
  for (std::size_t i : kept) sum += weight(i);
  double below = 0;
  std::size_t chosen = static_cast<std::size_t>(likeliest);
  for (std::size_t i : kept) {
    const double w = weight(i);
    if (w == 0) continue;
    chosen = i;  // the last of them should rounding keep `below` under the mark
    below += w;
    if (uniform * sum < below) break;
  }
  return static_cast<std::int32_t>(chosen);
}

namespace detail {

// The bytes of the well-formed UTF-8 character at `at` (Unicode 15, table 3-7), or 0.
inline std::size_t utf8_length(std::string_view bytes, std::size_t at) {
  const auto byte = [&](std::size_t i) -> unsigned {
    return at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0;
  };
  const unsigned first = byte(0);
  const std::size_t length = first < 0x80                    ? 1
                             : first >= 0xc2 && first < 0xe0 ? 2
                             : first >= 0xe0 && first < 0xf0 ? 3
                             : first >= 0xf0 && first < 0xf5 ? 4
                                                             : 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  const unsigned second = byte(1);
  if ((first == 0xe0 && second < 0xa0) || (first == 0xed && second > 0x9f) || (first == 0xf0 && second < 0x90) ||
      (first == 0xf4 && second > 0x8f))
    return 0;
  return length;
}

}  // namespace detail

// Bytes as text that is safe to print: printable ASCII and well-formed UTF-8 stay, other bytes become \xNN, with two
// hexadecimal digits. Line feed and tab stay if `keep_lines`, else they become \n and \t. A backslash stays as it is,
// so the result is for reading and not for reading back.
inline std::string printable(std::string_view bytes, bool keep_lines = true) {
  std::string text;
  for (std::size_t at = 0; at < bytes.size();) {
    const auto byte = static_cast<unsigned char>(bytes[at]);
    const std::size_t length = detail::utf8_length(bytes, at);
    const bool control =
        byte < 0x20 || byte == 0x7f || (byte == 0xc2 && length == 2 && static_cast<unsigned char>(bytes[at + 1]) < 0xa0);
    if (byte == '\n' || byte == '\t') {
      if (keep_lines) text += bytes[at];
      else text += byte == '\n' ? "\\n" : "\\t";
      ++at;
    } else if (length == 0 || control) {
      constexpr const char* digits = "0123456789abcdef";
      text += "\\x";
      text += digits[byte >> 4];
      text += digits[byte & 15];
      ++at;
    } else {
      text += bytes.substr(at, length);
      at += length;
    }
  }
  return text;
}

// The same for tokens that are bytes. Throws `error` when a token is not in [0, 256).
inline std::string printable(std::span<const std::int32_t> tokens, bool keep_lines = true) {
  std::string bytes;
  bytes.reserve(tokens.size());
  for (std::int32_t token : tokens) {
    if (token < 0 || token > 255) throw_error({"sampling: token ", token, " is no byte; bytes are 0 to 255"});
    bytes += static_cast<char>(static_cast<unsigned char>(token));
  }
  return printable(bytes, keep_lines);
}

}  // namespace partita
