// Runs the programs of all classes against the clock: each lane in its order, what it waits for in the other lane first,
// communication once all who take part are there. Shared links serve one transfer after the other.
#pragma once
#include <algorithm>
#include <cstdint>
#include <queue>
#include <vector>

#include <partita/simulate/simulation.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail::simulating {

// An instruction's price: seconds from when all are there, and who has to be.
struct price {
  int meeting = -1;  // into meetings; -1: needs nobody else
  double seconds = 0;
};
struct link_use {
  int link = 0;
  double seconds = 0;  // how long the transfer keeps it from others
};
// One communication, as seen by the classes that take part in it.
struct meeting {
  int missing = 0;                           // classes that have not come yet
  double ready = 0;                          // when the last one came
  std::vector<std::pair<int, int>> members;  // class, instruction
  std::vector<link_use> uses;
};
// A class's program as far as the clock needs it.
struct runner {
  int rank = 0;
  std::vector<price> prices;   // by instruction
  std::vector<int> waits_for;  // how many of the other lane's have to be done
  std::vector<bool> moves;     // it communicates, whichever lane it runs in
  std::vector<instruction_time> times;
  std::vector<int> lanes[2];  // instructions in order
  std::size_t next[2]{};
  bool waits[2]{};  // for the others of a meeting
};

class event_loop {
 public:
  event_loop(std::vector<runner>& runners, std::vector<meeting>& meetings, int links)
      : runners_(runners), meetings_(meetings), free_(static_cast<std::size_t>(links), 0.0) {}

  // Throws error where classes wait for one another for ever.
  void run() {
    for (std::size_t c = 0; c < runners_.size(); ++c) work_.push_back(static_cast<int>(c));
    for (;;) {
      while (!work_.empty()) {
        const int c = work_.back();
        work_.pop_back();
        advance(c);
      }
      if (pending_.empty()) break;
      const waiting w = pending_.top();
      pending_.pop();
      begin(w.meeting);
    }
    for (runner const& r : runners_)
      for (int l = 0; l < 2; ++l)
        if (r.next[l] < r.lanes[l].size())
          throw_error({"simulation: rank ", r.rank, " waits for ever at instruction ", r.lanes[l][r.next[l]],
                       ": ranks that were taken for alike are not; this is a fault of the library"});
  }

 private:
  struct waiting {
    double ready;
    int meeting;
    bool operator>(waiting const& o) const { return ready != o.ready ? ready > o.ready : meeting > o.meeting; }
  };

  static double end_of_last(runner const& r, int lane) {
    return r.next[lane] == 0 ? 0 : r.times[static_cast<std::size_t>(r.lanes[lane][r.next[lane] - 1])].end;
  }
  void advance(int c) {
    runner& r = runners_[static_cast<std::size_t>(c)];
    for (bool any = true; any;) {
      any = false;
      for (int lane = 0; lane < 2; ++lane)
        while (!r.waits[lane] && r.next[lane] < r.lanes[lane].size()) {
          const int at = r.lanes[lane][r.next[lane]];
          const int other = 1 - lane, wait = r.waits_for[static_cast<std::size_t>(at)];
          double start = end_of_last(r, lane);
          if (wait > 0 && !r.lanes[other].empty()) {
            if (r.next[other] < static_cast<std::size_t>(wait)) break;
            start = std::max(start, r.times[static_cast<std::size_t>(r.lanes[other][static_cast<std::size_t>(wait) - 1])].end);
          }
          price const& p = r.prices[static_cast<std::size_t>(at)];
          instruction_time& t = r.times[static_cast<std::size_t>(at)];
          t.begin = start;
          any = true;
          if (p.meeting < 0) {
            t.at_work = start;
            t.end = start + p.seconds;
            ++r.next[lane];
            continue;
          }
          r.waits[lane] = true;
          meeting& m = meetings_[static_cast<std::size_t>(p.meeting)];
          m.ready = std::max(m.ready, start);
          if (--m.missing == 0) {
            if (m.uses.empty()) begin(p.meeting);
            else pending_.push({m.ready, p.meeting});
          }
        }
    }
  }
  void begin(int id) {
    meeting const& m = meetings_[static_cast<std::size_t>(id)];
    double start = m.ready;
    for (link_use const& u : m.uses) start = std::max(start, free_[static_cast<std::size_t>(u.link)]);
    for (link_use const& u : m.uses) free_[static_cast<std::size_t>(u.link)] = start + u.seconds;
    for (auto const& [c, at] : m.members) {
      runner& r = runners_[static_cast<std::size_t>(c)];
      const std::size_t k = static_cast<std::size_t>(at);
      r.times[k].at_work = start;
      r.times[k].end = start + r.prices[k].seconds;
      const int lane = r.moves[k] && !r.lanes[1].empty() ? 1 : 0;
      ++r.next[lane];
      r.waits[lane] = false;
      work_.push_back(c);
    }
  }

  std::vector<runner>& runners_;
  std::vector<meeting>& meetings_;
  std::vector<double> free_;
  std::vector<int> work_;
  std::priority_queue<waiting, std::vector<waiting>, std::greater<waiting>> pending_;
};

// The parts of a step of `step` seconds. Two passes over two lanes, each in order of time.
inline step_parts parts_of(runner const& r, double step) {
  step_parts s;
  struct span {
    double begin, end;
  };
  std::vector<span> busy, moving;
  busy.reserve(r.lanes[0].size());
  moving.reserve(r.lanes[1].size());
  for (int lane = 0; lane < 2; ++lane)
    for (int at : r.lanes[lane]) {
      const std::size_t k = static_cast<std::size_t>(at);
      const double begin = r.times[k].at_work, end = r.times[k].end;
      if (end > begin) (r.moves[k] ? moving : busy).push_back({begin, end});
    }
  for (span const& x : busy) s.compute += x.end - x.begin;
  std::size_t b = 0;
  for (span const& x : moving) {
    s.communication += x.end - x.begin;
    double hidden = 0;
    while (b < busy.size() && busy[b].end <= x.begin) ++b;
    for (std::size_t k = b; k < busy.size() && busy[k].begin < x.end; ++k)
      hidden += std::min(x.end, busy[k].end) - std::max(x.begin, busy[k].begin);
    s.exposed += x.end - x.begin - hidden;
  }
  s.bubble = step - s.compute - s.exposed;
  return s;
}

}  // namespace partita::detail::simulating

#include <partita/core/end_planning_code.hpp>
