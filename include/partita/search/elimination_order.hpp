// In which order the variables of a table are eliminated (Bertele and Brioschi 1972), and which factors that makes.
#pragma once
#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include <partita/search/problem.hpp>

namespace partita::spaces {

// It follows from the table's form alone: tables of one form can share it.
class elimination_order {
 public:
  struct factor {
    std::vector<int> scope;            // variables; the one with the most options last
    std::vector<std::size_t> strides;  // of each; the last is 1
    std::size_t size = 1;
  };
  // A variable goes: the least over its options of the sum of the inputs. Sums are made apart for inputs that have the
  // output's last variable (`rows`) and for those that have not (`singles`).
  struct sum {
    std::vector<int> inputs;         // factors
    std::vector<std::size_t> reads;  // per input and variable of the scope: its stride there, or 0
    std::vector<int> scope;          // of the output's variables; `last` stands last
    std::size_t size = 1;            // per option of the variable
    std::vector<std::size_t> place;  // per place of the output but for its last variable
  };
  struct step {
    int variable = 0, output = 0;
    std::vector<int> inputs;
    sum rows, singles;
    std::size_t places = 1, width = 1;  // of the output: its last variable's options are its width
  };

  explicit elimination_order(table const& t) : options_(t.options) {
    const std::size_t n = options_.size();
    for (std::size_t v = 0; v < n; ++v) alive_.push_back(add_factor({static_cast<int>(v)}));
    for (table::pair const& p : t.pairs) alive_.push_back(add_factor({p.a, p.b}));
    next_to_.assign(n, std::vector<char>(n, 0));
    for (table::pair const& p : t.pairs) join(p.a, p.b);
    std::vector<double> size(n, infinite);
    for (std::size_t v = 1; v + 1 < n; ++v) size[v] = size_without(v);
    for (std::size_t round = 2; round < n; ++round) {
      const int next = static_cast<int>(std::min_element(size.begin(), size.end()) - size.begin());
      size[static_cast<std::size_t>(next)] = infinite;
      std::vector<int> scope = neighbours(static_cast<std::size_t>(next));
      for (int u : scope) {
        next_to_[static_cast<std::size_t>(u)][static_cast<std::size_t>(next)] = 0;
        for (int w : scope)
          if (w != u) join(u, w);
      }
      for (int u : scope)
        if (u > 0 && u + 1 < static_cast<int>(n)) size[static_cast<std::size_t>(u)] = size_without(static_cast<std::size_t>(u));
      steps_.push_back(eliminated(next, std::move(scope)));
    }
  }
  std::vector<factor> const& factors() const { return factors_; }
  std::vector<step> const& steps() const { return steps_; }
  // Sums and comparisons that it takes.
  long work() const {
    std::size_t all = 0;
    for (step const& s : steps_) all += s.places * s.width * count(s.variable);
    return static_cast<long>(all);
  }
  std::vector<int> const& left() const { return alive_; }  // factors of the first variable and the last one

 private:
  std::size_t count(int v) const { return static_cast<std::size_t>(options_[static_cast<std::size_t>(v)]); }
  void join(int a, int b) {
    next_to_[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)] = 1;
    next_to_[static_cast<std::size_t>(b)][static_cast<std::size_t>(a)] = 1;
  }
  std::vector<int> neighbours(std::size_t v) const {
    std::vector<int> all;
    for (std::size_t u = 0; u < options_.size(); ++u)
      if (next_to_[v][u]) all.push_back(static_cast<int>(u));
    return all;
  }
  // Next the variable with the fewest neighbours, and of those the one that makes the smallest factor.
  double size_without(std::size_t v) const {
    const std::vector<int> with = neighbours(v);
    double size = static_cast<double>(options_[v]) + 1e9 * static_cast<double>(std::max<std::size_t>(with.size(), 2));
    for (int u : with) size *= static_cast<double>(count(u));
    return size;
  }
  int add_factor(std::vector<int> scope) {
    factor f;
    f.strides.resize(scope.size());
    for (std::size_t i = scope.size(); i-- > 0;) {
      f.strides[i] = f.size;
      f.size *= count(scope[i]);
    }
    f.scope = std::move(scope);
    factors_.push_back(std::move(f));
    return static_cast<int>(factors_.size()) - 1;
  }
  static bool has(std::vector<int> const& scope, int v) { return std::find(scope.begin(), scope.end(), v) != scope.end(); }
  step eliminated(int variable, std::vector<int> scope) {
    step s;
    s.variable = variable;
    std::vector<int> rest;
    for (int f : alive_) (has(factors_[static_cast<std::size_t>(f)].scope, variable) ? s.inputs : rest).push_back(f);
    const auto widest = std::max_element(scope.begin(), scope.end(), [&](int a, int b) { return count(a) < count(b); });
    if (widest != scope.end()) std::iter_swap(widest, scope.end() - 1);
    const int last = scope.empty() ? -1 : scope.back();
    for (int f : s.inputs) (has(factors_[static_cast<std::size_t>(f)].scope, last) ? s.rows : s.singles).inputs.push_back(f);
    if (last >= 0) s.width = count(last);
    for (std::size_t k = 0; k + 1 < scope.size(); ++k) s.places *= count(scope[k]);
    add_places(s.rows, s, scope, last);
    add_places(s.singles, s, scope, last);
    s.output = add_factor(std::move(scope));
    rest.push_back(s.output);
    alive_ = std::move(rest);
    return s;
  }
  void add_places(sum& x, step const& s, std::vector<int> const& scope, int last) const {
    for (int v : scope)
      for (int f : x.inputs)
        if (has(factors_[static_cast<std::size_t>(f)].scope, v) && !has(x.scope, v)) x.scope.push_back(v);
    std::vector<std::size_t> strides(x.scope.size());
    for (std::size_t k = x.scope.size(); k-- > 0;) {
      strides[k] = x.size;
      x.size *= count(x.scope[k]);
    }
    for (int f : x.inputs) {
      factor const& from = factors_[static_cast<std::size_t>(f)];
      auto stride = [&](int v) {
        const auto at = std::find(from.scope.begin(), from.scope.end(), v);
        return at == from.scope.end() ? 0 : from.strides[static_cast<std::size_t>(at - from.scope.begin())];
      };
      x.reads.push_back(stride(s.variable));
      for (int v : x.scope) x.reads.push_back(stride(v));
    }
    for (std::size_t place = 0; place < s.places; ++place) {
      std::size_t rest = place, at = 0;
      for (std::size_t k = scope.size(); k-- > 0;) {
        if (scope[k] == last) continue;
        const std::size_t option = rest % count(scope[k]);
        rest /= count(scope[k]);
        for (std::size_t q = 0; q < x.scope.size(); ++q)
          if (x.scope[q] == scope[k]) at += option * strides[q];
      }
      x.place.push_back(at);
    }
  }

  std::vector<int> options_;
  std::vector<factor> factors_;
  std::vector<step> steps_;
  std::vector<int> alive_;
  std::vector<std::vector<char>> next_to_;
};

}  // namespace partita::spaces
