// Chains: neighbouring element- and row-wise ops of a program become one instruction that runs them tile by tile.
// The arithmetic of every element stays what it was: a tile is a piece like any other, cut along axes that every op of the
// chain may be cut on.
#pragma once
#include <algorithm>

#include <partita/core/list.hpp>
#include <partita/program/program.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

namespace detail::fuse {

inline constexpr std::size_t tile_bytes = 96 << 10;  // of all operands of a chain: well inside a core's second-level cache

// What a tile may be cut along in one op: its first output's leading axes, as far as every operand either begins with
// them or knows nothing of them.
inline int shared_depth(op_info const& f, signed char* letters) {
  if (f.output_count == 0 || f.variadic || f.is_view || f.source != source_kind::none) return 0;
  for (int d = 0; d < f.dim_count; ++d)
    if (f.dims[d].summed) return 0;
  operand const& lead = f.outputs[0];
  int depth = 0;
  for (int a = 0; a < lead.rank; ++a) {
    if (f.dims[lead.dims[a]].whole || lead.inner[a] >= 0) break;
    letters[depth++] = lead.dims[a];
  }
  auto fits = [&](operand const& x, int k, bool may_lack) {
    bool begins = x.rank >= k, knows = false;
    for (int a = 0; a < x.rank; ++a)
      for (int j = 0; j < k; ++j) knows = knows || x.dims[a] == letters[j];
    for (int j = 0; j < k && begins; ++j) begins = x.dims[j] == letters[j] && x.inner[j] < 0;
    return begins || (may_lack && !knows);
  };
  for (; depth > 0; --depth) {
    bool all = true;
    for (int i = 0; i < f.input_count; ++i) all = all && fits(f.inputs[i], depth, true);
    for (int o = 0; o < f.output_count; ++o) all = all && fits(f.outputs[o], depth, false);
    if (all) break;
  }
  return depth;
}
inline std::size_t elements(operand const& x, compute_call const& c) {
  std::size_t n = 1;
  for (int a = 0; a < x.rank; ++a) n *= c.extents[x.dims[a]] * (x.inner[a] >= 0 ? c.extents[x.inner[a]] : 1);
  return n;
}
// One pass over its largest operand: no contraction, whose tiles would be too small for a matrix product.
inline bool is_one_pass(op_info const& f, compute_call const& c) {
  std::size_t points = 1, most = 0;
  for (int d = 0; d < f.dim_count; ++d) points *= c.extents[d];
  for (int i = 0; i < f.input_count; ++i) most = std::max(most, elements(f.inputs[i], c));
  for (int o = 0; o < f.output_count; ++o) most = std::max(most, elements(f.outputs[o], c));
  return points == most;
}

struct member {
  std::size_t at;  // position in the program
  int compute;
  int depth;
  signed char letters[max_rank];
};

class pass {
 public:
  pass(program& p, graph_data const& g, int workers) : p_(p), g_(g), workers_(workers) {
    readers_.resize(p.buffers.size());
    written_.assign(p.buffers.size(), -1);
    for (std::size_t at = 0; at < p.instructions.size(); ++at) {
      instruction const& i = p.instructions[at];
      for (int k = 0; k < i.read_count; ++k) {
        list<std::size_t>& r = readers_[static_cast<std::size_t>(p.accesses[static_cast<std::size_t>(i.first_access + k)])];
        if (r.empty() || r.back() != at) r.push_back(at);
      }
      for (int k = 0; k < i.write_count; ++k) ++writers(p.accesses[static_cast<std::size_t>(i.first_access + i.read_count + k)]);
    }
  }
  void run() {
    list<bool> gone(p_.instructions.size(), false);
    list<member> now;
    auto close = [&] {
      if (now.size() > 1) {
        make(now);
        for (std::size_t k = 1; k < now.size(); ++k) gone[now[k].at] = true;
      }
      now.clear();
    };
    const std::size_t count = p_.instructions.size();
    for (std::size_t at = 0; at < count; ++at) {
      instruction const& i = p_.instructions[at];
      if (i.where == lane::compute) {
        member m;
        if (!candidate(at, m)) close();
        else {
          if (!now.empty() && !joins(now, m)) close();
          now.push_back(m);
        }
      }
      for (int k = 0; k < i.write_count; ++k)
        written_[static_cast<std::size_t>(p_.accesses[static_cast<std::size_t>(i.first_access + i.read_count + k)])] =
            static_cast<int>(at);
    }
    close();
    std::size_t kept = 0;
    for (std::size_t at = 0; at < count; ++at)
      if (!gone[at]) {
        if (kept != at) p_.instructions[kept] = p_.instructions[at];
        ++kept;
      }
    p_.instructions.resize(kept);
  }

 private:
  int& writers(int buffer) {
    writer_count_.resize(p_.buffers.size(), 0);
    return writer_count_[static_cast<std::size_t>(buffer)];
  }
  op_info const& info(compute_call const& c) const { return *g_.ops[c.op].info; }
  compute_call const& call(member const& m) const { return p_.computes[static_cast<std::size_t>(m.compute)]; }
  reference const& place(int at) const { return p_.references[static_cast<std::size_t>(at)]; }

  bool candidate(std::size_t at, member& m) {
    instruction const& i = p_.instructions[at];
    if (i.kind != instruction_kind::compute) return false;
    compute_call const& c = p_.computes[static_cast<std::size_t>(i.payload)];
    op_info const& f = info(c);
    if (c.accumulate || c.scratch.buffer >= 0 || g_.ops[c.op].when == partita::pass::update || !is_one_pass(f, c)) return false;
    m.at = at;
    m.compute = i.payload;
    m.depth = shared_depth(f, m.letters);
    if (m.depth == 0) return false;
    for (int o = 0; o < c.output_count; ++o) {
      buffer const& b = p_.buffers[static_cast<std::size_t>(place(c.first_output + o).buffer)];
      if (b.where != region::arena || writers(place(c.first_output + o).buffer) != 1) return false;
    }
    return true;
  }
  bool made_by(list<member> const& chain, reference const& r) const {
    for (member const& m : chain) {
      compute_call const& c = call(m);
      for (int o = 0; o < c.output_count; ++o)
        if (place(c.first_output + o).buffer == r.buffer) return true;
    }
    return false;
  }
  // The new member reads rows that the chain makes, at the same place, and nothing that is made after the chain begins.
  bool joins(list<member>& chain, member& m) const {
    compute_call const& c = call(m);
    op_info const& f = info(c);
    int depth = std::min(chain.front().depth, m.depth);
    bool linked = false;
    for (int k = 0; k < c.input_count; ++k) {
      reference const& r = place(c.first_input + k);
      if (!made_by(chain, r)) {
        if (written_[static_cast<std::size_t>(r.buffer)] >= static_cast<int>(chain.front().at)) return false;
        continue;
      }
      linked = true;
      operand const& x = f.input(k);
      if (x.rank == 0 || x.dims[0] != m.letters[0]) return false;  // needs more than the tile's rows
      for (member const& maker : chain)
        for (int o = 0; o < call(maker).output_count; ++o) {
          reference const& made = place(call(maker).first_output + o);
          if (made.buffer == r.buffer &&
              (made.offset != r.offset || elements(info(call(maker)).outputs[o], call(maker)) != elements(x, c)))
            return false;
        }
    }
    if (!linked) return false;
    compute_call const& first = call(chain.front());
    while (depth > 0) {
      bool same = true;
      for (int d = 0; d < depth; ++d) same = same && first.extents[chain.front().letters[d]] == c.extents[m.letters[d]];
      // A smaller depth is legal for every member only if the operands that lack the shared axes lack the fewer, too.
      for (member const& other : chain) same = same && legal(other, depth);
      if (same && legal(m, depth)) break;
      --depth;
    }
    if (depth == 0) return false;
    for (member& other : chain) other.depth = depth;
    m.depth = depth;
    return true;
  }
  bool legal(member const& m, int depth) const {
    op_info const& f = info(call(m));
    auto fits = [&](operand const& x) {
      bool begins = x.rank >= depth, knows = false;
      for (int a = 0; a < x.rank; ++a)
        for (int j = 0; j < depth; ++j) knows = knows || x.dims[a] == m.letters[j];
      for (int j = 0; j < depth && begins; ++j) begins = x.dims[j] == m.letters[j];
      return begins || !knows;
    };
    for (int i = 0; i < f.input_count; ++i)
      if (!fits(f.inputs[i])) return false;
    return true;
  }

  void make(list<member> const& members) {
    chain_call chain;
    chain.depth = members.front().depth;
    compute_call const& first = call(members.front());
    std::size_t rows = 1;
    for (int d = 0; d + 1 < chain.depth; ++d) rows *= chain.outer[d] = first.extents[members.front().letters[d]];
    chain.inner = first.extents[members.front().letters[chain.depth - 1]];
    rows *= chain.inner;
    if (rows == 0) return;
    chain.first_link = static_cast<int>(p_.links.size());
    chain.link_count = static_cast<int>(members.size());

    // Buffers that only members touch stay in the tile.
    list<int> internal;
    list<std::size_t> row_of_internal;
    list<int> reads, writes;
    std::size_t row_sum = 0;
    auto is_row_operand = [&](operand const& x, member const& m) { return x.rank > 0 && x.dims[0] == m.letters[0]; };
    for (member const& m : members) {
      compute_call const& c = call(m);
      for (int o = 0; o < c.output_count; ++o) {
        const int b = place(c.first_output + o).buffer;
        bool only_here = !p_.buffers[static_cast<std::size_t>(b)].to_end && place(c.first_output + o).offset == 0;
        for (std::size_t r : readers_[static_cast<std::size_t>(b)])
          only_here = only_here && std::any_of(members.begin(), members.end(), [&](member const& x) { return x.at == r; });
        const std::size_t row = elements(info(c).outputs[o], c) * size_of(info(c).outputs[o].type) / rows;
        row_sum += row;
        if (!only_here) continue;
        internal.push_back(b);
        row_of_internal.push_back(row);
      }
      for (int k = 0; k < c.input_count; ++k) {
        operand const& x = info(c).input(k);
        if (is_row_operand(x, m) && !made_by(members, place(c.first_input + k)))
          row_sum += elements(x, c) * size_of(x.type) / rows;
      }
    }
    chain.tile_rows = std::clamp<std::size_t>(tile_bytes / std::max<std::size_t>(row_sum, 1), 1, chain.inner);
    list<std::size_t> slot_of(internal.size());
    for (std::size_t k = 0; k < internal.size(); ++k) {
      slot_of[k] = chain.scratch_bytes;
      chain.scratch_bytes += (row_of_internal[k] * chain.tile_rows + 63) / 64 * 64;
    }
    for (member const& m : members) {
      compute_call const& c = call(m);
      chain_link link;
      link.compute = m.compute;
      for (int d = 0; d < chain.depth; ++d) link.letters[d] = m.letters[d];
      auto set = [&](int at, int reference_at, operand const& x, bool written) {
        const int b = place(reference_at).buffer;
        const auto known = std::find(internal.begin(), internal.end(), b);
        if (known != internal.end()) {
          link.operands[at] = tile_operand::internal;
          link.slots[at] = slot_of[static_cast<std::size_t>(known - internal.begin())];
          return;
        }
        if (is_row_operand(x, m)) {
          link.operands[at] = tile_operand::rows;
          link.row_bytes[at] = elements(x, c) * size_of(x.type) / rows;
        }
        (written ? writes : reads).push_back(b);
      };
      for (int k = 0; k < c.input_count; ++k) set(k, c.first_input + k, info(c).input(k), false);
      for (int o = 0; o < c.output_count; ++o) set(c.input_count + o, c.first_output + o, info(c).outputs[o], true);
      p_.links.push_back(link);
    }
    reads.erase_if([&](int b) { return std::find(writes.begin(), writes.end(), b) != writes.end(); });
    if (chain.scratch_bytes > 0) {
      buffer b;
      b.bytes = chain.scratch_bytes * static_cast<std::size_t>(workers_);
      p_.buffers.push_back(b);
      chain.scratch = {static_cast<int>(p_.buffers.size()) - 1, 0};
      writes.push_back(chain.scratch.buffer);
    }
    instruction& i = p_.instructions[members.front().at];
    i.kind = instruction_kind::chain;
    i.payload = static_cast<int>(p_.chains.size());
    i.first_access = static_cast<int>(p_.accesses.size());
    i.read_count = static_cast<int>(reads.size());
    i.write_count = static_cast<int>(writes.size());
    p_.accesses.append(reads);
    p_.accesses.append(writes);
    p_.chains.push_back(chain);
  }

  program& p_;
  graph_data const& g_;
  int workers_;
  list<list<std::size_t>> readers_;
  list<int> written_, writer_count_;
};

}  // namespace detail::fuse

inline void fuse_chains(program& p, graph_data const& g, int workers) { detail::fuse::pass(p, g, workers).run(); }

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
