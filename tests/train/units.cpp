#include <doctest/doctest.h>

#include <limits>

#include <partita/train/units.hpp>

TEST_CASE("numbers for people") {
  using namespace partita;
  CHECK(quantity_text(0) == "0");
  CHECK(quantity_text(950) == "950");
  CHECK(quantity_text(999.9) == "1.00 k");
  CHECK(quantity_text(66'400, "tok/s") == "66.4 ktok/s");
  CHECK(quantity_text(1.5e15, "FLOP") == "1.50 PFLOP");
  CHECK(quantity_text(12, "tok/s") == "12 tok/s");
  CHECK(quantity_text(1.25) == "1.25");
  CHECK(bytes_text(512) == "512 B");
  CHECK(bytes_text(1536) == "1.50 KiB");
  CHECK(bytes_text(139.0 * 1024 * 1024 * 1024) == "139 GiB");
  CHECK(duration_text(0.00085) == "850 us");
  CHECK(duration_text(0.0123) == "12.3 ms");
  CHECK(duration_text(4.2) == "4.20 s");
  CHECK(duration_text(59.99) == "1 min 00 s");
  CHECK(duration_text(123) == "2 min 03 s");
  CHECK(duration_text(3599.7) == "1 h 00 min");
  CHECK(duration_text(3900) == "1 h 05 min");
  CHECK(duration_text(3 * 86400.0 + 4 * 3600) == "3 d 04 h");
  CHECK(duration_text(-1) == "unknown");
  CHECK(duration_text(std::numeric_limits<double>::infinity()) == "unknown");
}
