// Instances that wait for a lane of the same devices, in the order in which they may have it.
#pragma once
#include <cstdint>

#include <partita/core/list.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail {

struct candidate {
  std::int64_t ready;
  int priority, index, kind, vertex;
};
struct after {  // one type for both heaps of a queue: a heap is compiled once
  bool by_rank;
  bool operator()(candidate const& a, candidate const& b) const {
    if (!by_rank && a.ready != b.ready) return a.ready > b.ready;
    if (a.priority != b.priority) return a.priority < b.priority;
    if (a.index != b.index) return a.index > b.index;
    if (a.kind != b.kind) return a.kind > b.kind;
    return a.vertex > b.vertex;
  }
};
class heap {  // on top stands what comes after none
 public:
  explicit heap(bool by_rank) : after_{by_rank} {}
  bool empty() const { return all_.empty(); }
  candidate const& top() const { return all_.front(); }
  void push(candidate x) {
    all_.push_back(x);
    std::size_t at = all_.size() - 1;
    for (; at > 0 && after_(all_[(at - 1) / 2], x); at = (at - 1) / 2) all_[at] = all_[(at - 1) / 2];
    all_[at] = x;
  }
  void pop() {
    all_.front() = all_.back();
    all_.pop_back();
    if (!all_.empty()) sink(0);
  }
  // Those that `wanted` holds for, taken out.
  template <class F> void take(list<candidate>& to, F wanted) {
    const std::size_t before = to.size();
    for (candidate const& x : all_)
      if (wanted(x)) to.push_back(x);
    if (to.size() == before) return;
    all_.erase_if(wanted);
    for (std::size_t at = all_.size() / 2; at-- > 0;) sink(at);
  }

 private:
  void sink(std::size_t at) {
    const candidate x = all_[at];
    for (std::size_t below; (below = 2 * at + 1) < all_.size(); at = below) {
      if (below + 1 < all_.size() && after_(all_[below], all_[below + 1])) ++below;
      if (!after_(x, all_[below])) break;
      all_[at] = all_[below];
    }
    all_[at] = x;
  }

  list<candidate> all_;
  after after_;
};
struct ready_queue {  // of the same device classes and lane
  list<int> classes;
  int lane;
  heap pending{false}, available{true};

  bool empty() const { return pending.empty() && available.empty(); }
  // The one that is next once `make_available` has been called.
  candidate const& next() const { return (available.empty() ? pending : available).top(); }
  void make_available(std::int64_t until) {
    while (!pending.empty() && pending.top().ready <= until) {
      available.push(pending.top());
      pending.pop();
    }
  }
};

}  // namespace partita::detail

#include <partita/core/end_planning_code.hpp>
