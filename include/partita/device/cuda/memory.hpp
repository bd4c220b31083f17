// Memory of a CUDA device, and of the host where a device copies from and to.
#pragma once
#include <cstddef>
#include <span>
#include <string_view>
#include <utility>

#include <partita/core/words.hpp>
#include <partita/device/cuda/checked.hpp>

namespace partita::on_cuda {

// Uninitialised, aligned to 256 bytes. Throws error that says what was asked for, what is free and what would help.
template <class Api> class device_memory {
 public:
  device_memory() = default;
  device_memory(std::size_t bytes, std::string_view what) : bytes_(bytes) {
    if (bytes == 0) return;
    void* at = nullptr;
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
    data_ = static_cast<std::byte*>(at);
  }
  device_memory(device_memory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  device_memory& operator=(device_memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~device_memory() {
    if (data_ != nullptr) Api::release(data_);
  }
  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

// Of the host, locked, so that copies do not wait for it.
template <class Api> class host_memory {
 public:
  host_memory() = default;
  explicit host_memory(std::size_t bytes) : bytes_(bytes) {
    void* at = nullptr;
    if (bytes > 0) check<Api>(Api::allocate_host(at, bytes), words({bytes, " bytes of locked host memory"}));
    data_ = static_cast<std::byte*>(at);
  }
  host_memory(host_memory&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
  host_memory& operator=(host_memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~host_memory() {
    if (data_ != nullptr) Api::release_host(data_);
  }
  std::byte* data() const { return data_; }
  std::size_t size() const { return bytes_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace partita::on_cuda
