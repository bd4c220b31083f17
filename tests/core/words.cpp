// How messages write numbers.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>

#include <partita/core/words.hpp>

using partita::words;

TEST_CASE("numbers in messages are as short as people write them") {
  CHECK(words({2.0, " s, ", 0.2, " s, ", 120.0, ", ", 1e-5, ", ", -0.5f}) == "2 s, 0.2 s, 120, 1e-05, -0.5");
  CHECK(words({std::numeric_limits<double>::max(), ", ", -std::numeric_limits<double>::max()}) == "1.79769e+308, -1.79769e+308");
  CHECK(words({std::nan(""), ", ", std::numeric_limits<double>::infinity()}) == "nan, inf");
  CHECK(words({std::numeric_limits<std::int64_t>::min(), ", ", std::numeric_limits<std::uint64_t>::max(), ", ", 0, ", ", 'x'}) ==
        "-9223372036854775808, 18446744073709551615, 0, x");
}
