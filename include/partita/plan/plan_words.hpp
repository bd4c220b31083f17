// What the parts of a plan share: the names of modes, given sizes and lists of devices, the rules by which cuts and places
// are added, and the first mistake.
#pragma once
#include <partita/plan/plan_entries.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

class plan_words {
 public:
  static constexpr long most_pieces = 1L << 30, most_devices = 1L << 24;  // of an op: pieces are counted in 32 bits
  constexpr graph_data const& graph() const { return *graph_; }
  constexpr growing<mode_name> const& modes() const { return modes_; }
  constexpr int const* sizes(int at) const { return at < 0 ? nullptr : sizes_.at + at; }
  constexpr growing<int> const& devices_of_list(int list) const { return lists_[list]; }
  constexpr finding const& first_finding() const { return first_; }
  constexpr void note(finding const& f) {
    if (first_.what == wrong::nothing) first_ = f;
  }
  // What is no mistake and yet may not be what was wanted; the first is kept.
  constexpr void advise(wrong what, std::string_view mode, axis_info const* axis, long have, long allowed, int line = 0) {
    if (advice_) return;
    advice_.what = what;
    advice_.other = text<96>(mode);
    advice_.axis = axis;
    advice_.have = have;
    advice_.allowed = allowed;
    advice_.line = line;
  }
  constexpr finding const& advice() const { return advice_; }
  // Where a grid with a dimension of that name was first given; 0: nowhere.
  constexpr int line_of_grid(short mode) const { return mode < grid_lines_.size ? grid_lines_[mode] : 0; }
  constexpr void note_words(std::string_view words, int line) {
    finding f{wrong::bad_arguments};
    f.op.put(words);
    f.line = line;
    note(f);
  }
  constexpr finding about(wrong what, int op, axis_info const* axis, long have, long allowed, int line) const {
    finding f{what};
    f.op = graph_->name(op);
    f.axis = axis;
    f.have = have;
    f.allowed = allowed;
    f.line = line;
    return f;
  }
  constexpr finding about_mode(wrong what, int op, short mode, long have, long allowed, int line) const {
    finding f = about(what, op, nullptr, have, allowed, line);
    f.other = text<96>(modes_[mode].view());
    return f;
  }
  constexpr short find_mode(mode_name const& n) const {
    for (int m = 0; m < modes_.size; ++m)
      if (modes_[m].view() == n.view()) return static_cast<short>(m);
    return -1;
  }
  constexpr short intern(mode_name const& n) {
    if (!n.whole) note_words("the name of a mode has more than 24 characters", 0);
    const short known = find_mode(n);
    if (known >= 0) return known;
    modes_.push(n);
    return static_cast<short>(modes_.size - 1);
  }

  constexpr moment_entry entry_of(moment const& m, int line) {
    moment_entry e;
    e.op = m.op;
    e.node = m.node;
    e.when = static_cast<signed char>(m.when);
    if (m.place_count > max_coordinates || m.index_count > max_coordinates) {
      note_words("a moment has more than 4 coordinates or indices", line);
      return e;
    }
    for (; e.place_count < m.place_count; ++e.place_count) {
      moment::coordinate const& c = m.places[e.place_count];
      if (c.index < 0) note_words("a moment is at a coordinate below 0", line);
      e.places[e.place_count] = {intern(mode_name(c.name)), c.index};
    }
    for (; e.index_count < m.index_count; ++e.index_count) {
      moment::coordinate const& c = m.indices[e.index_count];
      if (c.index < 0) note_words("a moment is at an index below 0", line);
      e.indices[e.index_count] = {intern(mode_name(c.name)), c.index};
    }
    return e;
  }

 protected:
  constexpr explicit plan_words(graph_data const& g) : graph_(&g) {}
  constexpr void note_axis(wrong what, axis_info const* axis, int line, char letter = 0) {
    finding f{what};
    f.axis = axis;
    f.letter = letter;
    f.line = line;
    note(f);
  }
  constexpr void note_op(wrong what, int op, axis_info const* axis, long have, long allowed, int line) {
    note(about(what, op, axis, have, allowed, line));
  }

  constexpr void remember_grid(short mode, int line) {
    while (grid_lines_.size <= mode) grid_lines_.push(0);
    if (grid_lines_[mode] == 0) grid_lines_[mode] = line;
  }

  // What a cut says, but for the axis, which op or tensor it is of says. False: it makes no sense.
  constexpr bool read(cut_axis const& c, int line, op_cut& made) {
    auto refuse = [&](std::string_view words) {
      note_words(words, line);
      return false;
    };
    if (c.pieces < 1) return refuse("a cut needs at least one piece");
    if (c.size_count > 0 && c.size_count != c.pieces) return refuse("a cut needs as many sizes as pieces");
    for (int i = 0; i < c.size_count; ++i)
      if (c.sizes[i] < 0) return refuse("the size of a piece is negative");
    if (c.fold && c.size_count > 0) return refuse("a folded cut takes no sizes");
    made.mode = intern(c.mode);
    made.skew = c.skew.view().empty() ? short{-1} : intern(c.skew);
    made.pieces = c.pieces;
    made.sizes = c.size_count > 0 ? intern(c.sizes, c.size_count) : -1;
    made.line = line;
    made.fold = c.fold;
    return true;
  }
  // `op`: whose plan it is, or which makes the tensor that it is about.
  constexpr void push_cut(op_plan& p, int op, op_cut const& c) {
    if (p.cut_count == max_parts) return note_op(wrong::too_many_cuts, op, nullptr, 0, max_parts, c.line);
    long pieces = c.pieces;
    for (int i = 0; i < p.cut_count; ++i) pieces *= p.cuts[i].pieces;
    if (pieces > most_pieces) return note_words("an op is cut into more than 2^30 pieces", c.line);
    for (int i = 0; i < p.cut_count; ++i)
      if (p.cuts[i].mode == c.mode) return note(about_mode(wrong::mode_used_twice, op, c.mode, 2, 1, c.line));
    p.cuts[p.cut_count++] = c;
  }
  constexpr void push_level(op_plan& p, int op, level const& l, int line) {
    if (p.level_count == max_levels) return note_op(wrong::too_many_cuts, op, nullptr, 0, max_levels, line);
    if (l.extent < 1 || l.coordinate >= l.extent)
      return note(about_mode(wrong::device_out_of_range, op, l.mode, l.coordinate, l.extent, line));
    long places = l.extent;
    for (int i = 0; i < p.level_count; ++i) places *= p.levels[i].extent;
    if (places > most_devices) return note_words("an op is on a grid of more than 2^24 devices", line);
    for (int i = 0; i < p.level_count; ++i)
      if (p.levels[i].mode == l.mode) return note(about_mode(wrong::dimension_assigned_twice, op, l.mode, 2, 1, line));
    p.levels[p.level_count++] = l;
    p.assigned = true;
  }
  constexpr void push_list(op_plan& p, int op, device_list const& list, int line) {
    if (p.list >= 0) return note_words("an op is given two lists of devices", line);
    for (int i = 0; i < list.count; ++i) {
      if (list.at[i] < 0) return note_words("a list of devices has a number below 0", line);
      for (int k = 0; k < i; ++k)
        if (list.at[k] == list.at[i]) return note_op(wrong::device_twice, op, nullptr, list.at[i], 1, line);
    }
    p.list = intern_list(list);
    p.list_line = line;
    p.assigned = true;
  }

  graph_data const* graph_;

 private:
  constexpr short intern_list(device_list const& list) {
    for (int k = 0; k < lists_.size; ++k) {
      bool same = lists_[k].size == list.count;
      for (int i = 0; i < list.count && same; ++i) same = lists_[k][i] == list.at[i];
      if (same) return static_cast<short>(k);
    }
    growing<int> made;
    made.reserve(list.count);
    for (int i = 0; i < list.count; ++i) made.push(list.at[i]);
    lists_.push(made);
    return static_cast<short>(lists_.size - 1);
  }
  // Equal sizes have one place, so that cuts compare by it.
  constexpr int intern(int const* sizes, int count) {
    for (int at = 0; at + count <= sizes_.size; ++at) {
      bool same = true;
      for (int i = 0; i < count && same; ++i) same = sizes_[at + i] == sizes[i];
      if (same) return at;
    }
    const int at = sizes_.size;
    for (int i = 0; i < count; ++i) sizes_.push(sizes[i]);
    return at;
  }
  growing<mode_name> modes_;
  growing<int> sizes_;
  growing<growing<int>> lists_;  // of devices; each stays where it is when another is added
  growing<int> grid_lines_;      // by mode
  finding first_{}, advice_{};
};

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
