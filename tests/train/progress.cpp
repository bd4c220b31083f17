#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <memory>
#include <sstream>
#include <string>

#include <partita/train/progress.hpp>

namespace {

partita::step_report report(std::uint64_t step, double seconds = 0.5) {
  return {.step = step, .loss = 3.21456, .gradient_norm = 1.25, .learning_rate = 3e-4, .seconds = seconds, .tokens = 4096};
}

std::size_t count(const std::string& text, char wanted) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), wanted));
}

}  // namespace

TEST_CASE("the line says what is known and leaves out what is not") {
  partita::progress shown({.steps = 2000, .flops_per_step = 1e12, .peak_flops = 4e12});
  CHECK(shown.line(report(12)) == "step   12/2000 | loss 3.2146 | norm 1.25 | lr 3.00e-04 | 500 ms | 8.19 ktok/s | MFU 50.0%");
  shown.step(report(1));
  CHECK(shown.line(report(1)).ends_with(" | ETA 16 min 40 s"));
  CHECK(shown.line(report(2000)).find("ETA") == std::string::npos);
  partita::progress bare({});
  CHECK(bare.line({.step = 7}) == "step 7 | loss nan");
  CHECK(bare.line({.step = 7, .loss = 1, .gradient_norm = std::nan("")}) == "step 7 | loss 1.0000 | norm nan");
  partita::progress no_peak({.steps = 5, .flops_per_step = 1e12});
  CHECK(no_peak.line(report(1)).find("MFU") == std::string::npos);
}

TEST_CASE("the time left is smoothed, and the first step does not count for long") {
  partita::progress shown({.steps = 102, .smoothing = 0.9});
  shown.step(report(1, 100));
  CHECK(shown.seconds_left(1) == doctest::Approx(101 * 100));
  shown.step(report(2, 1));
  CHECK(shown.seconds_left(2) == doctest::Approx(100));
  shown.step(report(3, 2));  // (0.9 x 0.1 x 1 + 0.1 x 2) / 0.19
  CHECK(shown.seconds_per_step() == doctest::Approx(0.29 / 0.19));
  for (std::uint64_t step = 4; step < 200; ++step) shown.step(report(step, 3));
  CHECK(shown.seconds_per_step() == doctest::Approx(3).epsilon(1e-6));
  CHECK(shown.seconds_left(102) == 0);
}

TEST_CASE("plain lines come at the first step, every n, and at the last") {
  std::ostringstream out;
  partita::progress shown(out, {.steps = 10, .every = 4});
  for (std::uint64_t step = 1; step <= 10; ++step) shown.step(report(step));
  CHECK(count(out.str(), '\n') == 4);
  CHECK(count(out.str(), '\r') == 0);
  for (const char* start : {"step  1/10", "step  4/10", "step  8/10", "step 10/10"})
    CHECK(out.str().find(start) != std::string::npos);
}

TEST_CASE("a terminal's line is rewritten and ended once") {
  std::ostringstream out;
  {
    partita::progress shown(out, {.steps = 10, .terminal = true});
    shown.step(report(1));
    const std::size_t first = out.str().size();
    shown.step({.step = 2});  // shorter: what stood there is wiped
    CHECK(out.str().size() == 2 * first);
    CHECK(count(out.str(), '\n') == 0);
    shown.message("evaluation 3.1");
    CHECK(out.str().ends_with("\nevaluation 3.1\n"));
    shown.step(report(3));
  }
  CHECK(count(out.str(), '\n') == 3);
  CHECK(count(out.str(), '\r') == 3);
}

TEST_CASE("a file that is no terminal gets plain lines, no file gets none") {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::tmpfile(), &std::fclose);
  REQUIRE(file);
  {
    partita::progress shown(file.get(), {.steps = 2});
    shown.step(report(1));
    shown.step(report(2));
  }
  std::rewind(file.get());
  std::string text(1000, '\0');
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  CHECK(count(text, '\n') == 2);
  CHECK(count(text, '\r') == 0);
  partita::progress silent(static_cast<std::FILE*>(nullptr), {.steps = 2, .terminal = true});
  CHECK_NOTHROW(silent.step(report(1)));
}

TEST_CASE("options out of range are refused") {
  CHECK_THROWS_AS(partita::progress({.every = 0}), partita::error);
  CHECK_THROWS_AS(partita::progress({.smoothing = 1}), partita::error);
  CHECK_THROWS_AS(partita::progress({.flops_per_step = -1}), partita::error);
  CHECK_THROWS_AS(partita::progress({.peak_flops = std::nan("")}), partita::error);
}
