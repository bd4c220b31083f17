// Memory of a CUDA device, and of the host where a device copies from and to.
#pragma once
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

#include <partita/core/words.hpp>
#include <partita/device/cuda/checked.hpp>

namespace partita::on_cuda {

// Bytes that end with their owner.
template <auto Release> class owned_bytes {
 public:
  owned_bytes() = default;
  owned_bytes(owned_bytes&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  owned_bytes& operator=(owned_bytes&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~owned_bytes() {
    if (data_ != nullptr) Release(data_);
  }
  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }

 protected:
  owned_bytes(void* data, std::size_t bytes) : data_(static_cast<std::byte*>(data)), bytes_(bytes) {}

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Uninitialised, aligned to 256 bytes. Throws error that says what was asked for, what is free and what would help.
template <class Api> class device_memory : public owned_bytes<&Api::release> {
 public:
  device_memory() = default;
  device_memory(std::size_t bytes, std::string_view what) : owned_bytes<&Api::release>(allocated(bytes, what), bytes) {}

 private:
  static void* allocated(std::size_t bytes, std::string_view what) {
    void* at = nullptr;
    if (bytes == 0) return at;
    if (const auto answer = Api::allocate(at, bytes); answer != Api::success) {
      std::size_t free = 0, all = 0;
      const bool known = Api::memory(free, all) == Api::success;
      constexpr double mib = 1 << 20;
      throw_error(
          {"memory: the device does not give ", static_cast<double>(bytes) / mib, " MiB for ", what, " (", Api::text(answer),
           known ? words({"; ", static_cast<double>(free) / mib, " of its ", static_cast<double>(all) / mib, " MiB are free"})
                 : std::string(),
           "). Cut the model over more devices, recompute, or take smaller micro-batches"});
    }
    return at;
  }
};

// Of the host, locked, so that copies do not wait for it.
template <class Api> class host_memory : public owned_bytes<&Api::release_host> {
 public:
  host_memory() = default;
  explicit host_memory(std::size_t bytes) : owned_bytes<&Api::release_host>(allocated(bytes), bytes) {}

 private:
  static void* allocated(std::size_t bytes) {
    void* at = nullptr;
    if (bytes > 0) check<Api>(Api::allocate_host(at, bytes), words({bytes, " bytes of locked host memory"}));
    return at;
  }
};

}  // namespace partita::on_cuda
