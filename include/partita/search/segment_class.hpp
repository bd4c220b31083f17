// A class of segments of one kind: those that run as one variant, without some of its options.
#pragma once
#include <map>
#include <memory>

#include <partita/search/grid_solver.hpp>

namespace partita::spaces {

class segment_class {
 public:
  segment_class(int kind, grid_solver::piece& of, in_flight_counts in_flight)
      : kind_(kind),
        in_flight_(in_flight),
        of_(&of),
        transient_(of.least_transient()),
        kept_(of.least_running() - of.least_transient()) {}
  segment_class(segment_class const& like)
      : kind_(like.kind_),
        in_flight_(like.in_flight_),
        of_(like.of_),
        transient_(like.transient_),
        kept_(like.kept_),
        without_(like.without_) {
    make();
  }
  segment_class(segment_class&&) = default;
  segment_class& operator=(segment_class const&) = delete;

  int kind() const { return kind_; }
  int variant() const { return of_->variant; }
  bool replays() const { return of_->replays; }
  table const& costs() const { return of_->by->of(); }
  // Bytes that are there while such a segment runs, at the least.
  double level() const { return transient_ + kept_; }
  // Of them, while one op runs.
  double transient() const { return transient_; }
  void raise_transient(double bytes) { transient_ = std::max(transient_, bytes); }

  // The cheapest ways; infinite `mu`: by memory alone. `share`: of what is kept while a segment runs again, counted as memory.
  matrix const& run(aim worth, double mu, double share, long& work) {
    const auto [place, fresh] = at_.try_emplace({mu, share});
    if (!fresh) return place->second;
    work += of_->by->order()->work();
    return place->second = solver().run(weigh(worth, mu, share));
  }
  std::vector<int> cheapest(aim worth, double mu, double share, int entry, int exit) {
    solver().run(weigh(worth, mu, share));
    return solver().decode(entry, exit);
  }
  // Leaves these options of a variable out. Of what is run again the rest may need more while it runs.
  void leave_out(int variable, std::vector<char> const& options, bool which) {
    for (std::size_t o = 0; o < options.size(); ++o)
      if (static_cast<bool>(options[o]) == which) without_.push_back({static_cast<std::size_t>(variable), o});
    make();
    if (replays()) kept_ = solver().run({0, 0, 0, 0, 0, 1}).least();
  }
  // Leaves out what needs more than so many bytes while it runs. Returns the least that one of those needs.
  double leave_out_above(double allowed) {
    table const& t = costs();
    double next = infinite;
    auto look = [&](std::size_t factor, std::size_t index, double bytes) {
      if (bytes <= allowed) return;
      next = std::min(next, bytes);
      without_.push_back({factor, index});
    };
    for (int v = 0; v < t.variables(); ++v)
      for (int o = 0; o < count(v); ++o)
        look(static_cast<std::size_t>(v), static_cast<std::size_t>(o), t.own.transient(t.index(v, o)));
    for (std::size_t p = 0; p < t.pairs.size(); ++p) {
      const std::size_t n = static_cast<std::size_t>(count(t.pairs[p].a)) * static_cast<std::size_t>(count(t.pairs[p].b));
      for (std::size_t i = 0; i < n; ++i)
        look(static_cast<std::size_t>(t.variables()) + p, i, t.pair_costs.transient(t.pairs[p].first + i));
    }
    make();
    return next;
  }

  // Bytes that are kept while such a segment runs again and depend on one variable: in a choice, and at the least. Infinite: the
  // option is left out.
  double kept_of(std::vector<int> const& options, int variable) const { return in_choice(options, variable, kept_bytes); }
  double least_kept(int variable, int option) const {
    return is_left_out(variable, option) ? infinite : at_least(variable, option, kept_bytes);
  }

  // Bytes that depend on one variable: in a choice, and at the least.
  double memory_of(std::vector<int> const& options, int variable) const {
    return in_choice(options, variable, [&](cost const& c) { return bytes_of(c); });
  }
  double least_memory(int variable, int option) const {
    return at_least(variable, option, [&](cost const& c) { return bytes_of(c); });
  }

 private:
  int count(int variable) const { return costs().options[static_cast<std::size_t>(variable)]; }
  bool is_left_out(int variable, int option) const {
    return std::any_of(without_.begin(), without_.end(), [&](eliminator::left_out const& x) {
      return x.factor == static_cast<std::size_t>(variable) && x.index == static_cast<std::size_t>(option);
    });
  }
  static double kept_bytes(cost const& c) { return c.kept; }
  // Of an option and its pairs with others.
  template <class Value> double in_choice(std::vector<int> const& options, int variable, Value&& value) const {
    table const& t = costs();
    auto option = [&](int v) { return options[static_cast<std::size_t>(v)]; };
    double sum = value(t.own[t.index(variable, option(variable))]);
    for (table::pair const& p : t.pairs)
      if (p.a == variable || p.b == variable) sum += value(t.pair_costs[t.index(p, option(p.a), option(p.b))]);
    return sum;
  }
  template <class Value> double at_least(int variable, int option, Value&& value) const {
    table const& t = costs();
    double sum = value(t.own[t.index(variable, option)]);
    for (table::pair const& p : t.pairs) {
      if (p.a != variable && p.b != variable) continue;
      double least = infinite;
      for (int o = 0; o < count(p.a == variable ? p.b : p.a); ++o)
        least = std::min(least, value(t.pair_costs[p.a == variable ? t.index(p, option, o) : t.index(p, o, option)]));
      sum += least;
    }
    return sum;
  }
  double bytes_of(cost const& c) const { return bytes_held(cost_in_stage(c, replays()), in_flight_); }
  weights weigh(aim worth, double mu, double share) const {
    const double byte = mu == infinite ? 1 : mu;
    weights w = grid_solver::weigh(mu == infinite ? aim{0, 0} : worth, byte, in_flight_, replays());
    if (replays()) w[weight_of_kept] = byte * share;
    return w;
  }
  eliminator& solver() { return by_ ? *by_ : *of_->by; }
  void make() {
    if (!without_.empty()) by_ = std::make_unique<eliminator>(costs(), of_->by->order(), without_);
    at_.clear();
  }

  int kind_;
  in_flight_counts in_flight_;
  grid_solver::piece* of_;
  double transient_, kept_;  // bytes at the least; kept: while it runs again
  std::vector<eliminator::left_out> without_;
  std::unique_ptr<eliminator> by_;                  // where options are left out
  std::map<std::pair<double, double>, matrix> at_;  // by multiplier and share
};

}  // namespace partita::spaces
