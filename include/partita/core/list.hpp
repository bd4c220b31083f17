// A growing array with the interface of std::vector, for what plans, lowers and runs. What does not depend on the type
// of its elements is compiled once, and nothing goes through allocators and iterators: with std::vector every type of
// elements was fifty functions, and all of them together a fifth of what a program with a trainer takes to compile
// (docs/compile-time.md). For constant evaluation there is growing.hpp.
#pragma once
#include <cstddef>
#include <cstring>
#include <initializer_list>
#include <new>
#include <span>
#include <type_traits>

namespace partita {

namespace detail {
// Memory for elements of any type. `move` puts `n` of them where there is more room; null: copying their bytes is enough.
class list_memory {
 public:
  std::size_t size() const { return size_; }
  std::size_t capacity() const { return room_; }
  bool empty() const { return size_ == 0; }

 protected:
  using mover = void (*)(void* from, std::size_t n, void* to);
  list_memory() = default;
  list_memory(list_memory&& other) noexcept { exchange_memory(other); }
  ~list_memory() {
    if (at_ != nullptr) ::operator delete(at_);
  }

  [[gnu::noinline]] void make_room(std::size_t wanted, std::size_t element_bytes, mover move) {
    const std::size_t bytes = wanted * element_bytes;
    void* const more = ::operator new(bytes);
    if (move != nullptr) move(at_, size_, more);
    else if (size_ > 0) std::memcpy(more, at_, size_ * element_bytes);
    ::operator delete(at_);
    at_ = more;
    room_ = wanted;
  }
  std::size_t larger_room() const { return room_ < 2 ? 4 : 2 * room_; }  // so that growing step by step stays linear
  void grow(std::size_t wanted, std::size_t element_bytes, mover move) {
    if (wanted > room_) make_room(wanted > 2 * room_ ? wanted : 2 * room_, element_bytes, move);
  }
  // For elements whose bytes may be copied. What is appended may stand in this list: the old memory goes last.
  [[gnu::noinline]] void append_bytes(void const* from, std::size_t n, std::size_t element_bytes, std::size_t room) {
    void* const old = at_;
    if (size_ + n > room_) {
      const std::size_t bytes = room * element_bytes;
      at_ = ::operator new(bytes);
      room_ = room;
      if (size_ > 0) std::memcpy(at_, old, size_ * element_bytes);
    }
    if (n > 0) std::memcpy(static_cast<std::byte*>(at_) + size_ * element_bytes, from, n * element_bytes);
    size_ += n;
    if (at_ != old) ::operator delete(old);
  }
  [[gnu::noinline, gnu::cold]] void push_bytes(void const* value, std::size_t element_bytes) {
    append_bytes(value, 1, element_bytes, larger_room());
  }
  [[gnu::noinline]] void resize_zeroed(std::size_t wanted, std::size_t element_bytes) {
    grow(wanted, element_bytes, nullptr);
    if (wanted > size_) std::memset(static_cast<std::byte*>(at_) + size_ * element_bytes, 0, (wanted - size_) * element_bytes);
    size_ = wanted;
  }
  // For others: `more`, of `larger_room()` elements, becomes this list's memory.
  [[gnu::noinline, gnu::cold]] void move_into(void* more, mover move) {
    move(at_, size_, more);
    ::operator delete(at_);
    at_ = more;
    room_ = larger_room();
  }
  void exchange_memory(list_memory& other) noexcept {
    void* const mine = at_;
    const std::size_t my_size = size_, my_room = room_;
    at_ = other.at_, size_ = other.size_, room_ = other.room_;
    other.at_ = mine, other.size_ = my_size, other.room_ = my_room;
  }

  void* at_ = nullptr;
  std::size_t size_ = 0, room_ = 0;
};
}  // namespace detail

template <class T> class list : public detail::list_memory {
 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = T const*;

  list() = default;
  explicit list(std::size_t n) : list() { resize(n); }
  list(std::size_t n, T const& value) : list() { resize(n, value); }
  list(std::initializer_list<T> all) : list(all.begin(), all.end()) {}
  explicit list(std::span<T const> all) : list() { append(all); }
  list(T const* first, T const* last) : list() { append({first, last}); }
  list(list const& other) : list() {
    if (!other.empty()) append({other.begin(), other.end()});
  }
  list(list&& other) noexcept = default;
  list& operator=(list other) noexcept {
    this->exchange_memory(other);
    return *this;
  }
  ~list() { clear(); }

  T* data() { return static_cast<T*>(this->at_); }
  T const* data() const { return static_cast<T const*>(this->at_); }
  T* begin() { return data(); }
  T* end() { return data() + this->size_; }
  T const* begin() const { return data(); }
  T const* end() const { return data() + this->size_; }
  T& operator[](std::size_t i) { return data()[i]; }
  T const& operator[](std::size_t i) const { return data()[i]; }
  T& front() { return data()[0]; }
  T const& front() const { return data()[0]; }
  T& back() { return data()[this->size_ - 1]; }
  T const& back() const { return data()[this->size_ - 1]; }

  void reserve(std::size_t wanted) {
    if (wanted > this->room_) this->make_room(wanted, sizeof(T), move_elements());
  }
  void push_back(T const& value) {
    if constexpr (copies_as_bytes) {
      if (this->size_ == this->room_) return this->push_bytes(&value, sizeof(T));
    } else if (this->size_ == this->room_) return push_into_more(T(value));  // a copy: it may stand in this list
    new (end()) T(value);
    ++this->size_;
  }
  void push_back(T&& value) {
    if constexpr (copies_as_bytes) {
      if (this->size_ == this->room_) return this->push_bytes(&value, sizeof(T));
    } else if (this->size_ == this->room_) return push_into_more(static_cast<T&&>(value));
    new (end()) T(static_cast<T&&>(value));
    ++this->size_;
  }
  template <class... Args> T& emplace_back(Args&&... args) {
    push_back(T(static_cast<Args&&>(args)...));
    return back();
  }
  void append(std::span<T const> more) {  // of another list
    if constexpr (copies_as_bytes) {
      const std::size_t wanted = this->size_ + more.size();
      this->append_bytes(more.data(), more.size(), sizeof(T), wanted > 2 * this->room_ ? wanted : 2 * this->room_);
    } else append_each(more);
  }
  T* insert(T const* before, T value) {  // where it stands now
    const auto at = static_cast<std::size_t>(before - begin());
    push_back(value);
    for (std::size_t i = this->size_ - 1; i > at; --i) (*this)[i] = static_cast<T&&>((*this)[i - 1]);
    (*this)[at] = static_cast<T&&>(value);
    return begin() + at;
  }
  T* erase(T const* which) { return erase(which, which + 1); }
  T* erase(T const* first, T const* last) {  // where what stood behind them stands now
    T* const at = begin() + (first - begin());
    if (first == last) return at;  // or each would be moved to itself
    T* to = at;
    for (T* from = begin() + (last - begin()); from != end(); ++from, ++to) *to = static_cast<T&&>(*from);
    while (end() != to) pop_back();
    return at;
  }
  template <class Wanted> void erase_if(Wanted wanted) {
    T* to = begin();
    for (T& each : *this)
      if (!wanted(each)) {
        if (to != &each) *to = static_cast<T&&>(each);
        ++to;
      }
    while (end() != to) pop_back();
  }
  void pop_back() {
    --this->size_;
    end()->~T();
  }
  void resize(std::size_t wanted) {
    if constexpr (std::is_arithmetic_v<T> || std::is_pointer_v<T>) this->resize_zeroed(wanted, sizeof(T));
    else resize_each(wanted);
  }
  void resize(std::size_t wanted, T const& value) {
    while (this->size_ > wanted) pop_back();
    this->grow(wanted, sizeof(T), move_elements());
    for (; this->size_ < wanted; ++this->size_) new (end()) T(value);
  }
  void assign(std::size_t n, T const& value) {
    clear();
    resize(n, value);
  }
  void clear() {
    if constexpr (std::is_trivially_destructible_v<T>) this->size_ = 0;
    else if (this->size_ > 0) destroy_each();
  }

  friend bool operator==(list const& a, list const& b) {
    if (a.size() != b.size()) return false;
    for (std::size_t i = 0; i < a.size(); ++i)
      if (!(a[i] == b[i])) return false;
    return true;
  }
  friend bool operator<(list const& a, list const& b) {  // as words in a dictionary
    for (std::size_t i = 0; i < a.size() && i < b.size(); ++i)
      if (!(a[i] == b[i])) return a[i] < b[i];
    return a.size() < b.size();
  }

 private:
  static constexpr bool copies_as_bytes = std::is_trivially_copyable_v<T>;

  [[gnu::noinline, gnu::cold]] void push_into_more(T&& value) {  // once, not in every place that pushes
    static_assert(std::is_nothrow_move_constructible_v<T>);
    void* const more = ::operator new(this->larger_room() * sizeof(T));
    new (static_cast<T*>(more) + this->size_) T(static_cast<T&&>(value));  // first: it may be one of those that move
    this->move_into(more, move_each);
    ++this->size_;
  }
  [[gnu::noinline]] void resize_each(std::size_t wanted) {
    while (this->size_ > wanted) pop_back();
    this->grow(wanted, sizeof(T), move_elements());
    for (; this->size_ < wanted; ++this->size_) new (end()) T{};
  }
  [[gnu::noinline]] void append_each(std::span<T const> more) {
    this->grow(this->size_ + more.size(), sizeof(T), move_elements());
    for (T const& value : more) {
      new (end()) T(value);
      ++this->size_;
    }
  }
  [[gnu::noinline]] void destroy_each() {
    while (this->size_ > 0) pop_back();
  }
  static void move_each(void* from, std::size_t n, void* to) {
    for (std::size_t i = 0; i < n; ++i) {
      T* const old = static_cast<T*>(from) + i;
      new (static_cast<T*>(to) + i) T(static_cast<T&&>(*old));
      old->~T();
    }
  }
  static constexpr mover move_elements() {
    static_assert(alignof(T) <= __STDCPP_DEFAULT_NEW_ALIGNMENT__);
    if constexpr (copies_as_bytes) return nullptr;
    else return move_each;
  }
};

}  // namespace partita
