// A change of layout as one rank's instructions.
#pragma once
#include <algorithm>

#include <partita/core/sort.hpp>
#include <partita/program/builder.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail {

// All the pieces that a value has, anywhere: for moves by boxes.
struct source_piece {
  int device, stored;            // where and under which index in time
  std::vector<int> partial;      // which partial result it is
  box piece;
};

class move_lowering {
 public:
  move_lowering(lowering const& shared, program_builder& build, int rank) : s_(shared), build_(build), rank_(rank) {}

  // `sources`: this rank's pieces of the value read, by stored index; `exclusive`: nobody else reads them. Returns the
  // piece made, if the rank gets one.
  held lower(instance const& of, std::vector<held> const& sources, bool exclusive) {
    completed const& c = s_.plan_completed();
    node const& n = c.nodes[of.node];
    node_value const& from = c.values[c.input(n, 0)];
    node_value const& to = c.values[n.first_value];
    operand const& x = s_.graph().operand_of(to.tensor);
    route const& r = s_.route_of(of.node);
    if (r.by_boxes) return by_boxes(of, n, from, to, x, sources);
    bool in_from = false, in_to = false;
    const position at_from = position_at(from.lay.where, rank_, n.time, of.index, in_from);
    const position at_to = position_at(to.lay.where, rank_, n.time, of.index, in_to);
    if (!in_from && !in_to) return {};
    held now;
    layout lay = from.lay;
    if (in_from) {
      now = sources[static_cast<std::size_t>(stored_index(times_of(from.lay), at_from))];
      for (transition_step const& step : r.before) {
        const int before = now.at.buffer;
        now = take(step, lay, now, at_from, x, of, to.tensor, exclusive);
        lay = step.after;
        exclusive = exclusive || now.at.buffer != before;  // a slice is a place inside what others may read
      }
    }
    if (!r.sends) return now;
    lay = r.sent;
    exchange_call call;
    held arrived;
    const std::uint64_t tag = tag_of(of);
    if (in_from) {
      const int peer = to.lay.where.device(at_from.coordinates);
      if (peer == rank_) arrived = now;
      else if (now.piece.elements() > 0)
        call.sends.push_back({peer, now.at, now.piece.elements() * size_of(x.type), tag});
    }
    if (in_to && !arrived.valid()) {
      const int peer = from.lay.where.device(at_to.coordinates);
      arrived.piece = box_of(s_.graph(), x, lay, s_.sizes(), at_to);
      arrived.at = build_.fresh(arrived.piece, x.type, to.tensor);
      if (arrived.piece.elements() > 0)
        call.receives.push_back({peer, arrived.at, arrived.piece.elements() * size_of(x.type), tag});
    }
    build_.exchange(std::move(call), x.type, of);
    if (!in_to) return {};
    lay.where = to.lay.where;
    for (transition_step const& step : r.after) {
      arrived = take(step, lay, arrived, at_to, x, of, to.tensor, true);
      lay = step.after;
    }
    return arrived;
  }

 private:
  std::uint64_t tag_of(instance const& of) const {
    return static_cast<std::uint64_t>(s_.instances().first[of.node] + of.index);
  }

  held take(transition_step const& step, layout const& before, held const& now, position const& at, operand const& x,
            instance const& of, int tensor, bool exclusive) {
    placement const& w = before.where;
    const int n = w.extents[step.level], me = at.coordinates[step.level];
    auto piece_of = [&](layout const& l, int member) {
      position p = at;
      p.coordinates[step.level] = member;
      return box_of(s_.graph(), x, l, s_.sizes(), p);
    };
    collective_call call;
    if (step.kind != transition_kind::slice) call.group = s_.group_along(w, step.level, at.coordinates);
    for (int p = 0; p < before.count; ++p)
      if (before.parts[p].level == step.level && before.parts[p].partial()) call.reduce = before.parts[p].reduce;
    held made;
    made.piece = piece_of(step.after, me);
    switch (step.kind) {
      case transition_kind::slice:
        if (is_contiguous(now.piece, made.piece)) {
          made.at = {now.at.buffer, now.at.offset + locate(now.piece, made.piece).offset * size_of(x.type)};
          return made;
        }
        made.at = build_.fresh(made.piece, x.type, tensor);
        build_.copy(now, made, made.piece, x.type, lane::communication, of);
        return made;
      case transition_kind::all_reduce: {
        if (exclusive) made.at = now.at;
        else {
          made.at = build_.fresh(made.piece, x.type, tensor);
          build_.copy(now, made, made.piece, x.type, lane::communication, of);
        }
        call.to = made.at;
        call.counts = {made.piece.elements()};
        if (made.piece.elements() > 0) build_.collective(instruction_kind::all_reduce, std::move(call), x.type, of);
        return made;
      }
      case transition_kind::all_gather: {
        made.at = build_.fresh(made.piece, x.type, tensor);
        bool runs = true;
        std::size_t total = 0;
        for (int k = 0; k < n; ++k) {
          const box b = piece_of(before, k);
          runs = runs && is_contiguous(made.piece, b);
          call.counts.push_back(b.elements());
          total += b.elements();
        }
        if (total == 0) return made;
        call.from = now.at;
        if (runs) {
          call.to = made.at;
          build_.collective(instruction_kind::all_gather, std::move(call), x.type, of);
          return made;
        }
        const reference staging{build_.add_buffer(total * size_of(x.type), x.type, -1), 0};
        const std::vector<std::size_t> counts = call.counts;
        call.to = staging;
        build_.collective(instruction_kind::all_gather, std::move(call), x.type, of);
        unpack(staging, counts, [&](int k) { return piece_of(before, k); }, made, x.type, of);
        return made;
      }
      case transition_kind::reduce_scatter: {
        std::size_t total = 0;
        bool runs = true;
        for (int k = 0; k < n; ++k) {
          const box b = piece_of(step.after, k);
          runs = runs && is_contiguous(now.piece, b);
          call.counts.push_back(b.elements());
          total += b.elements();
        }
        made.at = build_.fresh(made.piece, x.type, tensor);
        if (total == 0) return made;
        call.from = runs ? now.at : pack(now, call.counts, [&](int k) { return piece_of(step.after, k); }, x.type, of);
        call.to = made.at;
        build_.collective(instruction_kind::reduce_scatter, std::move(call), x.type, of);
        return made;
      }
      case transition_kind::all_to_all: {
        // Before: a piece of from_axis, all of to_axis. Member k gets its piece of to_axis from every member.
        auto to_member = [&](int k) { return intersection(now.piece, piece_of(step.after, k)); };
        auto from_member = [&](int k) { return intersection(made.piece, piece_of(before, k)); };
        std::size_t sent = 0, received = 0;
        for (int k = 0; k < n; ++k) {
          call.counts.push_back(to_member(k).elements());
          call.receive_counts.push_back(from_member(k).elements());
          sent += call.counts.back();
          received += call.receive_counts.back();
        }
        made.at = build_.fresh(made.piece, x.type, tensor);
        call.from = pack(now, call.counts, to_member, x.type, of);
        const std::vector<std::size_t> counts = call.receive_counts;
        const reference staging{build_.add_buffer(received * size_of(x.type), x.type, -1), 0};
        call.to = staging;
        build_.collective(instruction_kind::all_to_all, std::move(call), x.type, of);
        unpack(staging, counts, from_member, made, x.type, of);
        (void)sent;
        return made;
      }
    }
    return made;
  }
  template <class PieceOf>
  reference pack(held const& from, std::vector<std::size_t> const& counts, PieceOf piece_of, dtype type, instance const& of) {
    std::size_t total = 0;
    for (std::size_t k : counts) total += k;
    const reference staging{build_.add_buffer(total * size_of(type), type, -1), 0};
    std::size_t at = 0;
    for (std::size_t k = 0; k < counts.size(); ++k) {
      const box b = piece_of(static_cast<int>(k));
      build_.copy(from, {{staging.buffer, at * size_of(type)}, b}, b, type, lane::communication, of);
      at += counts[k];
    }
    return staging;
  }
  template <class PieceOf>
  void unpack(reference staging, std::vector<std::size_t> const& counts, PieceOf piece_of, held const& to, dtype type,
              instance const& of) {
    std::size_t at = 0;
    for (std::size_t k = 0; k < counts.size(); ++k) {
      const box b = piece_of(static_cast<int>(k));
      build_.copy({{staging.buffer, staging.offset + at * size_of(type)}, b}, to, b, type, lane::communication, of);
      at += counts[k];
    }
  }

  // The general redistribution: every device gets the parts of its box from devices that have them, partial results one
  // after the other in their order. Of replicas the reader's own is taken, else one chosen by the reader's number.
  held by_boxes(instance const& of, node const& n, node_value const& from, node_value const& to, operand const& x,
                std::vector<held> const& sources) {
    graph_data const& g = s_.graph();
    const time_modes stored = times_of(from.lay);
    std::vector<source_piece> found, pieces;
    for (int i = 0, count = stored.size(); i < count; ++i) {
      position p;
      p.times = stored;
      stored.index(i, p.index);
      bool wanted = true;  // an index that the move shares must be the move's own
      int own[max_time_modes]{};
      n.time.index(of.index, own);
      for (int m = 0; m < stored.count; ++m)
        if (const int k = n.time.find(stored.modes[m]); k >= 0 && own[k] != p.index[m]) wanted = false;
      if (!wanted) continue;
      for (int d = 0, devices = from.lay.where.size(); d < devices; ++d) {
        from.lay.where.coordinates_at(d, p.coordinates);
        source_piece s{from.lay.where.device_at(d), i, {}, box_of(g, x, from.lay, s_.sizes(), p)};
        for (int k = 0; k < from.lay.count; ++k)
          if (from.lay.parts[k].partial()) s.partial.push_back(index_of_part(from.lay.parts[k], p));
        found.push_back(std::move(s));
      }
    }
    for (int k : sorted_ids(found.size(), [&](int a, int b) {
           return found[static_cast<std::size_t>(a)].partial < found[static_cast<std::size_t>(b)].partial;
         }))
      pieces.push_back(std::move(found[static_cast<std::size_t>(k)]));
    reduction reduce = reduction::sum;
    for (int k = 0; k < from.lay.count; ++k)
      if (from.lay.parts[k].partial()) reduce = from.lay.parts[k].reduce;

    exchange_call call;
    struct arrival {
      reference at;
      box piece;
      bool combine;
    };
    std::vector<arrival> arrivals;  // of this rank, in the order of partial results
    held made;
    bool here = false;
    std::uint64_t message = 0;
    for (int d = 0, devices = to.lay.where.size(); d < devices; ++d) {
      const int device = to.lay.where.device_at(d);
      position p;
      p.times = n.time;
      n.time.index(of.index, p.index);
      to.lay.where.coordinates_at(d, p.coordinates);
      const box wanted = box_of(g, x, to.lay, s_.sizes(), p);
      if (device == rank_) {
        here = true;
        made.piece = wanted;
        made.at = build_.fresh(wanted, x.type, to.tensor);
      }
      std::size_t begin = 0;
      while (begin < pieces.size()) {
        std::size_t end = begin;
        while (end < pieces.size() && pieces[end].partial == pieces[begin].partial) ++end;
        std::vector<std::size_t> taken;  // one holder for each distinct box
        for (std::size_t k = begin; k < end; ++k) {
          bool first = true;
          for (std::size_t q : taken) first = first && !(pieces[q].piece == pieces[k].piece);
          if (!first || intersection(pieces[k].piece, wanted).elements() == 0) continue;
          std::vector<std::size_t> holders;
          std::size_t choice = k;
          bool own = false;
          for (std::size_t q = k; q < end; ++q)
            if (pieces[q].piece == pieces[k].piece) {
              holders.push_back(q);
              if (pieces[q].device == device && !own) {
                choice = q;
                own = true;
              }
            }
          if (!own) choice = holders[static_cast<std::size_t>(d) % holders.size()];
          taken.push_back(choice);
        }
        for (std::size_t q : taken) {
          source_piece const& s = pieces[q];
          const box part = intersection(s.piece, wanted);
          const std::uint64_t tag = tag_of(of) << 24 | message++;
          const std::size_t bytes = part.elements() * size_of(x.type);
          if (s.device == rank_) {
            held const& mine = sources[static_cast<std::size_t>(s.stored)];
            if (device == rank_) {
              if (is_contiguous(mine.piece, part))
                arrivals.push_back({{mine.at.buffer, mine.at.offset + locate(mine.piece, part).offset * size_of(x.type)},
                                    part, begin > 0});
              else {
                held packed{build_.fresh(part, x.type, to.tensor), part};
                build_.copy(mine, packed, part, x.type, lane::communication, of);
                arrivals.push_back({packed.at, part, begin > 0});
              }
            } else {
              held packed{{mine.at.buffer, mine.at.offset + locate(mine.piece, part).offset * size_of(x.type)}, part};
              if (!is_contiguous(mine.piece, part)) {
                packed.at = build_.fresh(part, x.type, -1);
                build_.copy(mine, packed, part, x.type, lane::communication, of);
              }
              call.sends.push_back({device, packed.at, bytes, tag});
            }
          } else if (device == rank_) {
            const reference in = build_.fresh(part, x.type, -1);
            call.receives.push_back({s.device, in, bytes, tag});
            arrivals.push_back({in, part, begin > 0});
          }
        }
        begin = end;
      }
    }
    build_.exchange(std::move(call), x.type, of);
    for (arrival const& a : arrivals)
      build_.copy({a.at, a.piece}, made, a.piece, x.type, lane::communication, of, a.combine, reduce);
    return here ? made : held{};
  }

  lowering const& s_;
  program_builder& build_;
  int rank_;
};

}  // namespace partita::detail

#include <partita/core/end_planning_code.hpp>
