// A growing array for constant evaluation, which is metered: std::vector's push_back costs clang some 40 steps, this 3.
#pragma once
#include <cstddef>
#include <type_traits>

namespace partita {

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
  constexpr ~growing() { delete[] at; }

  constexpr void push(T const& value) {
    if (size == room) push_into_more(value);
    else at[size++] = value;
  }
  constexpr void reserve(int wanted) {
    if (wanted <= room) return;
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
    if constexpr (std::is_scalar_v<T>)
      for (int i = size; i < wanted; ++i) at[i] = T{};
    size = wanted;
  }
  constexpr void append(int n, T value) {  // the same, `n` times: a call of push costs constant evaluation more than the rest
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
  [[gnu::noinline, gnu::cold]] constexpr void push_into_more(T const& value) {  // once, not in every place that pushes
    const T kept = value;  // it may stand in this array
    reserve(room == 0 ? 16 : 4 * room);
    at[size++] = kept;
  }
};

}  // namespace partita
