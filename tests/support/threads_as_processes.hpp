// Processes that are threads of one, for tests of programs that run in several.
#pragma once
#include <algorithm>
#include <condition_variable>
#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <partita/comm/communicator.hpp>
#include <partita/comm/processes.hpp>

namespace partita::testing {

class thread_processes {
 public:
  explicit thread_processes(int count) : size_(count) {}

  // f(together, number) in each of them; what each has thrown.
  template <class F> static std::vector<std::string> run(int count, F f) {
    thread_processes all(count);
    std::vector<std::string> thrown(static_cast<std::size_t>(count));
    auto process = [&](int me) {
      auto together = std::make_shared<one>(all, me);
      try {
        f(together, me);
      } catch (std::exception const& e) {
        thrown[static_cast<std::size_t>(me)] = e.what();
        together->abort(e.what());
      }
    };
    std::vector<std::thread> others;
    for (int me = 1; me < count; ++me) others.emplace_back(process, me);
    process(0);
    for (std::thread& each : others) each.join();
    return thrown;
  }

 private:
  using answerer = std::function<std::string(std::string const&)>;
  struct one final : processes {
    thread_processes* all;
    int me;
    std::vector<answerer> answers;
    one(thread_processes& of, int number) : all(&of), me(number) {
      const std::scoped_lock lock(all->mutex_);
      all->living_.push_back(this);
    }
    ~one() override { all->forget(me); }
    int rank() const override { return me; }
    int size() const override { return all->size_; }
    void all_gather(void const* mine, void* whole, std::span<std::size_t const> bytes, std::string_view) override {
      all->gather(me, mine, whole, bytes);
    }
    void abort(std::string reason) override { all->abort(me, std::move(reason)); }
    void on_abort(std::function<void(std::string const&)> then) override { all->hear(me, std::move(then)); }
    int on_question(answerer answer) override {
      const std::scoped_lock lock(all->mutex_);
      answers.push_back(std::move(answer));
      return static_cast<int>(answers.size()) - 1;
    }
    list<std::optional<std::string>> ask(int which, std::string const& question, list<int> const& whom, double) override {
      return all->ask(me, static_cast<std::size_t>(which), question, whom);
    }
  };

  void gather(int me, void const* mine, void* whole, std::span<std::size_t const> bytes) {
    std::unique_lock lock(mutex_);
    const std::size_t before = std::accumulate(bytes.begin(), bytes.begin() + me, std::size_t{0});
    buffer_.resize(std::max(buffer_.size(), std::accumulate(bytes.begin(), bytes.end(), std::size_t{0})));
    if (bytes[static_cast<std::size_t>(me)] > 0) std::memcpy(buffer_.data() + before, mine, bytes[static_cast<std::size_t>(me)]);
    meet(lock);
    const std::size_t total = std::accumulate(bytes.begin(), bytes.end(), std::size_t{0});
    if (total > 0) std::memcpy(whole, buffer_.data(), total);
    meet(lock);
  }
  void meet(std::unique_lock<std::mutex>& lock) {
    const std::size_t mine = meetings_;
    if (++came_ == size_) {
      came_ = 0;
      ++meetings_;
      changed_.notify_all();
    }
    changed_.wait(lock, [&] { return meetings_ != mine || !reason_.empty(); });
    if (meetings_ == mine) throw aborted(reason_);
  }
  void abort(int me, std::string reason) {
    const std::scoped_lock lock(mutex_);
    if (!reason_.empty()) return;
    reason_ = words({"process ", me, " failed first: ", reason});
    for (auto const& [number, then] : listeners_)
      if (number != me) then(reason_);
    changed_.notify_all();
  }
  void hear(int me, std::function<void(std::string const&)> then) {
    const std::scoped_lock lock(mutex_);
    listeners_.emplace_back(me, std::move(then));
  }
  void forget(int me) {
    const std::scoped_lock lock(mutex_);
    std::erase_if(listeners_, [&](auto const& each) { return each.first == me; });
    std::erase_if(living_, [&](one const* each) { return each->me == me; });
  }
  list<std::optional<std::string>> ask(int me, std::size_t which, std::string const& question, list<int> const& whom) {
    const std::scoped_lock lock(mutex_);
    list<std::optional<std::string>> all(static_cast<std::size_t>(size_));
    for (one const* each : living_)
      if (each->me != me && which < each->answers.size() && std::find(whom.begin(), whom.end(), each->me) != whom.end())
        all[static_cast<std::size_t>(each->me)] = each->answers[which](question);
    return all;
  }

  int size_, came_ = 0;
  std::size_t meetings_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::byte> buffer_;
  std::string reason_;
  std::vector<std::pair<int, std::function<void(std::string const&)>>> listeners_;
  std::vector<one const*> living_;
};

}  // namespace partita::testing
