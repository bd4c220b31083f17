// Tensors of the world outside: what a step is given, and whole tensors read back.
#pragma once
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include <partita/core/dtype.hpp>

namespace partita {

// An input of a step, by name: the whole tensor, row-major. It refers to the caller's memory. Floats are also taken for
// an input in bf16 or f16, and rounded.
struct feed {
  std::string_view name;
  void const* data = nullptr;
  std::size_t count = 0;
  dtype type = f32;
  feed(std::string_view n, void const* elements, std::size_t size, dtype t) : name(n), data(elements), count(size), type(t) {}
  template <class Range> feed(std::string_view n, Range const& r) : name(n), data(std::data(r)), count(std::size(r)) {
    using element = std::remove_cvref_t<decltype(*std::data(r))>;
    static_assert(std::is_same_v<element, float> || std::is_same_v<element, double> || std::is_same_v<element, std::int32_t> ||
                      std::is_same_v<element, bfloat16> || std::is_same_v<element, float16>,
                  "an input is a range of float, double, std::int32_t, pt::bfloat16 or pt::float16");
    type = std::is_same_v<element, double>     ? f64
           : std::is_same_v<element, float>    ? f32
           : std::is_same_v<element, bfloat16> ? bf16
           : std::is_same_v<element, float16>  ? f16
                                               : i32;
  }
};

// A whole tensor, gathered: row-major, in its own dtype.
struct host_tensor {
  std::string name;
  dtype type = f32;
  std::vector<std::size_t> extents;
  std::vector<std::byte> bytes;
  std::size_t size() const { return bytes.size() / size_of(type); }
  double operator[](std::size_t i) const {
    switch (type) {
      case f32: return reinterpret_cast<float const*>(bytes.data())[i];
      case f64: return reinterpret_cast<double const*>(bytes.data())[i];
      case bf16: return float{reinterpret_cast<bfloat16 const*>(bytes.data())[i]};
      case f16: return float{reinterpret_cast<float16 const*>(bytes.data())[i]};
      case i32: return reinterpret_cast<std::int32_t const*>(bytes.data())[i];
    }
    return 0;
  }
  template <class T> T const* as() const { return reinterpret_cast<T const*>(bytes.data()); }
};

}  // namespace partita
