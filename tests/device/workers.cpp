#include <doctest/doctest.h>

#include <atomic>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <partita/device/cpu/workers.hpp>

namespace pt = partita;

TEST_CASE("parts are contiguous, cover the range once and begin at multiples of the grain") {
  for (int size : {1, 2, 3, 5}) {
    pt::on_cpu::workers workers(size);
    CHECK(workers.size() == static_cast<std::size_t>(size));
    for (std::size_t count : {0u, 1u, 2u, 7u, 64u, 1000u})
      for (std::size_t grain : {0u, 1u, 3u, 16u, 2000u}) {
        std::vector<std::pair<std::size_t, std::size_t>> ranges(workers.size(), {1, 0});
        std::atomic<std::size_t> calls{0};
        workers.parallel(count, grain, [&](std::size_t begin, std::size_t end, std::size_t part) {
          ranges[part] = {begin, end};
          ++calls;
        });
        const std::size_t parts = workers.parts(count, grain);
        CHECK(calls == parts);
        std::size_t at = 0;
        for (std::size_t part = 0; part < parts; ++part) {
          CHECK(ranges[part].first == at);
          CHECK(ranges[part].first % (grain == 0 ? 1 : grain) == 0);
          CHECK(ranges[part].second > at);
          at = ranges[part].second;
        }
        CHECK(at == count);
      }
  }
}

TEST_CASE("work is handed out many times in a row") {
  pt::on_cpu::workers workers(3);
  std::vector<int> seen(300, 0);
  for (int round = 0; round < 2000; ++round)
    workers.parallel(seen.size(), 1, [&](std::size_t begin, std::size_t end) {
      for (std::size_t i = begin; i < end; ++i) ++seen[i];
    });
  CHECK(seen == std::vector<int>(300, 2000));
}

TEST_CASE("the exception of the lowest part reaches the caller, and the workers go on") {
  pt::on_cpu::workers workers(4);
  for (int round = 0; round < 50; ++round) {
    bool thrown = false;
    try {
      workers.parallel(4, 1, [](std::size_t begin, std::size_t) {
        if (begin > 0) throw std::runtime_error(begin == 1 ? "one" : "more");
      });
    } catch (std::runtime_error const& e) { thrown = std::string_view(e.what()) == "one"; }
    CHECK(thrown);
    std::atomic<int> sum{0};
    workers.parallel(4, 1, [&](std::size_t begin, std::size_t) { sum += static_cast<int>(begin); });
    CHECK(sum == 6);
  }
}

TEST_CASE("a call inside a call, and a call beside a call, do the same parts inline") {
  pt::on_cpu::workers workers(2), others(2);
  std::atomic<int> calls{0}, moved{0};
  workers.parallel(2, 1, [&](std::size_t, std::size_t) {
    const auto here = std::this_thread::get_id();
    for (auto* inner : {&workers, &others})
      inner->parallel(10, 1, [&](std::size_t, std::size_t) {
        ++calls;
        if (std::this_thread::get_id() != here) ++moved;
      });
  });
  CHECK(calls == 8);
  CHECK(moved == 0);

  std::atomic<int> total{0};
  auto use = [&] {
    for (int round = 0; round < 500; ++round)
      workers.parallel(10, 1, [&](std::size_t begin, std::size_t end) { total += static_cast<int>(end - begin); });
  };
  std::thread other(use);
  use();
  other.join();
  CHECK(total == 10000);
}
