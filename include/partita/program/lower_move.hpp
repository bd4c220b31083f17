// A change of layout as one rank's instructions.
#pragma once
#include <algorithm>

#include <partita/core/list.hpp>
#include <partita/program/builder.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail {

class move_lowering {
 public:
  move_lowering(lowering const& shared, program_builder& build, int rank) : s_(shared), build_(build), rank_(rank) {}

  // `sources`: this rank's pieces of the value read, by stored index; `exclusive`: nobody else reads them. Returns the
  // piece made, if the rank gets one.
  held lower(instance const& of, list<held> const& sources, bool exclusive) {
    completed const& c = s_.plan_completed();
    node const& n = c.nodes[of.node];
    route const& way = s_.route_of(of.node);
    const int tensor = c.values[n.first_value].tensor;
    task what{of, n, s_.graph().operand_of(tensor), shape_of(s_.graph(), s_.graph().operand_of(tensor)), tensor, &sources};
    layout lay = way.start;
    held now;
    bool here = false;
    position at = position_at(lay.where, rank_, n.time, of.index, here);
    if (here && (way.steps.size == 0 || way.steps[0].kind != transition_kind::boxes))
      now = sources[static_cast<std::size_t>(stored_index(times_of(lay), at))];
    build_.step = 0;
    for (transition_step const& step : way.steps) {
      if (step.kind == transition_kind::boxes) now = by_boxes(what, lay, step.after, now);
      else {
        const int before = now.at.buffer;
        if (step.kind == transition_kind::send) now = send(what, lay, step.after, now, at, here);
        else if (here && step.kind != transition_kind::renumber)
          now = step.kind == transition_kind::permute ? permute(what, lay, step.after, now, at)
                                                      : take(what, step, lay, now, at, exclusive);
        exclusive = exclusive || now.at.buffer != before;  // a slice is a place inside what others may read
      }
      what.sources = nullptr;
      ++build_.step;
      lay = step.after;
      at = position_at(lay.where, rank_, n.time, of.index, here);
    }
    return now;
  }

 private:
  struct task {
    instance const& of;
    node const& n;
    operand const& x;
    tensor_shape shape;
    int tensor;
    list<held> const* sources;  // null after the first step
  };

  std::uint64_t tag_of(instance const& of) const { return static_cast<std::uint64_t>(s_.instances().first[of.node] + of.index); }
  held fresh(task const& t, box_list const& piece, bool of_tensor = true) {
    return {build_.fresh(piece, t.x.type, of_tensor ? t.tensor : -1), piece};
  }
  // A part of what is held, as a place inside it.
  static reference inside(held const& h, run_in const& run, dtype type) {
    return {h.at.buffer, h.at.offset + run.offset * size_of(type)};
  }
  box_list piece_at(task const& t, layout const& l, int const* coordinates) const {
    position p;
    p.times = t.n.time;
    t.n.time.index(t.of.index, p.index);
    for (int k = 0; k < l.where.rank; ++k) p.coordinates[k] = coordinates[k];
    return boxes_at(l, t.shape, s_.sizes(), p);
  }

  held take(task const& t, transition_step const& step, layout const& before, held const& now, position const& at,
            bool exclusive) {
    operand const& x = t.x;
    collective_call call;
    device_group group;
    if (step.kind != transition_kind::slice) group = s_.group_of(before.where, step.levels, at.coordinates);
    call.group = group.id;
    for (int p = 0; p < before.count; ++p)
      if (part const& q = before.parts[p]; q.partial() && q.level >= 0 && step.levels >> q.level & 1) call.reduce = q.reduce;
    const int n = static_cast<int>(group.coordinates.size());
    auto piece_of = [&](layout const& l, int member) {
      return piece_at(t, l, group.coordinates[static_cast<std::size_t>(member)].data());
    };
    held made;
    made.piece = piece_at(t, step.after, at.coordinates);
    switch (step.kind) {
      case transition_kind::slice: return part_of(t, now, made.piece);
      case transition_kind::all_reduce: {
        if (exclusive) made.at = now.at;
        else {
          made = fresh(t, made.piece);
          build_.copy(now, made, x.type, lane::communication, t.of);
        }
        call.to = made.at;
        call.counts = {made.piece.elements()};
        if (call.counts[0] > 0) build_.collective(instruction_kind::all_reduce, std::move(call), x.type, t.of);
        return made;
      }
      case transition_kind::all_gather: {
        made = fresh(t, made.piece);
        bool in_order = true;  // one member's piece after another's in what is made
        std::size_t total = 0;
        for (int k = 0; k < n; ++k) {
          const box_list b = piece_of(before, k);
          const run_in run = find_run(made.piece, b);
          call.counts.push_back(b.elements());
          in_order = in_order && run.one_run && (b.elements() == 0 || run.offset == total);
          total += call.counts.back();
        }
        if (total == 0) return made;
        call.from = now.at;
        if (in_order) {
          call.to = made.at;
          build_.collective(instruction_kind::all_gather, std::move(call), x.type, t.of);
          return made;
        }
        const reference staging{build_.add_buffer(total * size_of(x.type), x.type, -1), 0};
        const list<std::size_t> counts = call.counts;
        call.to = staging;
        build_.collective(instruction_kind::all_gather, std::move(call), x.type, t.of);
        unpack(
            t, staging, counts, [&](int k) { return piece_of(before, k); }, made);
        return made;
      }
      case transition_kind::reduce_scatter: {
        std::size_t total = 0;
        bool in_order = true;
        for (int k = 0; k < n; ++k) {
          const box_list b = piece_of(step.after, k);
          const run_in run = find_run(now.piece, b);
          call.counts.push_back(b.elements());
          in_order = in_order && run.one_run && (b.elements() == 0 || run.offset == total);
          total += call.counts.back();
        }
        made = fresh(t, made.piece);
        if (total == 0) return made;
        call.from = in_order ? now.at : pack(t, now, call.counts, [&](int k) { return piece_of(step.after, k); });
        call.to = made.at;
        build_.collective(instruction_kind::reduce_scatter, std::move(call), x.type, t.of);
        return made;
      }
      default: break;
    }
    // all_to_all. Before: a piece of from_axis, all of to_axis. Member k gets its piece of to_axis from every member.
    list<box_list> to_member, from_member;
    std::size_t received = 0;
    for (int k = 0; k < n; ++k) {
      to_member.push_back(common(now.piece, piece_of(step.after, k)));
      from_member.push_back(common(made.piece, piece_of(before, k)));
      call.counts.push_back(to_member.back().elements());
      call.receive_counts.push_back(from_member.back().elements());
      received += call.receive_counts.back();
    }
    if (!sends_to_others(call, group, at) && !anything_moves(t, group, before, step.after)) return part_of(t, now, made.piece);
    made = fresh(t, made.piece);
    call.from = pack(t, now, call.counts, [&](int k) { return to_member[static_cast<std::size_t>(k)]; });
    const list<std::size_t> counts = call.receive_counts;
    const reference staging{build_.add_buffer(received * size_of(x.type), x.type, -1), 0};
    call.to = staging;
    build_.collective(instruction_kind::all_to_all, std::move(call), x.type, t.of);
    unpack(
        t, staging, counts, [&](int k) { return from_member[static_cast<std::size_t>(k)]; }, made);
    return made;
  }
  // A part of what is held: a place inside it where that is one run of memory, else a copy.
  held part_of(task const& t, held const& now, box_list const& piece) {
    if (const run_in run = find_run(now.piece, piece); run.one_run) return {inside(now, run, t.x.type), piece};
    const held made = fresh(t, piece);
    build_.copy(now, made, t.x.type, lane::communication, t.of);
    return made;
  }
  static bool sends_to_others(collective_call const& call, device_group const& group, position const& at) {
    for (std::size_t k = 0; k < call.counts.size(); ++k)
      if (call.counts[k] + call.receive_counts[k] > 0 &&
          !std::equal(group.coordinates[k].begin(), group.coordinates[k].end(), at.coordinates))
        return true;
    return false;
  }
  // Does a member get anything from another one? The same answer on all of them.
  bool anything_moves(task const& t, device_group const& group, layout const& before, layout const& after) const {
    for (std::size_t from = 0; from < group.coordinates.size(); ++from)
      for (std::size_t to = 0; to < group.coordinates.size(); ++to)
        if (from != to &&
            common(piece_at(t, before, group.coordinates[from].data()), piece_at(t, after, group.coordinates[to].data()))
                    .elements() > 0)
          return true;
    return false;
  }
  // What two pieces share, in the order of the tensor, so that both sides have it in one order.
  static box_list common(box_list const& a, box_list const& b) {
    list<box> all;
    for (int i = 0; i < a.count(); ++i)
      for (int k = 0; k < b.count(); ++k)
        if (const box both = intersection(a[i], b[k]); both.elements() > 0) all.push_back(both);
    auto before = [&](int i, int k) {
      box const &x = all[static_cast<std::size_t>(i)], &y = all[static_cast<std::size_t>(k)];
      for (int axis = 0; axis < x.rank; ++axis)
        if (x.at[axis].begin != y.at[axis].begin) return x.at[axis].begin < y.at[axis].begin;
      return false;
    };
    box_list r{intersection(a.first, b.first)};
    bool first = true;
    for (int i : sorted_ids(all.size(), before)) {
      if (first) r.first = all[static_cast<std::size_t>(i)];
      else r.rest.push_back(all[static_cast<std::size_t>(i)]);
      first = false;
    }
    if (all.empty()) r.first.at[0].size = 0;
    return r;
  }
  template <class PieceOf> reference pack(task const& t, held const& from, list<std::size_t> const& counts, PieceOf piece_of) {
    std::size_t total = 0;
    for (std::size_t k : counts) total += k;
    const reference staging{build_.add_buffer(total * size_of(t.x.type), t.x.type, -1), 0};
    std::size_t at = 0;
    for (std::size_t k = 0; k < counts.size(); ++k) {
      const held to{{staging.buffer, at * size_of(t.x.type)}, piece_of(static_cast<int>(k))};
      build_.copy(from, to, t.x.type, lane::communication, t.of);
      at += counts[k];
    }
    return staging;
  }
  template <class PieceOf>
  void unpack(task const& t, reference staging, list<std::size_t> const& counts, PieceOf piece_of, held const& to) {
    std::size_t at = 0;
    for (std::size_t k = 0; k < counts.size(); ++k) {
      const held from{{staging.buffer, staging.offset + at * size_of(t.x.type)}, piece_of(static_cast<int>(k))};
      build_.copy(from, to, t.x.type, lane::communication, t.of);
      at += counts[k];
    }
  }

  // Every device of one grid to its counterpart on the other.
  held send(task const& t, layout const& before, layout const& after, held const& now, position const& at, bool here) {
    exchange_call call;
    if (here) {
      const int peer = after.where.device(at.coordinates);
      if (peer == rank_) return now;
      if (now.piece.elements() > 0) call.sends.push_back({peer, now.at, now.piece.elements() * size_of(t.x.type), tag_of(t.of)});
    }
    held arrived;
    int c[max_levels]{};
    if (after.where.coordinates_of(rank_, c)) {
      arrived = fresh(t, piece_at(t, after, c));
      if (arrived.piece.elements() > 0)
        call.receives.push_back({before.where.device(c), arrived.at, arrived.piece.elements() * size_of(t.x.type), tag_of(t.of)});
    }
    build_.exchange(std::move(call), t.x.type, t.of);
    return arrived;
  }

  // Who has a piece and who wants it, matched in the order of devices; those that do both keep it.
  struct peers {
    int to = -1, from = -1;
  };
  peers peers_of(task const& t, layout const& before, layout const& after, box_list const& mine, box_list const& wanted) const {
    list<int> have_mine, want_mine, have_wanted, want_wanted;
    int c[max_levels]{};
    for (int i = 0, n = before.where.size(); i < n; ++i) {
      before.where.coordinates_at(i, c);
      const int device = before.where.device(c);
      const box_list has = piece_at(t, before, c), wants = piece_at(t, after, c);
      if (has == wants) continue;
      if (has == mine) have_mine.push_back(device);
      if (wants == mine) want_mine.push_back(device);
      if (has == wanted) have_wanted.push_back(device);
      if (wants == wanted) want_wanted.push_back(device);
    }
    auto match = [&](list<int> const& in, list<int> const& out) {
      const auto at = std::find(in.begin(), in.end(), rank_) - in.begin();
      return out[static_cast<std::size_t>(at)];
    };
    return {match(have_mine, want_mine), match(want_wanted, have_wanted)};
  }
  held permute(task const& t, layout const& before, layout const& after, held const& now, position const& at) {
    const box_list wanted = piece_at(t, after, at.coordinates);
    if (wanted == now.piece) return now;
    const peers with = peers_of(t, before, after, now.piece, wanted);
    const held made = fresh(t, wanted);
    exchange_call call;
    if (now.piece.elements() > 0) call.sends.push_back({with.to, now.at, now.piece.elements() * size_of(t.x.type), tag_of(t.of)});
    if (wanted.elements() > 0) call.receives.push_back({with.from, made.at, wanted.elements() * size_of(t.x.type), tag_of(t.of)});
    build_.exchange(std::move(call), t.x.type, t.of);
    return made;
  }

  // ---- the general redistribution
  held by_boxes(task const& t, layout const& before, layout const& after, held const& now) {
    list<device_piece> sources = sources_of(t, before), wanted;
    reduction reduce = reduction::sum;
    for (int k = 0; k < before.count; ++k)
      if (before.parts[k].partial()) reduce = before.parts[k].reduce;
    held made;
    int mine = -1;
    for (int d = 0, devices = after.where.size(); d < devices; ++d) {
      int c[max_levels]{};
      after.where.coordinates_at(d, c);
      wanted.push_back({after.where.device(c), 0, {}, piece_at(t, after, c)});
      if (wanted.back().device == rank_) mine = d;
    }
    const list<delivery> all = redistribute(sources, wanted);
    auto held_of = [&](device_piece const& s) -> held const& {
      return t.sources == nullptr ? now : (*t.sources)[static_cast<std::size_t>(s.stored)];
    };
    int of_mine = 0;
    for (delivery const& d : all) of_mine += d.wanted == mine;
    if (mine >= 0) made.piece = wanted[static_cast<std::size_t>(mine)].boxes;
    exchange_call call;
    list<std::pair<held, bool>> arrivals;  // what is still to be put into its place, and whether it combines
    for (std::size_t k = 0; k < all.size(); ++k) {
      delivery const& d = all[k];
      device_piece const& s = sources[static_cast<std::size_t>(d.source)];
      const int reader = wanted[static_cast<std::size_t>(d.wanted)].device;
      const box_list part{d.part};
      const std::uint64_t tag = tag_of(t.of) << 24 | k;
      const std::size_t bytes = d.part.elements() * size_of(t.x.type);
      if (s.device == rank_) {
        held const& own = held_of(s);
        const run_in run = find_run(own.piece, part);
        held packed{run.one_run ? inside(own, run, t.x.type) : reference{}, part};
        if (!run.one_run) {
          packed = fresh(t, part, reader == rank_);
          build_.copy(own, packed, t.x.type, lane::communication, t.of);
        }
        if (reader != rank_) call.sends.push_back({reader, packed.at, bytes, tag});
        else if (of_mine == 1 && made.piece.count() == 1 && part == made.piece) made.at = packed.at;
        else arrivals.emplace_back(packed, d.combines);
      } else if (reader == rank_) {
        const held in = fresh(t, part, of_mine == 1);
        call.receives.push_back({s.device, in.at, bytes, tag});
        if (of_mine == 1 && made.piece.count() == 1 && part == made.piece) made.at = in.at;
        else arrivals.emplace_back(in, d.combines);
      }
    }
    if (mine >= 0 && !made.valid()) made = fresh(t, made.piece);
    build_.exchange(std::move(call), t.x.type, t.of);
    for (auto const& [from, combines] : arrivals) build_.copy(from, made, t.x.type, lane::communication, t.of, combines, reduce);
    return made;
  }
  // All the pieces that a value has, anywhere, at the indices in time that the move shares with it.
  list<device_piece> sources_of(task const& t, layout const& before) const {
    list<device_piece> found;
    const time_modes stored = times_of(before);
    int own[max_time_modes]{};
    t.n.time.index(t.of.index, own);
    for (int i = 0, count = stored.size(); i < count; ++i) {
      position p;
      p.times = stored;
      stored.index(i, p.index);
      bool wanted = true;
      for (int m = 0; m < stored.count; ++m)
        if (const int k = t.n.time.find(stored.modes[m]); k >= 0 && own[k] != p.index[m]) wanted = false;
      if (!wanted) continue;
      for (int d = 0, devices = before.where.size(); d < devices; ++d) {
        before.where.coordinates_at(d, p.coordinates);
        device_piece s{before.where.device(p.coordinates), i, {}, boxes_at(before, t.shape, s_.sizes(), p)};
        for (int k = 0; k < before.count; ++k)
          if (before.parts[k].partial()) s.partial.push_back(index_of_part(before.parts[k], p));
        found.push_back(std::move(s));
      }
    }
    return found;
  }

  lowering const& s_;
  program_builder& build_;
  int rank_;
};

}  // namespace partita::detail

#include <partita/core/end_planning_code.hpp>
