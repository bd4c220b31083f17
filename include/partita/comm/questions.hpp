// The questions of one process to others, whatever carries them: what it waits for, and what it answers itself.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <partita/core/list.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail::comm {

class questions {
 public:
  using answerer = std::function<std::string(std::string const&)>;
  using answers = list<std::optional<std::string>>;  // by process

  // From now on the next question is answered by this.
  int answer_by(answerer a) {
    const std::scoped_lock lock(mutex_);
    answerers_.push_back(std::move(a));
    return static_cast<int>(answerers_.size()) - 1;
  }
  // What this process answers; empty where it has no answer to give, as one that is late.
  std::string answer(std::int32_t which, std::string const& question) const {
    answerer by;
    {
      const std::scoped_lock lock(mutex_);
      if (which >= 0 && static_cast<std::size_t>(which) < answerers_.size()) by = answerers_[static_cast<std::size_t>(which)];
    }
    return by ? by(question) : std::string();
  }

  // A new question, to `count` of so many processes; returns its number.
  std::int32_t begin(int size, int count) {
    const std::scoped_lock lock(mutex_);
    open_[++last_] = {answers(static_cast<std::size_t>(size)), count};
    return last_;
  }
  void hear(std::int32_t number, int from, std::string what) {
    {
      const std::scoped_lock lock(mutex_);
      const auto found = open_.find(number);
      if (found == open_.end()) return;  // too late
      auto& [all, left] = found->second;
      if (from < 0 || static_cast<std::size_t>(from) >= all.size() || all[static_cast<std::size_t>(from)]) return;
      all[static_cast<std::size_t>(from)] = std::move(what);
      --left;
    }
    changed_.notify_all();
  }
  // Whether there is nothing more to wait for.
  bool wait(std::int32_t number, std::chrono::nanoseconds most) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, most, [&] { return closed_ || open_.at(number).second == 0; });
  }
  answers end(std::int32_t number) {
    const std::scoped_lock lock(mutex_);
    answers all = std::move(open_.at(number).first);
    open_.erase(number);
    return all;
  }
  // Nobody waits any more.
  void close() {
    {
      const std::scoped_lock lock(mutex_);
      closed_ = true;
    }
    changed_.notify_all();
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<answerer> answerers_;
  std::map<std::int32_t, std::pair<answers, int>> open_;  // with how many are left
  std::int32_t last_ = 0;
  bool closed_ = false;
};

}  // namespace partita::detail::comm

#include <partita/core/end_planning_code.hpp>
