// Divides a class of segments in two, by what keeps ways through a stage from being as good as a bound. The class that is new
// stands last.
#pragma once
#include <cmath>
#include <optional>

#include <partita/search/mixing.hpp>
#include <partita/search/segment_class.hpp>

namespace partita::spaces {

// A way through a stage, and the class of each of its segments.
struct classed_way {
  double worth = 0, memory = 0, counted = 0;  // counted: of memory and what is kept while segments run again
  std::vector<std::size_t> classes;
  stage_mixing::way way;
};

class class_division {
 public:
  using divided = std::optional<std::size_t>;  // the class that was; none: nothing tells its segments apart

  // `limit`: bytes of the stage.
  class_division(std::vector<segment_class>& classes, double limit) : classes_(classes), limit_(limit) {}

  // The class and the variable that tell two ways apart, one that does not fit and one that does: where the most memory differs.
  divided between(classed_way const& above, classed_way const& below) {
    std::size_t of = classes_.size();
    int variable = 0;
    double most = -1;
    for (std::size_t x = 0; x < classes_.size(); ++x)
      for (int v = 0; v < classes_[x].costs().variables(); ++v) {
        std::map<int, int> more;
        double memory = 0;
        each_option(above, below, x, [&](std::vector<int> const& options, int sign) {
          more[options[static_cast<std::size_t>(v)]] += sign;
          memory += sign * classes_[x].memory_of(options, v);
        });
        const bool differs = std::any_of(more.begin(), more.end(), [](auto const& m) { return m.second != 0; });
        if (!differs || std::abs(memory) <= most) continue;
        most = std::abs(memory);
        of = x;
        variable = v;
      }
    if (of == classes_.size()) return std::nullopt;
    const std::vector<char> lean = lean_options(above, below, of, variable);
    return by_options(of, variable, lean);
  }
  // A way that would fit but for what is there while one of its segments runs: segments of its class are told apart by whether
  // all of it leaves room for the rest. Those where it need not also count with more.
  divided by_running(classed_way const& x) {
    const double allowed = limit_ - x.memory;
    std::size_t of = classes_.size();
    double most = allowed;
    for (std::size_t q = 0; q < x.way.size(); ++q) {
      segment_class const& c = classes_[x.classes[q]];
      if (const double bytes = cost_of(c.costs(), x.way[q]->chosen.options.data()).transient; bytes > most) {
        most = bytes;
        of = x.classes[q];
      }
    }
    if (of == classes_.size()) return by_kept(x);
    return by_transient(of, allowed);
  }

 private:
  divided by_options(std::size_t of, int variable, std::vector<char> const& options) {
    classes_.push_back(classes_[of]);
    classes_[of].leave_out(variable, options, true);
    classes_.back().leave_out(variable, options, false);
    return of;
  }
  divided by_transient(std::size_t of, double allowed) {
    classes_.push_back(classes_[of]);
    const double next = classes_[of].leave_out_above(allowed);
    if (next == infinite) {
      classes_.pop_back();
      return std::nullopt;
    }
    classes_.back().raise_transient(next);
    return of;
  }
  // Or but for what it keeps while it runs again, and one op needs: by what could be the most less.
  divided by_kept(classed_way const& x) {
    std::size_t largest = 0;
    for (std::size_t q = 0; q < x.way.size(); ++q)
      if (x.way[q]->cost.replay > x.way[largest]->cost.replay) largest = q;
    const std::size_t of = x.classes[largest];
    segment_class const& c = classes_[of];
    if (!c.replays()) return std::nullopt;
    std::vector<int> const& options = x.way[largest]->chosen.options;
    const double transient = cost_of(c.costs(), options.data()).transient;
    double most = transient - c.transient();
    std::vector<char> others;
    int variable = -1;
    for (int v = 0; v < c.costs().variables(); ++v) {
      const int chosen = options[static_cast<std::size_t>(v)];
      const double own = c.least_kept(v, chosen);
      std::vector<char> less, different;
      double least = infinite;
      for (int o = 0; o < c.costs().options[static_cast<std::size_t>(v)]; ++o) {
        const double other = c.least_kept(v, o);
        less.push_back(other < own);
        different.push_back(other < infinite && o != chosen);
        least = std::min(least, other);
      }
      if (c.kept_of(options, v) - least <= most || !std::count(different.begin(), different.end(), true)) continue;
      most = c.kept_of(options, v) - least;
      variable = v;
      others = std::count(less.begin(), less.end(), true) ? std::move(less) : std::move(different);
    }
    if (variable >= 0) return by_options(of, variable, others);
    return most > 0 ? by_transient(of, transient * (1 - 1e-12)) : std::nullopt;
  }
  // Options of the segments of a class in the way that does not fit (1) and in the one that does (-1).
  template <class Visit>
  static void each_option(classed_way const& above, classed_way const& below, std::size_t of, Visit&& visit) {
    for (std::size_t q = 0; q < above.way.size(); ++q) {
      if (above.classes[q] == of) visit(above.way[q]->chosen.options, 1);
      if (below.classes[q] == of) visit(below.way[q]->chosen.options, -1);
    }
  }
  // Options that need little memory, between what the two ways choose; or one that they choose not equally often.
  std::vector<char> lean_options(classed_way const& fast, classed_way const& lean_one, std::size_t of, int variable) const {
    segment_class const& x = classes_[of];
    table const& t = x.costs();
    std::vector<double> least;
    std::map<int, int> more;
    for (int o = 0; o < t.options[static_cast<std::size_t>(variable)]; ++o) least.push_back(x.least_memory(variable, o));
    double above = -infinite, below = infinite;
    each_option(fast, lean_one, of, [&](std::vector<int> const& options, int sign) {
      const int o = options[static_cast<std::size_t>(variable)];
      more[o] += sign;
      if (sign > 0) above = std::max(above, least[static_cast<std::size_t>(o)]);
      else below = std::min(below, least[static_cast<std::size_t>(o)]);
    });
    std::vector<char> lean(least.size(), false);
    if (below < above) {
      for (std::size_t o = 0; o < lean.size(); ++o) lean[o] = least[o] < (above + below) / 2;
      int differs = 0;
      for (auto const& [o, times] : more)
        if (lean[static_cast<std::size_t>(o)]) differs += times;
      if (differs != 0) return lean;
      lean.assign(lean.size(), false);
    }
    for (auto const& [o, times] : more)
      if (times != 0) {
        lean[static_cast<std::size_t>(o)] = true;
        break;
      }
    return lean;
  }

  std::vector<segment_class>& classes_;
  double limit_;
};

}  // namespace partita::spaces
