// Dijkstra's algorithm over the layouts of a grid: what collectives reach from one of them, and at what cost.
#pragma once
#include <partita/layout/layout_word.hpp>
#include <partita/layout/renumbering.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail {

template <class Cost> class layout_search : layout_words {
 public:
  struct state {
    layout_word word = 0;
    bool sent = false;  // on the second grid
    bool done = false;
    double seconds = 0;
    int before = -1;
    transition_kind kind = transition_kind::slice;
    unsigned levels = 0;
  };

  constexpr layout_search(layout const& from, layout const& to, int rank, double of_bytes, Cost const& cost,
                          std::size_t const* of_extents = nullptr)
      : from_(from.where),
        to_(to.where),
        sends_(!(from.where == to.where)),
        cost_(cost),
        numbers_(from.where, sends_ ? to.where : placement{}) {
    bytes = of_bytes;
    extents = of_extents;
    known_ = collect(from, to, rank);
    for (part const& p : items)
      if (p.axis >= 0) item_axes_ |= 1u << p.axis;
    start_ = word_of(from, good_);
    goal_ = word_of(to, good_);
  }
  // Runs until the goal is reached, or everything that can be in no more than `limit`. Returns the goal's state, or -1.
  constexpr int run(bool to_goal = true, double limit = 1e300) {
    most_ = limit;
    to_goal_ = to_goal;
    if (!known_ || (to_goal && !good_)) return -1;
    sends_ = sends_ && to_goal;
    table_.resize(64);
    for (int i = 0; i < table_.size; ++i) table_[i] = -1;
    reach(-1, start_, false, transition_kind::slice, 0, 0);
    while (heap_.size > 0) {
      const int at = pop();
      if (states[at].done) continue;
      states[at].done = true;
      if (to_goal && states[at].word == goal_ && states[at].sent == sends_) return at;
      expand(at);
    }
    return -1;
  }
  constexpr layout layout_of(state const& s) const {
    layout l;
    l.where = s.sent ? to_ : from_;
    for (layout_word w = s.word; w != 0; w >>= 8) {
      part p = item(w);
      if (p.level >= 0) p.mode = l.where.modes[p.level];
      l.push(p);
    }
    return l;
  }
  constexpr growing<transition_step> chain_to(int at) const {
    growing<int> way;
    for (int i = at; states[i].before >= 0; i = states[i].before) way.push(i);
    growing<transition_step> chain;
    for (int k = way.size - 1; k >= 0; --k) {
      state const &s = states[way[k]], &b = states[s.before];
      transition_step step{s.kind, s.levels, -1, -1, layout_of(s)};
      for (layout_word w = b.word; w != 0; w >>= 8)
        if (part const& p = item(w); p.level >= 0 && !p.partial() && s.levels >> p.level & 1) step.from_axis = p.axis;
      for (layout_word w = s.word; w != 0; w >>= 8)
        if (part const& p = item(w); p.level >= 0 && !p.partial() && s.levels >> p.level & 1) step.to_axis = p.axis;
      chain.push(step);
    }
    return chain;
  }
  growing<state> states;

 private:
  constexpr bool may_add(layout_word w, int i) const {
    if (items[i].sizes >= 0 && pieces_of(w, items[i].axis) > 1) return false;  // sizes are of the whole axis
    if (wide) return true;
    // On large grids: what the goal has next on the axis.
    int k = 0;
    for (; w != 0; w >>= 8) k += item(w).axis == items[i].axis;
    for (layout_word g = goal_; g != 0; g >>= 8)
      if (item(g).axis == items[i].axis && k-- == 0) return same_cut(item(g), items[i]);
    return false;
  }

  constexpr void reach(int before, layout_word word, bool sent, transition_kind kind, unsigned levels, double seconds) {
    if (seconds > most_ || !is_in_one_unit(word)) return;
    if (to_goal_ && word == goal_ && sent == sends_) most_ = seconds;  // what takes longer than a chain that is known is no help
    const int slot = find(word, sent);
    if (table_[slot] >= 0) {
      state& s = states[table_[slot]];
      if (s.done || seconds >= s.seconds) return;
      s.seconds = seconds;
      s.before = before;
      s.kind = kind;
      s.levels = levels;
    } else {
      table_[slot] = states.size;
      states.push({word, sent, false, seconds, before, kind, levels});
      if (2 * states.size > table_.size) grow();
    }
    push(table_[find(word, sent)], seconds);
  }
  constexpr int find(layout_word word, bool sent) const {
    layout_word h = (word ^ (sent ? 0x5bd1e995u : 0u)) * 0x9e3779b97f4a7c15u;
    int slot = static_cast<int>(h >> 40) & (table_.size - 1);
    while (table_[slot] >= 0 && !(states[table_[slot]].word == word && states[table_[slot]].sent == sent))
      slot = (slot + 1) & (table_.size - 1);
    return slot;
  }
  constexpr void grow() {
    const int room = 4 * table_.size;
    table_.resize(room);
    for (int i = 0; i < room; ++i) table_[i] = -1;
    for (int i = 0; i < states.size; ++i) table_[find(states[i].word, states[i].sent)] = i;
  }
  struct waiting {
    double seconds = 0;
    int state = 0;
    constexpr bool before(waiting const& o) const { return seconds != o.seconds ? seconds < o.seconds : state < o.state; }
  };
  constexpr void push(int s, double seconds) {
    heap_.push({seconds, s});
    for (int i = heap_.size - 1; i > 0 && heap_[i].before(heap_[(i - 1) / 2]); i = (i - 1) / 2) swap(i, (i - 1) / 2);
  }
  constexpr int pop() {
    const int first = heap_[0].state;
    heap_[0] = heap_[heap_.size - 1];
    --heap_.size;
    for (int i = 0;;) {
      int least = i;
      for (int k = 2 * i + 1; k <= 2 * i + 2; ++k)
        if (k < heap_.size && heap_[k].before(heap_[least])) least = k;
      if (least == i) return first;
      swap(i, least);
      i = least;
    }
  }
  constexpr void swap(int i, int j) {
    const waiting kept = heap_[i];
    heap_[i] = heap_[j];
    heap_[j] = kept;
  }

  constexpr void expand(int at) {
    const layout_word word = states[at].word;
    const bool sent = states[at].sent;
    placement const& w = sent ? to_ : from_;
    const double now = states[at].seconds, mine = held(word);
    unsigned partial = 0, cut = 0, wanted_partial = 0;
    for (layout_word x = word; x != 0; x >>= 8)
      if (part const& p = item(x); p.level >= 0) (p.partial() ? partial : cut) |= 1u << p.level;
    for (layout_word x = goal_; x != 0; x >>= 8)
      if (part const& p = item(x); p.level >= 0 && p.partial()) wanted_partial |= 1u << p.level;
    auto until = [&](transition_kind kind, unsigned levels, double rest) {
      return now + step_seconds(cost_, w, kind, levels, mine, rest);
    };
    auto take = [&](layout_word next, transition_kind kind, unsigned levels, double end) {
      reach(at, next, sent, kind, levels, end);
    };
    if (sends_ && !sent) {
      const transition_kind kind = stays(cut | frozen, partial) ? transition_kind::renumber : transition_kind::send;
      reach(at, word, true, kind, 0, now + step_seconds(cost_, to_, kind, 0, mine, mine));
    }
    // Slices.
    for (int i = 0; i < items.size; ++i) {
      part const& p = items[i];
      if (p.level < 0 || p.partial() || ((cut | partial) >> p.level & 1) || !may_add(word, i)) continue;
      take(with(word, i), transition_kind::slice, 1u << p.level, until(transition_kind::slice, 1u << p.level, mine));
    }
    // Reductions over any of the partial dimensions.
    const unsigned open = partial & ~frozen & ~wanted_partial;
    for (unsigned levels = open; levels != 0; levels = (levels - 1) & open) {
      if (!one_reduction(word, levels) || !is_in_order(w, levels, cut | partial)) continue;
      const layout_word rest = without(word, levels);
      take(rest, transition_kind::all_reduce, levels, until(transition_kind::all_reduce, levels, mine));
      if (const double end = until(transition_kind::reduce_scatter, levels, mine); end <= most_)
        add_cuts(rest, levels, -1, [&](layout_word next) { take(next, transition_kind::reduce_scatter, levels, end); });
    }
    // The innermost cuts of axes, gathered or exchanged for cuts of another axis.
    unsigned axes = 0;
    for (layout_word x = word; x != 0; x >>= 8)
      if (item(x).axis >= 0) axes |= 1u << item(x).axis;
    gather(word, axes, 0, until, take);
    if ((cut & frozen) != 0 || frozen != 0 || partial != 0 || cut == 0) return;
    if constexpr (requires { cost_.on(w, 0u); })
      permute(
          word, [](layout_word) { return true; },
          [&](layout_word next, transition_kind kind, unsigned levels) { take(next, kind, levels, until(kind, levels, 0)); });
    else if (const double end = until(transition_kind::permute, 0, 0); end <= most_ && is_first_of_its_pieces(word, sent))
      permute(
          word, [&](layout_word next) { return !is_reached(next, sent, end); },
          [&](layout_word next, transition_kind kind, unsigned levels) { take(next, kind, levels, end); });
  }
  // Is nothing sent, where the second grid numbers the same devices otherwise? Asked for few kinds of layouts, often.
  constexpr bool stays(unsigned cut, unsigned partial) {
    if (!numbers_.on_the_same_devices()) return false;
    const int key = static_cast<int>(cut << max_levels | partial);
    for (int k = 0; k < stays_for_.size; ++k)
      if (stays_for_[k] / 2 == key) return stays_for_[k] % 2 != 0;
    const bool so = numbers_.keeps(cut, partial);
    stays_for_.push(2 * key + so);
    return so;
  }
  // Members of a group are numbered by device, and sums are made in that order. Lists of devices may number the groups of
  // replicas in different orders: their sums would not be the same bits. `divided`: dimensions along which nothing is replicated.
  constexpr bool is_in_order(placement const& w, unsigned levels, unsigned divided) const {
    if (w.list == nullptr || devices_over(w, levels) < 3) return true;
    unsigned others = 0;
    for (int l = 0; l < w.rank; ++l) others |= 1u << l;
    others &= ~levels;
    if ((others & ~divided) == 0) return true;
    growing<int> first, order;
    int at[max_levels]{};
    auto inside = [&](int const* c) {
      int i = 0;
      for (int l = 0; l < w.rank; ++l)
        if (levels >> l & 1) i = i * w.extents[l] + c[l];
      return i;
    };
    const int group = devices_over(w, levels), size = w.size();
    for (int i = 0; i < size; ++i) {
      w.coordinates_at(i, at);
      if (inside(at) != 0) continue;  // the first of a group
      order.size = 0;
      for (int k = 0; k < group; ++k) {
        int left = k;
        for (int l = w.rank - 1; l >= 0; --l)
          if (levels >> l & 1) {
            at[l] = left % w.extents[l];
            left /= w.extents[l];
          }
        order.push(w.device(at));
      }
      bool same = true;
      for (int a = 0; a < group && first.size > 0; ++a)
        for (int b = 0; b < a; ++b) same = same && (order[a] < order[b]) == (first[a] < first[b]);
      if (!same) return false;
      if (first.size == 0) first = order;
    }
    return true;
  }
  // Every way to cut along all of `levels`, one after the other; `axis` < 0: along any axes.
  template <class F> constexpr void add_cuts(layout_word w, unsigned levels, int axis, F f) const {
    if (levels == 0) return f(w);
    for (int i = 0; i < items.size; ++i) {
      part const& p = items[i];
      if (p.level < 0 || p.partial() || !(levels >> p.level & 1) || (axis >= 0 && p.axis != axis) || !may_add(w, i)) continue;
      add_cuts(with(w, i), levels & ~(1u << p.level), axis, f);
    }
  }
  template <class Until, class F>
  constexpr void gather(layout_word word, unsigned axes, unsigned taken, Until const& until, F const& take) {
    for (; axes != 0; axes &= axes - 1) {
      const int axis = std::countr_zero(axes);
      unsigned levels = taken;
      layout_word rest = without(word, levels);
      for (int l = innermost(rest, axis); l >= 0; l = innermost(rest, axis)) {
        levels |= 1u << l;
        rest = without(word, levels);
        const double whole = held(rest);
        take(rest, transition_kind::all_gather, levels, until(transition_kind::all_gather, levels, whole));
        if (const double end = until(transition_kind::all_to_all, levels, whole); taken == 0 && end <= most_)
          for (unsigned others = item_axes_ & ~(1u << axis); others != 0; others &= others - 1)
            add_cuts(rest, levels, std::countr_zero(others),
                     [&](layout_word next) { take(next, transition_kind::all_to_all, levels, end); });
        gather(word, axes & (axes - 1), levels, until, take);
      }
    }
  }
  // What has the same pieces has been reached from the first of them, and as soon: it costs the same over any dimensions.
  constexpr bool is_first_of_its_pieces(layout_word word, bool sent) {
    if (!wide || !is_plain(word)) return true;
    layout_word pieces = sent ? 1 : 0;
    for (int axis = 0; axis < max_rank; ++axis) {
      const int n = pieces_of(word, axis);
      if (n == 1) continue;
      if (!is_even(word, axis, n) || n >= 1 << 16) return true;
      pieces = pieces << 20 | static_cast<layout_word>(axis << 16 | n);  // of three axes at most
    }
    for (layout_word known : permuted_)
      if (known == pieces) return false;
    permuted_.push(pieces);
    return true;
  }
  constexpr bool is_reached(layout_word word, bool sent, double seconds) const {
    const int slot = table_[find(word, sent)];
    return slot >= 0 && states[slot].seconds <= seconds;
  }
  // The same pieces on other devices. `wanted(word)`: a layout for which it is worth finding out.
  template <class Wanted, class F> constexpr void permute(layout_word word, Wanted const& wanted, F const& take) {
    if (wide && is_plain(word)) return regroup(word, 0, 0, 0, wanted, take);
    int to[max_levels]{};
    for (int l = 0; l < from_.rank; ++l) to[l] = l;
    if (wide) return permutations(word, to, 0, take);
    for (int a = 0; a < from_.rank; ++a)
      for (int b = a + 1; b < from_.rank; ++b)
        if (from_.extents[a] == from_.extents[b]) {
          to[a] = b, to[b] = a;
          renamed(word, to, take);
          to[a] = a, to[b] = b;
        }
  }
  // As many pieces of every axis, along any dimensions. `made`: the new layout so far, along the dimensions `used`.
  template <class Wanted, class F>
  constexpr void regroup(layout_word word, layout_word made, int axis, unsigned used, Wanted const& wanted, F const& take) {
    while (axis < max_rank && pieces_of(word, axis) == pieces_of(made, axis)) ++axis;
    if (axis == max_rank) {
      if (made == word || !wanted(made) || !same_pieces_of(word, made)) return;
      unsigned levels = 0;
      for (layout_word a = word, b = made; a != 0 || b != 0; a >>= 8, b >>= 8) {
        if ((a & 255) == (b & 255)) continue;
        if (a != 0) levels |= 1u << item(a).level;
        if (b != 0) levels |= 1u << item(b).level;
      }
      return take(made, transition_kind::permute, levels);
    }
    const int left = pieces_of(word, axis) / pieces_of(made, axis);
    for (int i = 0; i < items.size; ++i) {
      part const& p = items[i];
      if (p.axis != axis || p.level < 0 || p.sizes >= 0 || p.fold || (used >> p.level & 1) || left % p.pieces != 0) continue;
      regroup(word, with(made, i), axis, used | 1u << p.level, wanted, take);
    }
  }
  // Dimensions of one extent change places.
  template <class F> constexpr void permutations(layout_word word, int* to, int l, F const& take) {
    if (l == from_.rank) return renamed(word, to, take);
    for (int k = l; k < from_.rank; ++k) {
      if (from_.extents[to[k]] != from_.extents[l]) continue;
      const int a = to[l], b = to[k];
      to[l] = b, to[k] = a;
      permutations(word, to, l + 1, take);
      to[l] = a, to[k] = b;
    }
  }
  template <class F> constexpr void renamed(layout_word word, int const* to, F const& take) {
    layout_word next = 0;
    unsigned levels = 0;
    int at = 0;
    for (layout_word x = word; x != 0; x >>= 8) {
      int i = static_cast<int>(x & 255) - 1;
      if (part p = items[i]; p.level >= 0 && to[p.level] != p.level) {
        levels |= 1u << p.level | 1u << to[p.level];
        p.level = static_cast<signed char>(to[p.level]);
        int k = 0;
        while (k < items.size && !(items[k].level == p.level && same_division(items[k], p))) ++k;
        if (k == items.size) return;
        i = k;
      }
      next |= static_cast<layout_word>(i + 1) << (8 * at++);
    }
    if (levels != 0) take(next, transition_kind::permute, levels);
  }

  placement from_, to_;
  bool sends_, known_ = false, good_ = true, to_goal_ = true;
  double most_ = 1e300;  // seconds; what takes longer is not looked at
  Cost const& cost_;
  renumbering numbers_;  // of the first grid in the second
  growing<int> stays_for_;
  layout_word start_ = 0, goal_ = 0;
  growing<int> table_;
  unsigned item_axes_ = 0;         // along which something can be cut
  growing<layout_word> permuted_;  // pieces that were tried on other devices
  growing<waiting> heap_;
};

}  // namespace partita::detail

#include <partita/core/end_planning_code.hpp>
