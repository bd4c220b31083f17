// Chains of collectives run on whole numbers, every step by what it means and not by how it is lowered.
#pragma once
#include <doctest/doctest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include <partita/layout/box.hpp>
#include <partita/layout/transition.hpp>

namespace partita::testing {

inline placement grid_of(std::vector<int> const& extents) {
  placement w;
  w.rank = static_cast<int>(extents.size());
  int stride = 1;
  for (int l = w.rank - 1; l >= 0; --l) {
    w.extents[l] = extents[static_cast<std::size_t>(l)];
    w.strides[l] = stride;
    w.modes[l] = static_cast<short>(l);
    stride *= w.extents[l];
  }
  return w;
}
inline part split_of(placement const& w, int level, int axis) {
  part p;
  p.mode = static_cast<short>(level);
  p.level = static_cast<signed char>(level);
  p.axis = static_cast<signed char>(axis);
  p.pieces = w.extents[level];
  return p;
}
inline part partial_of(placement const& w, int level) { return split_of(w, level, -1); }
inline part time_of(int axis, int pieces) {
  part p;
  p.mode = 100;
  p.axis = static_cast<signed char>(axis);
  p.pieces = pieces;
  return p;
}

// Every layout of a tensor on a grid: each dimension splits an axis, holds partial results or replicates, and cuts of one
// axis stand in every order. `base` holds cuts that all of them begin with.
inline std::vector<layout> all_layouts(placement const& w, int rank, bool partial = true) {
  std::vector<layout> all;
  auto add = [&](auto self, layout const& l, int used) -> void {
    // Dimensions may come in any order, but only the order on one axis matters: the list is kept sorted by (axis, ...)
    // and a dimension is put behind what is there.
    all.push_back(l);
    for (int level = 0; level < w.rank; ++level) {
      if (used >> level & 1) continue;
      for (int axis = partial ? -1 : 0; axis < rank; ++axis) {
        if (l.count > 0) {  // axes in rising order, partial dimensions in rising order: one list for every layout
          part const& last = l.parts[l.count - 1];
          if (axis < last.axis || (axis == -1 && last.axis == -1 && level < last.level)) continue;
        }
        layout more = l;
        more.push(split_of(w, level, axis));
        self(self, more, used | 1 << level);
      }
    }
  };
  layout l;
  l.where = w;
  add(add, l, 0);
  return all;
}
inline std::string words_of(layout const& l) {
  std::string s = "[";
  for (int p = 0; p < l.count; ++p)
    s += (p > 0 ? " " : "") + (l.parts[p].partial() ? std::string("P") : "S" + std::to_string(l.parts[p].axis)) +
         (l.parts[p].in_time() ? "t" : "@" + std::to_string(l.parts[p].level)) + "/" + std::to_string(l.parts[p].pieces);
  return s + "]";
}
inline std::string words_of(transition_step const& s) {
  std::string words(name_of(s.kind));
  for (int l = 0, n = 0; l < max_levels; ++l)
    if (s.levels >> l & 1) words += (n++ == 0 ? "@" : "+") + std::to_string(l);
  return words;
}
inline std::string words_of(growing<transition_step> const& chain) {
  std::string s;
  for (transition_step const& step : chain) s += (s.empty() ? "" : ", ") + words_of(step);
  return s;
}

// Of a device, by number on the grid: those that differ from it along the dimensions only.
inline std::vector<int> members(placement const& w, int d, unsigned levels) {
  int mine[max_levels]{}, c[max_levels]{};
  w.coordinates_at(d, mine);
  std::vector<int> all;
  for (int i = 0; i < w.size(); ++i) {
    w.coordinates_at(i, c);
    bool same = true;
    for (int l = 0; l < w.rank; ++l) same = same && ((levels >> l & 1) || c[l] == mine[l]);
    if (same) all.push_back(i);
  }
  return all;
}

class simulated_tensor {
 public:
  simulated_tensor(layout const& l, std::vector<std::size_t> const& shape, int time_index = 0)
      : lay_(l), shape_(shape), time_(time_index) {
    for (int d = 0; d < l.where.size(); ++d) {
      held h;
      h.piece = box_at(l, d);
      each_point(h.piece, [&](std::vector<std::size_t> const& at) { h.values[at] = share(l, d, at); });
      devices_.push_back(std::move(h));
    }
  }

  // Empty, or what is wrong with the step.
  std::string take(transition_step const& step) {
    placement const& w = lay_.where;
    std::vector<held> after(devices_.size());
    for (int d = 0; d < w.size(); ++d) {
      held& h = after[static_cast<std::size_t>(d)];
      h.piece = box_at(step.after, d);
      const std::vector<int> group = members(lay_.where, d, step.levels);
      const held& own = devices_[static_cast<std::size_t>(d)];
      switch (step.kind) {
        case transition_kind::slice:
          if (!own.piece.contains(h.piece)) return "slice: the piece wanted is not inside the one held";
          for (auto const& [at, v] : own.values)
            if (inside(h.piece, at)) h.values[at] = v;
          break;
        case transition_kind::all_reduce:
        case transition_kind::reduce_scatter: {
          for (int l = 0; l < w.rank; ++l) {
            if (!(step.levels >> l & 1)) continue;
            if (!partial_on(lay_, l)) return "reduction of what is not partial";
            if (partial_on(step.after, l)) return "what was reduced is called partial";
          }
          std::size_t total = 0;
          for (int m : group) {
            if (!(devices_[static_cast<std::size_t>(m)].piece == own.piece)) return "members reduce different pieces";
            total += box_at(step.after, m).elements();
          }
          if (step.kind == transition_kind::all_reduce && !(h.piece == own.piece)) return "all_reduce changes the piece";
          if (step.kind == transition_kind::reduce_scatter && total != own.piece.elements())
            return "pieces of reduce_scatter do not tile what is reduced";
          for (auto const& [at, v] : own.values) {
            if (!inside(h.piece, at)) continue;
            for (int m : group) h.values[at] += devices_[static_cast<std::size_t>(m)].values.at(at);
          }
          break;
        }
        case transition_kind::all_gather:
        case transition_kind::all_to_all: {
          for (int m : group) {
            if (step.kind == transition_kind::all_gather && !(box_at(step.after, m) == h.piece))
              return "all_gather gives members different pieces";
            for (auto const& [at, v] : devices_[static_cast<std::size_t>(m)].values) {
              if (!inside(h.piece, at)) {
                if (step.kind == transition_kind::all_gather) return "all_gather loses an element";
                continue;
              }
              if (!h.values.emplace(at, v).second) return "an element comes from two members";
            }
          }
          break;
        }
        case transition_kind::permute: {
          std::vector<bool> taken(devices_.size(), false);
          for (int other = 0; other < w.size(); ++other) {  // as many devices want each piece as have it
            int have = 0, want = 0;
            for (int m = 0; m < w.size(); ++m) {
              have += devices_[static_cast<std::size_t>(m)].piece == box_at(step.after, other);
              want += box_at(step.after, m) == box_at(step.after, other);
            }
            if (have != want) return "a permute needs a piece more or less often than devices have it";
            if (devices_[static_cast<std::size_t>(other)].piece == h.piece)
              h.values = devices_[static_cast<std::size_t>(other)].values;
          }
          break;
        }
        case transition_kind::send: h.values = own.values; break;
        case transition_kind::renumber:
          for (int i = 0; i < w.size(); ++i)
            if (w.device_at(i) == step.after.where.device_at(d)) h = devices_[static_cast<std::size_t>(i)];
          if (!(h.piece == box_at(step.after, d))) return "a device is said to have another piece than it has";
          break;
        case transition_kind::boxes: return "boxes are not a collective";
      }
      if (h.values.size() != h.piece.elements()) return words_of(step) + ": an element has no source";
    }
    devices_ = std::move(after);
    lay_ = step.after;
    return {};
  }

  // Is this the tensor in that layout? Partial results have to sum to it.
  std::string arrived(layout const& to) const {
    std::map<std::pair<std::vector<int>, std::vector<std::size_t>>, long> sums;  // by coordinates that are not partial
    for (int d = 0; d < to.where.size(); ++d) {
      held const& h = devices_[static_cast<std::size_t>(d)];
      if (!(h.piece == box_at(to, d))) return "another piece";
      int c[max_levels]{};
      to.where.coordinates_at(d, c);
      std::vector<int> rest;
      for (int l = 0; l < to.where.rank; ++l)
        if (!partial_on(to, l)) rest.push_back(c[l]);
      for (auto const& [at, v] : h.values) sums[{rest, at}] += v;
    }
    for (auto const& [where, v] : sums)
      if (v != value_of(where.second)) return "another value";
    return {};
  }

 private:
  struct held {
    box piece;
    std::map<std::vector<std::size_t>, long> values;
  };
  box box_at(layout const& l, int d) const {
    int c[max_levels]{};
    l.where.coordinates_at(d, c);
    box b;
    b.rank = static_cast<int>(shape_.size());
    for (int a = 0; a < b.rank; ++a)
      b.at[a] = cut_interval(l, a, shape_[static_cast<std::size_t>(a)], nullptr,
                             [&](part const& p) { return p.in_time() ? time_ : c[p.level]; });
    return b;
  }
  static bool partial_on(layout const& l, int level) {
    for (int p = 0; p < l.count; ++p)
      if (l.parts[p].partial() && l.parts[p].level == level) return true;
    return false;
  }
  static bool inside(box const& b, std::vector<std::size_t> const& at) {
    for (int a = 0; a < b.rank; ++a)
      if (at[static_cast<std::size_t>(a)] < b.at[a].begin || at[static_cast<std::size_t>(a)] >= b.at[a].end()) return false;
    return true;
  }
  template <class F> static void each_point(box const& b, F f) {
    std::vector<std::size_t> at(static_cast<std::size_t>(b.rank));
    for (std::size_t n = 0; n < b.elements(); ++n) {
      std::size_t left = n;
      for (int a = b.rank - 1; a >= 0; --a) {
        at[static_cast<std::size_t>(a)] = b.at[a].begin + left % b.at[a].size;
        left /= b.at[a].size;
      }
      f(at);
    }
  }
  static long value_of(std::vector<std::size_t> const& at) {
    long v = 7;
    for (std::size_t x : at) v = v * 31 + static_cast<long>(x) * 17 + 3;
    return v;
  }
  // The part of an element that a device holds: all of it, or one of the summands.
  static long share(layout const& l, int d, std::vector<std::size_t> const& at) {
    int c[max_levels]{}, n = 1, i = 0;
    l.where.coordinates_at(d, c);
    for (int level = 0; level < l.where.rank; ++level)
      if (partial_on(l, level)) {
        n *= l.where.extents[level];
        i = i * l.where.extents[level] + c[level];
      }
    const long v = value_of(at), each = v / n + 11;
    return i + 1 < n ? each + i : v - (n - 1) * each - static_cast<long>(n - 1) * (n - 2) / 2;
  }

  layout lay_;
  std::vector<std::size_t> shape_;
  int time_;
  std::vector<held> devices_;
};

inline bool equal(layout const& a, layout const& b, int rank) {
  unsigned pa = 0, pb = 0;
  for (int p = 0; p < a.count; ++p)
    if (a.parts[p].partial()) pa |= 1u << a.parts[p].level;
  for (int p = 0; p < b.count; ++p)
    if (b.parts[p].partial()) pb |= 1u << b.parts[p].level;
  if (pa != pb) return false;
  for (int axis = 0; axis < rank; ++axis)
    if (!same_on_axis(a, b, axis)) return false;
  return true;
}
// What a step costs, by the words of link_cost: of what a device holds, and what its group holds together.
inline double cost_of(transition_step const& s, layout const& before, double bytes, link_cost const& cost) {
  double held = bytes, together = bytes;
  int n = 1;
  for (int l = 0; l < before.where.rank; ++l)
    if (s.levels >> l & 1) n *= before.where.extents[l];
  for (int p = 0; p < before.count; ++p) {
    part const& x = before.parts[p];
    if (x.partial()) continue;
    held /= x.pieces;
    if (x.in_time() || !(s.levels >> x.level & 1)) together /= x.pieces;
  }
  switch (s.kind) {
    case transition_kind::all_reduce: return cost.all_reduce(n, held);
    case transition_kind::reduce_scatter: return cost.reduce_scatter(n, held);
    case transition_kind::all_gather: return cost.all_gather(n, together);
    case transition_kind::all_to_all: return cost.all_to_all(n, together);
    case transition_kind::slice: return cost.slice(held);
    case transition_kind::permute: return cost.permute(held);
    case transition_kind::send:
    case transition_kind::boxes: return cost.send(held);
    case transition_kind::renumber: return 0;
  }
  return 0;
}

// Every pair of layouts: the chain exists, ends in the target, every step does what it says on numbers, and it costs no
// more than reducing, gathering and slicing one dimension after the other.
struct sweep_result {
  int pairs = 0, steps = 0;
  std::string fault;
};
inline sweep_result sweep(placement const& w, std::vector<std::size_t> const& shape, int stride = 1) {
  const int rank = static_cast<int>(shape.size());
  const std::vector<layout> all = all_layouts(w, rank);
  double bytes = 4;
  for (std::size_t e : shape) bytes *= static_cast<double>(e);
  const link_cost cost;
  sweep_result r;
  int number = 0;
  for (layout const& from : all)
    for (layout const& to : all) {
      bool reachable = true;  // no collective makes partial results
      for (int p = 0; p < to.count; ++p)
        if (to.parts[p].partial()) {
          bool kept = false;
          for (int q = 0; q < from.count; ++q)
            kept = kept || (from.parts[q].partial() && from.parts[q].level == to.parts[p].level);
          reachable = reachable && kept;
        }
      if (!reachable || number++ % stride != 0) continue;
      ++r.pairs;
      auto fail = [&](std::string const& what) {
        r.fault = words_of(from) + " -> " + words_of(to) + ": " + what;
        return r;
      };
      bool found = false;
      double promised = 0;
      const growing<transition_step> chain = cheapest_chain(from, to, rank, bytes, found, cost, shape.data(), &promised);
      if (!found) return fail("no chain");
      if ((chain.size == 0) != equal(from, to, rank)) return fail("an empty chain between different layouts, or the reverse");
      simulated_tensor x(from, shape);
      double seconds = 0, most = 0;
      layout before = from;
      for (transition_step const& s : chain) {
        seconds += cost_of(s, before, bytes, cost);
        before = s.after;
        if (const std::string fault = x.take(s); !fault.empty()) return fail(words_of(chain) + ": " + fault);
        ++r.steps;
      }
      if (const std::string fault = x.arrived(to); !fault.empty()) return fail(words_of(chain) + ": " + fault);
      if (!equal(before, to, rank)) return fail(words_of(chain) + " ends in " + words_of(before));
      if (std::abs(promised - seconds) > 1e-9 * seconds) return fail(words_of(chain) + " costs something else than was said");
      // the plain way
      layout now = from;
      for (int p = now.count - 1; p >= 0; --p) {
        bool keeps = false;
        for (int q = 0; q < to.count; ++q) keeps = keeps || (to.parts[q].partial() && to.parts[q].level == now.parts[p].level);
        if (keeps) continue;
        transition_step s;
        s.levels = 1u << now.parts[p].level;
        s.kind = now.parts[p].partial() ? transition_kind::all_reduce : transition_kind::all_gather;
        most += cost_of(s, now, bytes, cost);
        layout less;
        less.where = now.where;
        for (int q = 0; q < now.count; ++q)
          if (q != p) less.push(now.parts[q]);
        now = less;
      }
      for (int q = 0; q < to.count; ++q) {
        if (to.parts[q].partial()) continue;
        transition_step s;
        s.levels = 1u << to.parts[q].level;
        most += cost_of(s, now, bytes, cost);
        now.push(to.parts[q]);
      }
      if (seconds > most * (1 + 1e-9)) return fail(words_of(chain) + " costs more than gathering all");
    }
  return r;
}

}  // namespace partita::testing
