// Good ways through a stage, soon found: the cheapest under some multipliers, the beginning of one and the end of another,
// then segments changed one by one as long as it helps. Among many equal segments this leaves room for less than one.
#pragma once
#include <cstddef>
#include <optional>

#include <partita/search/stage.hpp>

namespace partita::spaces {

class stage_mixing {
 public:
  using way = std::vector<way_through const*>;  // segment by segment

  explicit stage_mixing(stage_problem& s) : s_(s) {}

  // Ways from i to j that fit, at most a few for every aim.
  std::vector<stage_point> ways(int i, int j) {
    collect(i, j);
    std::vector<stage_point> found;
    for (aim const& a : s_.aims())
      if (std::optional<stage_point> best = mixed(a)) found.push_back(std::move(*best));
    return found;
  }
  // A way to mix with others; what it points to must stay where it is.
  void add(way w) {
    if (std::find(all_.begin(), all_.end(), w) != all_.end()) return;
    for (way_through const* x : w) {
      auto& same = alike_[{x->kind, x->entry, x->exit}];
      if (std::find(same.begin(), same.end(), x) == same.end()) same.push_back(x);
    }
    all_.push_back(std::move(w));
  }
  // Steps that it takes to mix those that were added.
  long work() const { return all_.empty() ? 0 : static_cast<long>(all_.size() * all_.size() * all_.front().size()); }
  // A good way that fits, made of those that were added.
  std::optional<stage_point> mixed(aim a) const {
    way best = best_mixed(a);
    if (best.empty()) return std::nullopt;
    improve(best, a);
    return point_of(best);
  }

 private:
  static constexpr std::size_t most_cases = 4;

  void collect(int i, int j) {
    std::vector<stage_case const*> cases;
    for (stage_case const& c : s_.cases())
      if (c.worth(i, j) < infinite && c.memory(i, j) + c.level <= s_.limit()) cases.push_back(&c);
    std::sort(cases.begin(), cases.end(), [&](auto const* a, auto const* b) { return a->worth(i, j) < b->worth(i, j); });
    if (cases.size() > most_cases) cases.resize(most_cases);
    for (stage_case const* c : cases) {
      const std::vector<aim> aims = s_.aims();
      for (aim const& a : aims) add(s_.cheapest(*c, a, 0, i, j));
      if (s_.limit() == infinite) continue;
      add(s_.cheapest(*c, {0, 0}, 1, i, j));
      if (c->mu == 0) continue;
      for (double factor : {0.5, 0.99, 1.01, 2.0}) {
        add(s_.cheapest(*c, s_.worth(), factor * c->mu, i, j));
        if (aims.size() > 1) add(s_.cheapest(*c, s_.mixed_aim(), factor * c->mu, i, j));
      }
    }
  }
  static double value(way_through const& x, aim a) { return a.time * x.cost.time + a.step * x.cost.step; }

  struct sums {
    std::vector<double> value, memory, running_before, running_after;  // before place q; after: from q on
  };
  sums sums_of(way const& w, aim a) const {
    const std::size_t n = w.size();
    sums r;
    r.value.assign(n + 1, 0);
    r.memory = r.running_before = r.running_after = r.value;
    for (std::size_t q = 0; q < n; ++q) {
      r.value[q + 1] = r.value[q] + value(*w[q], a);
      r.memory[q + 1] = r.memory[q] + w[q]->memory;
      r.running_before[q + 1] = std::max(r.running_before[q], w[q]->cost.replay);
    }
    for (std::size_t q = n; q-- > 0;) r.running_after[q] = std::max(r.running_after[q + 1], w[q]->cost.replay);
    return r;
  }
  // The beginning of one way and the end of another that meet in one layout.
  way best_mixed(aim a) const {
    std::vector<sums> of;
    for (way const& w : all_) of.push_back(sums_of(w, a));
    std::size_t first = 0, second = 0, meet = 0;
    double least = infinite;
    for (std::size_t x = 0; x < all_.size(); ++x)
      for (std::size_t y = 0; y < all_.size(); ++y) {
        const std::size_t n = all_[x].size();
        for (std::size_t q = x == y ? n : 1; q < n + (x == y); ++q) {
          if (q < n && all_[x][q]->entry != all_[y][q]->entry) continue;
          const double v = of[x].value[q] + of[y].value[n] - of[y].value[q];
          if (v >= least) continue;
          const double memory = of[x].memory[q] + of[y].memory[n] - of[y].memory[q];
          if (memory + std::max(of[x].running_before[q], of[y].running_after[q]) > s_.limit()) continue;
          least = v;
          first = x;
          second = y;
          meet = q;
        }
      }
    if (least == infinite) return {};
    way r(all_[first].begin(), all_[first].begin() + static_cast<std::ptrdiff_t>(meet));
    r.insert(r.end(), all_[second].begin() + static_cast<std::ptrdiff_t>(meet), all_[second].end());
    return r;
  }
  // Changes one segment after another where that makes it better and still fits.
  void improve(way& w, aim a) const {
    const sums all = sums_of(w, a);
    double memory = all.memory.back();
    const double running = all.running_before.back();  // no more than this, so that it need not be found out again
    for (bool moved = true; moved;) {
      moved = false;
      for (way_through const*& x : w) {
        way_through const* best = x;
        for (way_through const* o : alike_.at({x->kind, x->entry, x->exit}))
          if (value(*o, a) < value(*best, a) && o->cost.replay <= running &&
              memory - x->memory + o->memory + running <= s_.limit())
            best = o;
        if (best == x) continue;
        memory += best->memory - x->memory;
        x = best;
        moved = true;
      }
    }
  }
  static stage_point point_of(way const& w) {
    stage_point p;
    for (way_through const* x : w) {
      p.time += x->cost.time;
      p.step += x->cost.step;
      p.segments.push_back(x->chosen);
    }
    return p;
  }

  stage_problem& s_;
  std::vector<way> all_;
  std::map<std::tuple<int, int, int>, std::vector<way_through const*>> alike_;  // by kind, entry, exit
};

}  // namespace partita::spaces
