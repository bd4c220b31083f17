// Every point of a small space. What the other searchers are compared with, so it shares nothing with them.
#pragma once
#include <cstddef>
#include <utility>

#include <partita/search/problem.hpp>

namespace partita::spaces {

struct outcome {
  choice best;
  double time = infinite, memory = infinite;
  double lower_bound = 0;  // no choice takes less
  long evaluations = 0;    // choices whose time and memory were computed
};

namespace detail {
class enumeration {
 public:
  // visit(choice, total) for every choice, whatever memory it takes.
  template <class Visit> static void all(problem const& p, Visit&& visit) {
    for (std::size_t c = 0; c < p.configurations.size(); ++c) {
      enumeration e{p, p.make_shape(p.configurations[c].shape)};
      e.x_.configuration = static_cast<int>(c);
      for (e.x_.spread = 0; e.x_.spread < e.s_.spreads(); ++e.x_.spread) e.stage(0, visit);
    }
  }

 private:
  enumeration(problem const& p, shape s) : p_(p), s_(std::move(s)) {}
  int stages() const { return p_.configurations[static_cast<std::size_t>(x_.configuration)].stages; }
  template <class Visit> void stage(int begin, Visit& visit) {
    if (begin == p_.segments() && static_cast<int>(x_.stages.size()) == stages()) {
      visit(x_, time_and_memory(p_, s_, x_));
      return;
    }
    if (static_cast<int>(x_.stages.size()) >= stages() || begin >= p_.segments()) return;
    if (begin > 0 && !p_.begins(begin, stages())) return;
    for (std::size_t g = 0; g < s_.grids.size(); ++g) {
      if (!s_.may_have(static_cast<int>(x_.stages.size()), static_cast<int>(g))) continue;
      x_.stages.push_back({begin, static_cast<int>(g), {}});
      segment(begin, visit);
      x_.stages.pop_back();
    }
  }
  template <class Visit> void segment(int at, Visit& visit) {
    const std::size_t k = x_.stages.size() - 1;
    if (!x_.stages[k].segments.empty()) stage(at, visit);
    if (at == p_.segments() || !p_.lies(at, static_cast<int>(k), s_.devices)) return;
    const int kind = p_.chain[static_cast<std::size_t>(at)];
    auto const& variants = s_.grids[static_cast<std::size_t>(x_.stages[k].grid)].kinds[static_cast<std::size_t>(kind)];
    for (std::size_t v = 0; v < variants.size(); ++v) {
      x_.stages[k].segments.push_back({static_cast<int>(v), {}});
      variable(at, *variants[v].costs, visit);
      x_.stages[k].segments.pop_back();
    }
  }
  template <class Visit> void variable(int at, table const& t, Visit& visit) {
    const std::size_t k = x_.stages.size() - 1, i = x_.stages[k].segments.size() - 1;
    const std::size_t v = x_.stages[k].segments[i].options.size();
    if (static_cast<int>(v) == t.variables()) return segment(at + 1, visit);
    int from = 0, to = t.options[v];
    if (v == 0 && i > 0) {  // entered as the segment before is left
      from = x_.stages[k].segments[i - 1].options.back();
      to = from + 1;
    }
    for (int option = from; option < to; ++option) {
      x_.stages[k].segments[i].options.push_back(option);
      variable(at, t, visit);
      x_.stages[k].segments[i].options.pop_back();
    }
  }
  problem const& p_;
  shape s_;
  choice x_;
};
}  // namespace detail

inline outcome brute_force(problem const& p) {
  outcome r;
  detail::enumeration::all(p, [&](choice const& x, total const& t) {
    ++r.evaluations;
    if (t.fits && t.time < r.time) {
      r.time = t.time;
      r.memory = t.memory;
      r.best = x;
    }
  });
  r.lower_bound = r.time;
  return r;
}

}  // namespace partita::spaces
