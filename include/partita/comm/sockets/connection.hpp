// A connection between two processes: whole messages over TCP.
#pragma once
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <utility>

#include <partita/core/words.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail::sockets {

class connection {
 public:
  connection() = default;
  explicit connection(int descriptor) : descriptor_(descriptor) {
    const int on = 1;
    setsockopt(descriptor_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(descriptor_, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
    // A machine that is there no more says nothing: it is asked after 10 s of silence, and given up after 20 s more.
    for (auto const& [option, value] : {std::pair{TCP_KEEPIDLE, 10}, std::pair{TCP_KEEPINTVL, 5}, std::pair{TCP_KEEPCNT, 4}})
      setsockopt(descriptor_, IPPROTO_TCP, option, &value, sizeof value);
  }
  connection(connection&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  connection& operator=(connection&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~connection() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int descriptor() const { return descriptor_; }
  bool is_open() const { return descriptor_ >= 0; }
  // How long a send, a receive or an accept waits; zero: as long as it takes. A connection that was accepted inherits
  // what its listener had.
  void wait_at_most(std::chrono::milliseconds time) const {
    const timeval wait{time.count() / 1000, time.count() % 1000 * 1000};
    setsockopt(descriptor_, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
    setsockopt(descriptor_, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
  }
  // How long a send waits; the other side may have stopped taking what it is sent.
  void send_at_most(std::chrono::seconds time) const {
    const timeval wait{time.count(), 0};
    setsockopt(descriptor_, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
  }
  // The other side is told that nothing more comes; what was sent before arrives.
  void end_sending() const {
    if (descriptor_ >= 0) ::shutdown(descriptor_, SHUT_WR);
  }
  // Who sends or receives, on any thread, is told that the other side has gone.
  void shut() const {
    if (descriptor_ >= 0) ::shutdown(descriptor_, SHUT_RDWR);
  }

  // False when the other side has gone.
  bool send(void const* data, std::size_t bytes) const { return send(data, bytes, {}, always); }
  bool receive(void* data, std::size_t bytes) const { return receive(data, bytes, {}, always); }
  // The same, and when nothing has moved for `patience` (zero: as long as it takes) is_there() is asked; false too where it is.
  template <class F> bool send(void const* data, std::size_t bytes, std::chrono::milliseconds patience, F is_there) const {
    for (auto* at = static_cast<char const*>(data); bytes > 0;) {
      if (!moves(POLLOUT, patience, is_there)) return false;
      const ssize_t sent = ::send(descriptor_, at, bytes, MSG_NOSIGNAL | (patience.count() > 0 ? MSG_DONTWAIT : 0));
      if (sent < 0 && (errno == EINTR || (patience.count() > 0 && errno == EAGAIN))) continue;
      if (sent <= 0) return false;
      at += sent;
      bytes -= static_cast<std::size_t>(sent);
    }
    return true;
  }
  template <class F> bool receive(void* data, std::size_t bytes, std::chrono::milliseconds patience, F is_there) const {
    for (auto* at = static_cast<char*>(data); bytes > 0;) {
      if (!moves(POLLIN, patience, is_there)) return false;
      const ssize_t got = ::recv(descriptor_, at, bytes, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      at += got;
      bytes -= static_cast<std::size_t>(got);
    }
    return true;
  }

 private:
  static bool always() { return true; }
  template <class F> bool moves(short how, std::chrono::milliseconds patience, F is_there) const {
    if (patience.count() == 0) return true;
    pollfd look{descriptor_, how, 0};
    auto end = std::chrono::steady_clock::now() + patience;
    for (int found = 0; found == 0;) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
      found = ::poll(&look, 1, static_cast<int>(std::max<decltype(left)>(left, 0)));
      if (found < 0 && errno == EINTR) found = 0;  // a signal gives nobody more time
      else if (found == 0) {
        if (!is_there()) return false;
        end = std::chrono::steady_clock::now() + patience;
      }
    }
    return true;
  }

  int descriptor_ = -1;
};

// What a process says first on each of its two connections to process 0, which answers with its own when all have
// come.
struct greeting {
  std::uint64_t magic = 0x7061727469746132;  // "partita2"
  std::int32_t rank = 0, size = 0, news = 0;
};

// What news begin with; a goodbye has no more.
struct letter {
  enum class kind : std::int32_t { goodbye, failure, question, answer };
  std::uint32_t bytes = 0;  // of the text that follows
  kind what = kind::goodbye;
  std::int32_t from = -1, to = -1;      // of a question and its answer; to -1: all
  std::int32_t number = 0, which = -1;  // the asker's number of its question; the answer that it wants
};

using clock = std::chrono::steady_clock;

// Never zero, which would mean without an end.
inline std::chrono::milliseconds left_until(clock::time_point end) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - clock::now());
  return std::max(left, std::chrono::milliseconds(1));
}
// Waits for a connection; one that is not open when none has come by `end`.
inline connection accept(connection const& listener, clock::time_point end) {
  while (true) {
    listener.wait_at_most(left_until(end));
    const int made = ::accept(listener.descriptor(), nullptr, nullptr);
    if (made >= 0) return connection(made);
    // A signal, or somebody who left before being taken in, is not the end of waiting.
    if ((errno != EINTR && errno != ECONNABORTED) || clock::now() >= end) return {};
  }
}
// At every address of this machine, of IPv6 where it has any.
inline connection listen(int port, int others) {
  const int on = 1, off = 0;
  int why = 0;
  for (int family : {AF_INET6, AF_INET}) {
    const int descriptor = ::socket(family, SOCK_STREAM, 0);
    if (descriptor < 0) {
      why = errno;
      continue;
    }
    connection made(descriptor);
    setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (family == AF_INET6) setsockopt(descriptor, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    sockaddr_in6 of_6{};
    of_6.sin6_family = AF_INET6;
    of_6.sin6_port = htons(static_cast<std::uint16_t>(port));  // the address is all zeros: any
    sockaddr_in of_4{};
    of_4.sin_family = AF_INET;
    of_4.sin_port = of_6.sin6_port;
    auto const* const at =
        family == AF_INET6 ? reinterpret_cast<sockaddr const*>(&of_6) : reinterpret_cast<sockaddr const*>(&of_4);
    if (::bind(descriptor, at, family == AF_INET6 ? sizeof of_6 : sizeof of_4) == 0 && ::listen(descriptor, 2 * others + 8) == 0)
      return made;
    why = errno;
    if (why == EADDRINUSE || why == EACCES) break;
  }
  throw_error({"process 0 cannot listen at port ", port, ": ", std::strerror(why), "; give another one in PARTITA_PORT"});
}
inline constexpr std::chrono::seconds most_of_one_address{2};
// Tries until it is let in; one that is not open when it was not by `end`.
inline connection connect(std::string const& host, int port, clock::time_point end) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0 || found == nullptr)
    throw_error({"MASTER_ADDR \"", host, "\" is the name of no machine"});
  connection made;
  for (addrinfo const* at = found; !made.is_open();) {
    connection tried(::socket(at->ai_family, SOCK_STREAM, 0));
    // One address that does not answer leaves time for the others.
    const auto left = left_until(end);
    tried.wait_at_most(found->ai_next == nullptr ? left : std::min<std::chrono::milliseconds>(left, most_of_one_address));
    if (::connect(tried.descriptor(), at->ai_addr, at->ai_addrlen) == 0) made = std::move(tried);
    if (!made.is_open() && clock::now() > end) break;
    at = at->ai_next;
    if (at == nullptr && !made.is_open()) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (at == nullptr) at = found;
  }
  freeaddrinfo(found);
  return made;
}

}  // namespace partita::detail::sockets

#include <partita/core/end_planning_code.hpp>
