// Processes that find each other at a meeting place. Over TCP they tell each other what `processes` says, little and seldom;
// tensors go by NCCL.
#pragma once
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <partita/comm/communicator.hpp>
#include <partita/comm/processes.hpp>
#include <partita/comm/questions.hpp>
#include <partita/comm/sockets/connection.hpp>
#include <partita/comm/sockets/meeting_place.hpp>
#include <partita/core/hash.hpp>
#include <partita/core/words.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

// Process 0 collects and distributes. Each other process has two connections to it: for data, and to be told that one
// has failed or gone, for which every process has a thread that sleeps.
class socket_processes final : public processes {
 public:
  // Returns when all have come; throws error that says which have not.
  explicit socket_processes(meeting_place const& at)
      : rank_(at.rank),
        size_(at.size),
        silence_(static_cast<long>(at.silence_seconds * 1000)),
        peers_(static_cast<std::size_t>(std::max(at.size, 0))),
        exceptions_before_(std::uncaught_exceptions()) {
    if (at.size < 1 || at.rank < 0 || at.rank >= at.size) throw_error({"process ", at.rank, " of ", at.size, " cannot be"});
    if (size_ == 1) return;
    if (at.port < 1 || at.port > 65535) throw_error({"processes cannot meet at port ", at.port, ": give one from 1 to 65535"});
    if (!(at.silence_seconds >= 0.002)) throw_error({"processes cannot be silent for ", at.silence_seconds, " s: give more"});
    if (!(at.timeout_seconds > 0)) throw_error({"processes cannot meet within ", at.timeout_seconds, " s: give a time above 0"});
    const auto end = detail::sockets::clock::now() + std::chrono::milliseconds(static_cast<long>(at.timeout_seconds * 1000));
    if (rank_ == 0) gather_others(at, end);
    else join(at, end);
    for (peer const& each : peers_)
      if (each.news.is_open()) each.news.send_at_most(most_of_news);
    watcher_ = std::thread([this] { watch(); });
  }
  socket_processes(socket_processes const&) = delete;
  socket_processes& operator=(socket_processes const&) = delete;
  // Where an exception takes it away the others are told that this process has failed. Otherwise process 0 stays until all have
  // gone: without it they would not hear of one another, and one that waits for a GPU would wait in vain.
  ~socket_processes() override {
    if (size_ == 1) return;
    if (std::uncaught_exceptions() > exceptions_before_) abort("an exception ended it");
    {
      const std::scoped_lock lock(telling_);
      const bool stays = rank_ == 0 && reason_.empty();
      silent_ = !stays;
      for (peer const& each : peers_) {
        if (each.news.is_open()) tell(each, {});  // goodbye
        each.data.end_sending();                  // who asks for data waits in vain
        if (!stays) each.news.shut();
      }
    }
    if (watcher_.joinable()) watcher_.join();
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void all_gather(void const* mine, void* all, std::span<std::size_t const> bytes, std::string_view what) override {
    auto* const to = static_cast<std::byte*>(all);
    std::vector<std::size_t> begin(bytes.size() + 1, 0);
    for (std::size_t p = 0; p < bytes.size(); ++p) begin[p + 1] = begin[p] + bytes[p];
    throw_if_aborted();
    const auto me = static_cast<std::size_t>(rank_);
    bool good = true;
    std::size_t missing = 0;
    const std::uint64_t purpose = hash(what);
    auto is_there = [&] { return is_heard_of(missing, what); };
    auto send = [&](void const* data, std::size_t n) { return peers_[missing].data.send(data, n, silence_ / 2, is_there); };
    auto receive = [&](void* data, std::size_t n) { return peers_[missing].data.receive(data, n, silence_ / 2, is_there); };
    if (rank_ != 0) {
      good = send(&purpose, sizeof purpose) && send(mine, bytes[me]) && receive(to, begin.back());
    } else {
      if (bytes[0] > 0) std::memcpy(to, mine, bytes[0]);
      for (std::size_t p = 1; p < peers_.size() && good; ++p) {
        std::uint64_t other = 0;
        missing = p;
        good = receive(&other, sizeof other);
        if (good && other != purpose) {
          abort(words({"process ", p, " makes another call than \"", what, "\", which process 0 makes"}));
          throw_if_aborted();
        }
        good = good && receive(to + begin[p], bytes[p]);
      }
      for (std::size_t p = 1; p < peers_.size() && good; ++p) {
        missing = p;
        good = send(to, begin.back());
      }
    }
    if (good) return;
    {
      std::unique_lock lock(mutex_);
      const bool& left = peers_[missing].said_goodbye;
      news_.wait_for(lock, std::chrono::seconds(2), [&] { return aborted_ || left; });  // why may be on its way
    }
    spread(words({"process ", missing, " has ended, and process ", rank_, " waits for it, for ", what,
                  "; every process must make the same calls"}),
           -1);
    throw_if_aborted();
  }
  void abort(std::string reason) override { spread(words({"process ", rank_, " failed first: ", reason}), -1); }

  // At once when one has failed.
  void on_abort(std::function<void(std::string const&)> then) override {
    std::unique_lock lock(mutex_);
    if (aborted_) {
      const std::string reason = reason_;
      lock.unlock();
      return then(reason);
    }
    listeners_.push_back(std::move(then));
  }

  int on_question(std::function<std::string(std::string const&)> answer) override {
    return questions_.answer_by(std::move(answer));
  }
  list<std::optional<std::string>> ask(int which, std::string const& question, list<int> const& whom, double seconds) override {
    const auto others = std::count_if(whom.begin(), whom.end(), [&](int p) { return p != rank_; });
    const std::int32_t number = questions_.begin(size_, static_cast<int>(others));
    for (int p : whom)
      if (p != rank_)
        send_on({.what = letter::kind::question, .from = rank_, .to = p, .number = number, .which = which}, question);
    questions_.wait(number, std::chrono::nanoseconds(static_cast<std::int64_t>(seconds * 1e9)));
    return questions_.end(number);
  }
  int passes_on() const override { return 0; }

 private:
  struct peer {
    detail::sockets::connection data, news;
    bool said_goodbye = false;  // written by the watcher, under mutex_
    bool gone = false;          // the watcher's alone
  };
  using greeting = detail::sockets::greeting;
  using letter = detail::sockets::letter;

  void gather_others(meeting_place const& at, detail::sockets::clock::time_point end) {
    try {
      take_in_others(at, end);
    } catch (error const& e) {  // those who have come are told why they came for nothing
      const std::string why = e.what();
      const greeting refused{.rank = 0, .size = -static_cast<std::int32_t>(why.size())};
      for (peer const& each : peers_)
        if (each.data.is_open() && each.data.send(&refused, sizeof refused)) each.data.send(why.data(), why.size());
      throw;
    }
    const greeting mine{.rank = 0, .size = size_};
    for (std::size_t p = 1; p < peers_.size(); ++p)
      if (!peers_[p].data.send(&mine, sizeof mine)) throw_error({"process ", p, " came and has ended"});
  }
  void take_in_others(meeting_place const& at, detail::sockets::clock::time_point end) {
    const detail::sockets::connection listener = detail::sockets::listen(at.port, size_);
    for (int come = 0; come < 2 * (size_ - 1);) {
      detail::sockets::connection made = detail::sockets::accept(listener, end);
      if (!made.is_open()) throw_missing(at);
      greeting from;
      made.wait_at_most(detail::sockets::left_until(end) / 4 + std::chrono::milliseconds(1));  // others wait behind it
      if (!made.receive(&from, sizeof from) || from.magic != greeting{}.magic) continue;       // a stranger
      made.wait_at_most({});
      if (from.size != size_ || from.rank < 1 || from.rank >= size_)
        throw_error({"process ", from.rank, " of ", from.size, " came to a meeting of ", size_});
      peer& of = peers_[static_cast<std::size_t>(from.rank)];
      detail::sockets::connection& place = from.news != 0 ? of.news : of.data;
      if (place.is_open()) throw_error({"two processes say that their RANK is ", from.rank});
      place = std::move(made);
      ++come;
    }
  }
  [[noreturn]] void throw_missing(meeting_place const& at) const {
    std::string missing;
    for (int r = 1; r < size_; ++r)
      if (!peers_[static_cast<std::size_t>(r)].news.is_open()) missing += words({missing.empty() ? "" : ", ", r});
    throw_error(
        {"of ", size_, " processes these have not come to port ", at.port, " within ", at.timeout_seconds, " s: ", missing});
  }
  void join(meeting_place const& at, detail::sockets::clock::time_point end) {
    for (int news : {0, 1}) {
      detail::sockets::connection made = detail::sockets::connect(at.host, at.port, end);
      const greeting mine{.rank = rank_, .size = size_, .news = news};
      if (!made.is_open() || !made.send(&mine, sizeof mine)) {
        if (news == 0) throw_unreached(at);
        break;  // process 0 may have said on the first one why it takes nobody any more
      }
      (news != 0 ? peers_[0].news : peers_[0].data) = std::move(made);
    }
    detail::sockets::connection const& from_0 = peers_[0].data;
    greeting its;
    from_0.wait_at_most(detail::sockets::left_until(end));
    if (!from_0.receive(&its, sizeof its) || its.magic != greeting{}.magic)
      throw_error({"process ", rank_, " came to process 0 at ", at.host, ":", at.port, ", which has not said within ",
                   at.timeout_seconds, " s that all ", size_, " have come"});
    if (its.size < 0) {
      std::string why(static_cast<std::size_t>(-static_cast<std::int64_t>(its.size)) % 65536, '\0');
      if (!from_0.receive(why.data(), why.size())) why = "it has ended";
      throw_error({"process ", rank_, " came to process 0 for nothing: ", why});
    }
    from_0.wait_at_most({});
    peers_[0].news.wait_at_most({});
  }
  [[noreturn]] void throw_unreached(meeting_place const& at) const {
    throw_error(
        {"process ", rank_, " has not reached process 0 at ", at.host, ":", at.port, " within ", at.timeout_seconds, " s"});
  }

  static constexpr std::uint32_t most_news_bytes = 1u << 20;  // more is none of what processes tell each other
  static constexpr std::chrono::seconds most_of_news{5};
  static bool tell(peer const& to, letter what, std::string const& text = {}) {
    what.bytes = static_cast<std::uint32_t>(std::min<std::size_t>(text.size(), most_news_bytes));
    std::string message(reinterpret_cast<char const*>(&what), sizeof what);
    message.append(text, 0, what.bytes);
    return to.news.send(message.data(), message.size());
  }
  // Whether a process answers; its thread for news does also where it computes for long.
  bool is_heard_of(std::size_t process, std::string_view what) {
    const std::int32_t number = questions_.begin(size_, 1);
    send_on({.what = letter::kind::question, .from = rank_, .to = static_cast<std::int32_t>(process), .number = number}, {});
    questions_.wait(number, silence_);
    if (questions_.end(number)[process]) return true;
    spread(words({"process ", process, " has not answered for ", std::chrono::duration<double>(silence_).count(),
                  " s, and process ", rank_, " waits for it, for ", what}),
           -1);
    return false;
  }
  // A question or an answer, from here or another process, towards those it is for.
  void send_on(letter const& what, std::string const& text) {
    const std::scoped_lock lock(telling_);
    if (silent_) return;
    for (std::size_t p = 0; p < peers_.size(); ++p) {
      const bool is_for = rank_ != 0 || what.to < 0 || static_cast<std::size_t>(what.to) == p;
      if (is_for && peers_[p].news.is_open() && static_cast<std::size_t>(what.from) != p) tell(peers_[p], what, text);
    }
  }
  void watch() {
    std::vector<pollfd> looks;
    std::vector<std::size_t> whose;
    while (true) {
      looks.clear();
      whose.clear();
      for (std::size_t p = 0; p < peers_.size(); ++p)
        if (peers_[p].news.is_open() && !peers_[p].gone) {
          looks.push_back({peers_[p].news.descriptor(), POLLIN, 0});
          whose.push_back(p);
        }
      if (looks.empty()) return;
      if (::poll(looks.data(), looks.size(), -1) < 0) continue;
      for (std::size_t k = 0; k < looks.size(); ++k)
        if (looks[k].revents != 0) hear(whose[k]);
    }
  }
  void hear(std::size_t from) {
    letter what;
    std::string text;
    bool good = peers_[from].news.receive(&what, sizeof what) && what.bytes <= most_news_bytes;
    if (good && what.bytes > 0) {
      text.resize(what.bytes);
      good = peers_[from].news.receive(text.data(), text.size());
    }
    if (!good) {
      peers_[from].gone = true;
      if (!peers_[from].said_goodbye) spread(words({"process ", from, " has ended without a word"}), static_cast<int>(from));
      return;
    }
    switch (what.what) {
      case letter::kind::goodbye:  // it may have news of others still
      {
        const std::scoped_lock lock(mutex_);
        peers_[from].said_goodbye = true;
      }
        return news_.notify_all();
      case letter::kind::failure: return spread(std::move(text), static_cast<int>(from));
      case letter::kind::question:
        if (rank_ == 0) send_on(what, text);
        if (what.to >= 0 && what.to != rank_) return;
        return send_on({.what = letter::kind::answer, .from = rank_, .to = what.from, .number = what.number},
                       questions_.answer(what.which, text));
      case letter::kind::answer:
        if (what.to != rank_) return send_on(what, text);
        return questions_.hear(what.number, what.from, std::move(text));
    }
  }

  // The first reason counts. All others are told it before anything here acts on it: who hears of it here may leave,
  // and a goodbye that came first would be believed.
  void spread(std::string reason, int except) {
    bool first = false;
    {
      const std::scoped_lock lock(telling_);
      if (silent_) return;
      first = reason_.empty();
      if (first) reason_ = std::move(reason);
      for (std::size_t p = 0; p < peers_.size(); ++p)
        if (first && peers_[p].news.is_open() && static_cast<int>(p) != except)
          tell(peers_[p], {.what = letter::kind::failure}, reason_);
    }
    if (!first) {
      std::unique_lock lock(mutex_);
      return news_.wait(lock, [this] { return aborted_; });
    }
    std::vector<std::function<void(std::string const&)>> listeners;
    {
      const std::scoped_lock lock(mutex_);
      aborted_ = true;
      listeners = std::move(listeners_);
    }
    news_.notify_all();
    for (auto const& each : listeners) each(reason_);
    questions_.close();                                // who waited for an answer finds why there is none
    for (peer const& each : peers_) each.data.shut();  // who waits in all_gather waits no more
  }
  void throw_if_aborted() {
    const std::scoped_lock lock(mutex_);
    if (aborted_) throw partita::aborted("all processes stop: " + reason_);
  }

  int rank_, size_;
  std::chrono::milliseconds silence_;
  std::vector<peer> peers_;  // by process; only 0 has all of them, the others have 0
  std::mutex telling_;       // held while others are told why, or goodbye
  std::string reason_;       // written once, under telling_; read after aborted_
  std::mutex mutex_;         // of what follows
  std::condition_variable news_;
  bool aborted_ = false;
  std::vector<std::function<void(std::string const&)>> listeners_;
  detail::comm::questions questions_;
  bool silent_ = false;  // under telling_: nobody is told anything any more
  int exceptions_before_;
  std::thread watcher_;
};

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
