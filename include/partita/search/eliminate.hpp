// The cheapest choice in a table under weights, by eliminating one variable after another (Bertele and Brioschi 1972):
// exact, and linear in the number of ops where the graph of a segment is series-parallel, as blocks are.
#pragma once
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include <partita/search/problem.hpp>

namespace partita::spaces {

// Costs of leaving by j having entered by i.
struct matrix {
  int rows = 0, columns = 0;
  std::vector<double> at;
  matrix() = default;
  matrix(int r, int c, double value = infinite)
      : rows(r), columns(c), at(static_cast<std::size_t>(r) * static_cast<std::size_t>(c), value) {}
  double& operator()(int i, int j) { return at[static_cast<std::size_t>(i * columns + j)]; }
  double operator()(int i, int j) const { return at[static_cast<std::size_t>(i * columns + j)]; }
  double least() const { return at.empty() ? infinite : *std::min_element(at.begin(), at.end()); }
};
// Min-plus product: the cheapest way through both.
inline matrix through(matrix const& a, matrix const& b) {
  matrix r(a.rows, b.columns);
  for (int i = 0; i < a.rows; ++i)
    for (int k = 0; k < a.columns; ++k) {
      const double first = a(i, k);
      if (first == infinite) continue;
      double* const to = &r.at[static_cast<std::size_t>(i * b.columns)];
      double const* const from = &b.at[static_cast<std::size_t>(k * b.columns)];
      for (int j = 0; j < b.columns; ++j) to[j] = std::min(to[j], first + from[j]);
    }
  return r;
}

class eliminator {
 public:
  explicit eliminator(table const& t) : t_(&t) { plan(); }
  table const& of() const { return *t_; }
  long runs() const { return runs_; }

  // Fills the factors for these weights; returns entries x exits.
  matrix const& run(weights const& w) {
    if (ran_ && w == last_weights_) return result_;
    ran_ = true;
    last_weights_ = w;
    ++runs_;
    weigh(w);
    for (step const& s : steps_) eliminate(s);
    result_ = matrix(t_->entries(), t_->exits(), 0.0);
    for (int f : last_)
      for (int i = 0; i < result_.rows; ++i)
        for (int j = 0; j < result_.columns; ++j) {
          choice_[0] = i;
          choice_[static_cast<std::size_t>(t_->variables()) - 1] = j;
          result_(i, j) += value(factors_[static_cast<std::size_t>(f)]);
        }
    return result_;
  }
  // After run: the cheapest choice from i to j.
  std::vector<int> decode(int i, int j) {
    choice_[0] = i;
    choice_.back() = j;
    for (std::size_t k = steps_.size(); k-- > 0;) {
      int best = 0;
      double least = infinite;
      for (int x = 0; x < t_->options[static_cast<std::size_t>(steps_[k].variable)]; ++x)
        if (const double v = value_at(steps_[k], x); v < least) {
          least = v;
          best = x;
        }
      choice_[static_cast<std::size_t>(steps_[k].variable)] = best;
    }
    return choice_;
  }
  // After run: tells `visit(choice)` of every choice from i to j that costs at most `slack` more than the cheapest. False
  // when visit has had enough.
  template <class Visit> bool each(int i, int j, double slack, Visit&& visit) {
    choice_[0] = i;
    choice_.back() = j;
    return descend(steps_.size(), slack, visit);
  }

 private:
  struct factor {
    std::vector<int> scope;            // variables
    std::vector<std::size_t> strides;  // of each; the last is 1
    std::vector<double> at;
  };
  struct step {
    int variable = 0;
    std::vector<int> inputs;  // factors
    int output = 0;
  };

  int add_factor(std::vector<int> scope) {
    factor f;
    f.strides.resize(scope.size());
    std::size_t size = 1;
    for (std::size_t i = scope.size(); i-- > 0;) {
      f.strides[i] = size;
      size *= static_cast<std::size_t>(t_->options[static_cast<std::size_t>(scope[i])]);
    }
    f.scope = std::move(scope);
    f.at.assign(size, 0.0);
    factors_.push_back(std::move(f));
    return static_cast<int>(factors_.size()) - 1;
  }
  // Next the variable with the fewest neighbours, and of those the one that makes the smallest factor.
  void plan() {
    const int n = t_->variables();
    choice_.assign(static_cast<std::size_t>(n), 0);
    std::vector<int> alive;
    for (int v = 0; v < n; ++v) alive.push_back(add_factor({v}));
    for (table::pair const& p : t_->pairs) alive.push_back(add_factor({p.a, p.b}));
    std::vector<char> left(static_cast<std::size_t>(n), 1);
    auto joined = [&](int v) {
      std::vector<int> scope;
      for (int f : alive) {
        auto const& s = factors_[static_cast<std::size_t>(f)].scope;
        if (std::find(s.begin(), s.end(), v) == s.end()) continue;
        for (int u : s)
          if (u != v && std::find(scope.begin(), scope.end(), u) == scope.end()) scope.push_back(u);
      }
      std::sort(scope.begin(), scope.end());
      return scope;
    };
    for (int round = 2; round < n; ++round) {
      int best = -1;
      double least = infinite;
      for (int v = 1; v + 1 < n; ++v) {
        if (!left[static_cast<std::size_t>(v)]) continue;
        const std::vector<int> with = joined(v);
        double size = t_->options[static_cast<std::size_t>(v)] + 1e9 * static_cast<double>(std::max<std::size_t>(with.size(), 2));
        for (int u : with) size *= t_->options[static_cast<std::size_t>(u)];
        if (size < least) {
          least = size;
          best = v;
        }
      }
      step s;
      s.variable = best;
      left[static_cast<std::size_t>(best)] = 0;
      std::vector<int> scope = joined(best), rest;
      for (int f : alive) {
        auto const& in = factors_[static_cast<std::size_t>(f)].scope;
        (std::find(in.begin(), in.end(), best) != in.end() ? s.inputs : rest).push_back(f);
      }
      s.output = add_factor(std::move(scope));
      rest.push_back(s.output);
      alive = std::move(rest);
      steps_.push_back(std::move(s));
    }
    last_ = std::move(alive);
  }
  void weigh(weights const& w) {
    const std::size_t n = static_cast<std::size_t>(t_->variables());
    for (std::size_t v = 0; v < n; ++v) {
      std::fill(factors_[v].at.begin(), factors_[v].at.end(), 0.0);
      t_->own.add(w, t_->first[v], factors_[v].at.size(), factors_[v].at.data());
    }
    for (std::size_t p = 0; p < t_->pairs.size(); ++p) {
      auto& at = factors_[n + p].at;
      std::fill(at.begin(), at.end(), 0.0);
      t_->pair_costs.add(w, t_->pairs[p].first, at.size(), at.data());
    }
  }
  double value(factor const& f) const {
    std::size_t i = 0;
    for (std::size_t k = 0; k < f.scope.size(); ++k)
      i += f.strides[k] * static_cast<std::size_t>(choice_[static_cast<std::size_t>(f.scope[k])]);
    return f.at[i];
  }
  double value_at(step const& s, int option) {
    choice_[static_cast<std::size_t>(s.variable)] = option;
    double sum = 0;
    for (int f : s.inputs) sum += value(factors_[static_cast<std::size_t>(f)]);
    return sum;
  }
  void eliminate(step const& s) {
    factor& out = factors_[static_cast<std::size_t>(s.output)];
    if (out.scope.size() <= 2) eliminate_between(s, out);
    else eliminate_any(s, out);
  }
  // Up to two neighbours u and w: from [x][u] (with the variable's own costs) and [x][w], a row for each option x.
  void eliminate_between(step const& s, factor& out) {
    const int v = s.variable;
    const std::size_t n = static_cast<std::size_t>(t_->options[static_cast<std::size_t>(v)]);
    const int u = out.scope.empty() ? -1 : out.scope[0], w = out.scope.size() < 2 ? -1 : out.scope[1];
    const std::size_t columns_u = u < 0 ? 1 : static_cast<std::size_t>(t_->options[static_cast<std::size_t>(u)]),
                      columns_w = w < 0 ? 1 : static_cast<std::size_t>(t_->options[static_cast<std::size_t>(w)]);
    first_.assign(n * columns_u, 0.0);
    second_.assign(n * columns_w, 0.0);
    for (int id : s.inputs) {
      factor const& f = factors_[static_cast<std::size_t>(id)];
      if (f.scope.size() > 2) return eliminate_any(s, out);
      if (f.scope.size() == 1) {
        for (std::size_t x = 0; x < n; ++x)
          for (std::size_t i = 0; i < columns_u; ++i) first_[x * columns_u + i] += f.at[x];
        continue;
      }
      const bool leads = f.scope[0] == v;
      const int other = leads ? f.scope[1] : f.scope[0];
      std::vector<double>& to = other == u ? first_ : second_;
      const std::size_t columns = other == u ? columns_u : columns_w;
      for (std::size_t x = 0; x < n; ++x)
        for (std::size_t i = 0; i < columns; ++i) to[x * columns + i] += leads ? f.at[x * columns + i] : f.at[i * n + x];
    }
    std::fill(out.at.begin(), out.at.end(), infinite);
    for (std::size_t x = 0; x < n; ++x) {
      double const* const b = &second_[x * columns_w];
      for (std::size_t i = 0; i < columns_u; ++i) {
        const double a = first_[x * columns_u + i];
        double* const to = &out.at[i * columns_w];
        std::size_t j = 0;
        for (; j + lanes <= columns_w; j += lanes) {
          wide sum, least;
          std::memcpy(&sum, b + j, sizeof sum);
          std::memcpy(&least, to + j, sizeof least);
          sum += a;
          least = sum < least ? sum : least;
          std::memcpy(to + j, &least, sizeof least);
        }
        for (; j < columns_w; ++j) to[j] = std::min(to[j], a + b[j]);
      }
    }
  }
  void eliminate_any(step const& s, factor& out) {
    for (std::size_t i = 0; i < out.at.size(); ++i) {
      for (std::size_t k = 0; k < out.scope.size(); ++k) {
        const std::size_t n = static_cast<std::size_t>(t_->options[static_cast<std::size_t>(out.scope[k])]);
        choice_[static_cast<std::size_t>(out.scope[k])] = static_cast<int>(i / out.strides[k] % n);
      }
      double least = infinite;
      for (int x = 0; x < t_->options[static_cast<std::size_t>(s.variable)]; ++x) least = std::min(least, value_at(s, x));
      out.at[i] = least;
    }
  }
  // Compilers leave a minimum of doubles scalar at -O2: 2 lanes take 0.6 of its time (g++ 12, SSE2).
  static constexpr std::size_t lanes = 2;
  using wide [[gnu::vector_size(lanes * sizeof(double))]] = double;
  template <class Visit> bool descend(std::size_t left, double slack, Visit& visit) {
    if (left == 0) return visit(static_cast<std::vector<int> const&>(choice_));
    step const& s = steps_[left - 1];
    const double least = value(factors_[static_cast<std::size_t>(s.output)]);
    for (int x = 0; x < t_->options[static_cast<std::size_t>(s.variable)]; ++x) {
      const double more = value_at(s, x) - least;
      if (more <= slack && !descend(left - 1, slack - more, visit)) return false;
    }
    return true;
  }

  table const* t_;
  std::vector<factor> factors_;
  std::vector<step> steps_;
  std::vector<int> last_;
  std::vector<int> choice_;
  std::vector<double> first_, second_;
  matrix result_;
  weights last_weights_{};
  bool ran_ = false;
  long runs_ = 0;
};

}  // namespace partita::spaces
