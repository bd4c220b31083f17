// A growing array for constant evaluation, which is metered: std::vector's push_back costs clang some 40 steps, this 3.
// At run time elements whose bytes may be copied lie in memory that is got by functions compiled once for all types.
#pragma once
#include <cstddef>
#include <cstring>
#include <new>
#include <type_traits>

namespace partita {

namespace detail {
// Memory of `wanted` bytes that begins with the `used` ones at `old`, which goes.
[[gnu::noinline]] inline void* larger_memory(void* old, std::size_t used, std::size_t wanted) {
  void* const more = ::operator new[](wanted);
  if (used > 0) std::memcpy(more, old, used);
  ::operator delete[](old);
  return more;
}
// The same with one more element, which may stand in the old memory.
[[gnu::noinline, gnu::cold]] inline void* larger_memory_with(void const* element, std::size_t bytes, void* old, int size,
                                                             int& room) {
  room = room == 0 ? 16 : 4 * room;
  const std::size_t used = static_cast<std::size_t>(size) * bytes;
  void* const more = ::operator new[](static_cast<std::size_t>(room) * bytes);
  if (used > 0) std::memcpy(more, old, used);
  std::memcpy(static_cast<std::byte*>(more) + used, element, bytes);
  ::operator delete[](old);
  return more;
}
}  // namespace detail

template <class T> struct growing {
  T* at = nullptr;
  int size = 0, room = 0;
  constexpr growing() = default;
  constexpr growing(growing&& other) noexcept : at(other.at), size(other.size), room(other.room) {
    other.at = nullptr;
    other.size = other.room = 0;
  }
  constexpr growing(growing const& other) {
    reserve(other.size);
    for (int i = 0; i < other.size; ++i) at[i] = other.at[i];
    size = other.size;
  }
  constexpr growing& operator=(growing other) noexcept {
    T* const mine = at;
    const int my_size = size, my_room = room;
    at = other.at, size = other.size, room = other.room;
    other.at = mine, other.size = my_size, other.room = my_room;
    return *this;
  }
  constexpr ~growing() {
    // Asked first: clang 14 takes a destructor that only asks whether it is evaluated for one that need not be called.
    if (at == nullptr) return;
    if (lies_in_bytes()) ::operator delete[](at);
    else delete[] at;
  }

  constexpr void push(T const& value) {
    if (size == room) push_into_more(value);
    else at[size++] = value;
  }
  constexpr void reserve(int wanted) {
    if (wanted <= room) return;
    if (lies_in_bytes()) {
      at = static_cast<T*>(
          detail::larger_memory(at, static_cast<std::size_t>(size) * sizeof(T), static_cast<std::size_t>(wanted) * sizeof(T)));
      room = wanted;
      return;
    }
    T* more = nullptr;
    if constexpr (std::is_scalar_v<T>) more = new T[static_cast<std::size_t>(wanted)];  // `{}` would be a metered loop
    else more = new T[static_cast<std::size_t>(wanted)]{};
    for (int i = 0; i < size; ++i) more[i] = static_cast<T&&>(at[i]);
    delete[] at;
    at = more;
    room = wanted;
  }
  constexpr void resize(int wanted) {
    reserve(wanted);
    if (std::is_scalar_v<T> || lies_in_bytes())
      for (int i = size; i < wanted; ++i) at[i] = T{};
    size = wanted;
  }
  constexpr void append(int n, T value) {  // push, `n` times: a call of it costs constant evaluation more than the rest
    if (size + n > room) reserve(size + n > 4 * room ? size + n : 4 * room);
    for (int i = size; i < size + n; ++i) at[i] = value;
    size += n;
  }
  constexpr T& operator[](int i) { return at[i]; }
  constexpr T const& operator[](int i) const { return at[i]; }
  constexpr T& back() { return at[size - 1]; }
  constexpr T* begin() { return at; }
  constexpr T* end() { return at + size; }
  constexpr T const* begin() const { return at; }
  constexpr T const* end() const { return at + size; }

 private:
  static constexpr bool lies_in_bytes() {
    return std::is_trivially_copyable_v<T> && alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__ && !std::is_constant_evaluated();
  }

  [[gnu::noinline, gnu::cold]] constexpr void push_into_more(T const& value) {  // once, not in every place that pushes
    if (lies_in_bytes()) {
      at = static_cast<T*>(detail::larger_memory_with(&value, sizeof(T), at, size, room));
      ++size;
      return;
    }
    const T kept = value;  // it may stand in this array
    reserve(room == 0 ? 16 : 4 * room);
    at[size++] = kept;
  }
};

}  // namespace partita
