// Memory of a device: a region of the address space whose pages the system gives when they are first touched, so that
// on a machine with several memories they lie near the thread that writes them first.
#pragma once
#include <cstddef>
#include <cstdint>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#if __has_include(<sys/mman.h>)
#include <sys/mman.h>
#include <unistd.h>
#define PARTITA_MAPPED_MEMORY 1
#endif

#include <partita/core/words.hpp>

namespace partita::on_cpu {

// Zero where it was never written. Aligned to a page, and to a huge page if it holds one: memory of many MiB on pages
// of 4 KiB costs a fault for each in the first step and misses the TLB in all others.
class memory {
 public:
  static constexpr std::size_t huge = std::size_t{2} << 20;

  memory() = default;
  explicit memory(std::size_t bytes) : bytes_(bytes) {
    if (bytes == 0) return;
#if defined(PARTITA_MAPPED_MEMORY)
    const std::size_t page = page_bytes(), whole = (bytes + page - 1) / page * page, spare = bytes >= huge ? huge : 0;
    void* at = mmap(nullptr, whole + spare, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at == MAP_FAILED)
      throw_error({"memory: the system does not give ", bytes, " bytes; cut the model over more devices, or recompute"});
    data_ = static_cast<std::byte*>(at);
    mapped_ = whole;
    if (spare > 0) {  // give back what lies outside the aligned part
      const std::size_t before = (huge - reinterpret_cast<std::uintptr_t>(at) % huge) % huge;
      if (before > 0) munmap(data_, before);
      if (spare > before) munmap(data_ + before + whole, spare - before);
      data_ += before;
#if defined(MADV_HUGEPAGE)
      // Whole ones only: the last, if it were part of a huge page, would hold more than was asked for.
      madvise(data_, bytes / huge * huge, MADV_HUGEPAGE);
#endif
    }
#else
    data_ = static_cast<std::byte*>(::operator new (bytes, std::align_val_t{4096}));
    for (std::size_t i = 0; i < bytes; ++i) data_[i] = std::byte{0};
    mapped_ = bytes;
#endif
  }
  memory(memory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)),
        mapped_(std::exchange(other.mapped_, 0)) {}
  memory& operator=(memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(mapped_, other.mapped_);
    return *this;
  }
  ~memory() {
    if (data_ == nullptr) return;
#if defined(PARTITA_MAPPED_MEMORY)
    munmap(data_, mapped_);
#else
    ::operator delete (data_, std::align_val_t{4096});
#endif
  }

  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }
  std::size_t reserved() const { return mapped_; }  // size() in whole pages: the most that it can hold
  std::span<std::byte> bytes() const { return {data_, bytes_}; }

  // Bytes of physical memory it holds now: of the pages that were touched (and not swapped out). At most size(), up to
  // a whole page. Where the system cannot tell, size().
  std::size_t resident() const {
    if (data_ == nullptr) return 0;
#if defined(PARTITA_MAPPED_MEMORY) && defined(__linux__)
    constexpr std::size_t at_a_time = 4096;  // pages
    const std::size_t page = page_bytes(), pages = mapped_ / page;
    unsigned char states[at_a_time];
    std::size_t held = 0;
    for (std::size_t first = 0; first < pages; first += at_a_time) {
      const std::size_t count = pages - first < at_a_time ? pages - first : at_a_time;
      if (mincore(data_ + first * page, count * page, states) != 0) return bytes_;
      for (std::size_t i = 0; i < count; ++i) held += states[i] & 1;
    }
    return held * page;
#else
    return bytes_;
#endif
  }

 private:
#if defined(PARTITA_MAPPED_MEMORY)
  static std::size_t page_bytes() {
    static const std::size_t bytes = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return bytes;
  }
#endif
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0, mapped_ = 0;
};

}  // namespace partita::on_cpu
