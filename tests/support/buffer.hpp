// Elements of a tensor in a test: typed at run time, read and written as double.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include <partita/core/dtype.hpp>

namespace partita::testing {

class buffer {
  struct free {
    void operator()(std::byte* p) const { ::operator delete[](p, std::align_val_t{64}); }
  };
  dtype type_ = f32;
  std::size_t size_ = 0;
  std::unique_ptr<std::byte[], free> bytes_;

 public:
  buffer() = default;
  buffer(dtype type, std::size_t size)
      : type_(type), size_(size), bytes_(new (std::align_val_t{64}) std::byte[size * size_of(type) + 64]) {
    std::memset(bytes_.get(), 0x5a, size * size_of(type));  // what a kernel forgets to write is no zero
  }
  buffer(buffer const& other) : buffer(other.type_, other.size_) {
    if (size_ > 0) std::memcpy(bytes_.get(), other.bytes_.get(), size_ * size_of(type_));
  }
  buffer(buffer&&) = default;
  buffer& operator=(buffer other) {
    type_ = other.type_, size_ = other.size_, bytes_ = std::move(other.bytes_);
    return *this;
  }
  template <class T> buffer(dtype type, std::vector<T> const& values) : buffer(type, values.size()) {
    for (std::size_t i = 0; i < values.size(); ++i) set(i, static_cast<double>(values[i]));
  }
  dtype type() const { return type_; }
  std::size_t size() const { return size_; }
  void* data() { return bytes_.get(); }
  void const* data() const { return bytes_.get(); }
  double get(std::size_t i) const {
    switch (type_) {
      case f64: return reinterpret_cast<double const*>(bytes_.get())[i];
      case i32: return reinterpret_cast<std::int32_t const*>(bytes_.get())[i];
      case bf16: return float{reinterpret_cast<bfloat16 const*>(bytes_.get())[i]};
      case f16: return float{reinterpret_cast<float16 const*>(bytes_.get())[i]};
      default: return static_cast<double>(reinterpret_cast<float const*>(bytes_.get())[i]);
    }
  }
  void set(std::size_t i, double value) {
    switch (type_) {
      case f64: reinterpret_cast<double*>(bytes_.get())[i] = value; break;
      case i32: reinterpret_cast<std::int32_t*>(bytes_.get())[i] = static_cast<std::int32_t>(value); break;
      case bf16: reinterpret_cast<bfloat16*>(bytes_.get())[i] = bfloat16(static_cast<float>(value)); break;
      case f16: reinterpret_cast<float16*>(bytes_.get())[i] = float16(static_cast<float>(value)); break;
      default: reinterpret_cast<float*>(bytes_.get())[i] = static_cast<float>(value); break;
    }
  }
  void fill(double value) {
    for (std::size_t i = 0; i < size_; ++i) set(i, value);
  }
  std::vector<double> values() const {
    std::vector<double> all(size_);
    for (std::size_t i = 0; i < size_; ++i) all[i] = get(i);
    return all;
  }
};

}  // namespace partita::testing
