// Whether those that a wait is for are still there. One that computes for long is, and says so when it is asked; one that was
// stopped, or whose host is gone, says nothing.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <utility>

#include <partita/comm/questions.hpp>
#include <partita/core/list.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail::comm {

// Belongs to one wait. Everything with mpi_state::calls held.
class silence {
 public:
  using seconds = std::chrono::duration<double>;

  // After `patience` it asks, and gives `to_answer` for answers.
  silence(questions& asked, seconds patience, seconds to_answer) : asked_(asked), patience_(patience), to_answer_(to_answer) {}
  silence(silence const&) = delete;
  silence& operator=(silence const&) = delete;
  ~silence() { (void)close(); }

  // To be called again and again while the wait lasts. whom(): the ranks that are waited for, in ascending order; ask(ranks):
  // sends them a question and returns its number. Returns those that were asked, have not answered, and still are waited for.
  template <class Whom, class Ask> list<int> look(Whom whom, Ask ask) {
    // Where this process itself was stopped, the others had no time to answer.
    const auto now = clock::now();
    if (last_ != clock::time_point{}) passed_ += std::min<seconds>(now - last_, std::chrono::milliseconds(100));
    last_ = now;
    if (question_ < 0) {
      if (passed_ < patience_) return {};
      asked_ranks_ = whom();
      question_ = ask(asked_ranks_);
      passed_ = {};
    }
    const bool all_there = asked_.wait(question_, {});
    if (!all_there && passed_ < to_answer_) return {};
    const questions::answers answers = close();
    list<int> silent;
    if (all_there) return silent;
    const list<int> waited_for = whom();
    for (int rank : asked_ranks_)
      if (!answers[static_cast<std::size_t>(rank)] && std::binary_search(waited_for.begin(), waited_for.end(), rank))
        silent.push_back(rank);
    return silent;
  }

 private:
  using clock = std::chrono::steady_clock;
  questions::answers close() {
    passed_ = {};
    return question_ < 0 ? questions::answers() : asked_.end(std::exchange(question_, -1));
  }

  questions& asked_;
  seconds patience_, to_answer_, passed_{};
  clock::time_point last_{};
  list<int> asked_ranks_;
  std::int32_t question_ = -1;
};

}  // namespace partita::detail::comm

#include <partita/core/end_planning_code.hpp>
