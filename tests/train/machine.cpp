#include <doctest/doctest.h>

#include <sys/mman.h>

#include <cstddef>
#include <memory>

#include <partita/train/machine.hpp>

namespace {
constexpr std::size_t mebibyte = std::size_t{1} << 20;

// Memory that is held, and goes back to the system at once: an allocator might keep it.
struct held {
  explicit held(std::size_t size)
      : bytes_(mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)), size_(size) {
    REQUIRE(bytes_ != MAP_FAILED);
    for (std::size_t i = 0; i < size; i += 1024) static_cast<volatile char*>(bytes_)[i] = 1;
  }
  ~held() { munmap(bytes_, size_); }
  held(const held&) = delete;
  held& operator=(const held&) = delete;

 private:
  void* bytes_;
  std::size_t size_;
};

}  // namespace

TEST_CASE("memory that is touched is counted, and the peak outlasts it") {
  const partita::process_memory before = partita::measure_memory();
  CHECK(before.peak >= before.now);
  auto bytes = std::make_unique<held>(64 * mebibyte);
  const partita::process_memory during = partita::measure_memory();
  CHECK(during.now >= before.now + 60 * mebibyte);
#if !defined(PARTITA_SANITIZED)  // a sanitizer's shadow memory counts, too
  CHECK(during.now <= before.now + 80 * mebibyte);
#endif
  bytes.reset();
  const partita::process_memory after = partita::measure_memory();
  CHECK(after.now < during.now - 50 * mebibyte);
  CHECK(after.peak + mebibyte >= during.now);  // the kernel counts in batches
  if (partita::reset_peak_memory()) CHECK(partita::measure_memory().peak < during.now - 50 * mebibyte);
}

TEST_CASE("there is a core to run on") { CHECK(partita::available_cores() >= 1); }
