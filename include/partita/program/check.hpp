// An independent check of lowered programs. It reads the instruction lists of all ranks, with the fields that
// an executor uses, and the model's graph; it shares no code with lowering and has seen neither plan nor completed plan.
// It follows which part of which tensor, reduced from which pieces, every range of bytes holds, over both lanes and all
// ranks, and concludes that what is stored and given out after the step is what the graph says.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include <partita/model/names.hpp>
#include <partita/program/check/world.hpp>

namespace partita {

struct program_check_options {
  bool forward_only = false;  // programs up to the model's outputs, which renew nothing
  // Bytes of scratch that a kernel wants for a piece, as in lowering_options: (op, extents per letter). Empty: not looked at.
  std::function<std::size_t(int, std::size_t const*)> workspace;
  // What each rank's executor launches kernels with, where ranks are processes of their own: its graph, whose attributes
  // count, and the keys of its random streams by op. Empty: the graph that is given, and its keys.
  std::vector<graph_data const*> graphs;
  std::vector<std::span<std::uint64_t const>> keys;
};

namespace detail::checking {

inline void check_ranks_agree(std::vector<program> const& programs) {
  for (std::size_t r = 0; r < programs.size(); ++r) {
    program const &p = programs[r], &first = programs[0];
    const int rank = static_cast<int>(r);
    if (p.rank != rank) fail(program_fault::malformed, rank, -1, words({"program ", r, " says it is of rank ", p.rank}));
    if (p.digest != first.digest)
      fail(program_fault::ranks_disagree, rank, -1,
           words({"rank ", r, " has programs of another graph, plan or order than rank 0: their digests differ"}));
    if (p.groups != first.groups)
      fail(program_fault::ranks_disagree, rank, -1, words({"rank ", r, " has other groups than rank 0"}));
  }
  if (programs.empty()) return;
  for (std::size_t g = 0; g < programs[0].groups.size(); ++g) {
    list<int> const& members = programs[0].groups[g];
    for (std::size_t m = 0; m < members.size(); ++m)
      if (members[m] < 0 || members[m] >= static_cast<int>(programs.size()) || (m > 0 && members[m] <= members[m - 1]))
        fail(program_fault::malformed, -1, -1, words({"group ", g, " is no sorted list of ranks"}));
  }
}

// Kernels get an op's attributes and its random key from what the rank's executor holds.
inline void check_kernels_agree(graph_data const& g, program_check_options const& how) {
  for (std::size_t r = 0; r < how.graphs.size(); ++r) {
    graph_data const& other = *how.graphs[r];
    const int rank = static_cast<int>(r);
    auto differ = [&](int op, char const* what) {
      fail(program_fault::ranks_disagree, rank, -1,
           words({"rank ", r, ": op ", g.name(op).view(), " has ", what, " than in the model's graph"}));
    };
    if (other.ops.size != g.ops.size || other.tensors.size != g.tensors.size)
      fail(program_fault::ranks_disagree, rank, -1,
           words({"rank ", r, " has a graph of ", other.ops.size, " ops, the model's has ", g.ops.size}));
    for (int op = 0; op < g.ops.size; ++op) {
      op_entry const &a = g.ops[op], &b = other.ops[op];
      if (a.info->kind != b.info->kind || a.info->source != b.info->source) differ(op, "another kind");
      if (a.first_output != b.first_output || a.input_count != b.input_count) differ(op, "other operands");
      for (int i = 0; i < a.input_count; ++i)
        if (g.input(a, i) != other.input(b, i)) differ(op, "other operands");
      for (int k = 0; k < 6; ++k)
        if (std::bit_cast<std::uint64_t>(a.given.values[k]) != std::bit_cast<std::uint64_t>(b.given.values[k]))
          differ(op, "other attributes");
      for (int d = 0; d < a.info->dim_count; ++d)
        if (g.extent(a.info->dims[d].axis) != other.extent(b.info->dims[d].axis)) differ(op, "other extents");
    }
    for (int t = 0; t < g.tensors.size; ++t)
      if (g.tensors[t].carried != other.tensors[t].carried) differ(g.tensors[t].op, "another tensor to renew");
  }
  if (how.keys.empty()) return;
  const list<std::uint64_t> keys = random_keys(g, unique_names(g));
  for (std::size_t r = 0; r < how.keys.size(); ++r)
    for (int op = 0; op < g.ops.size; ++op)
      if (how.keys[r].size() != keys.size() || how.keys[r][static_cast<std::size_t>(op)] != keys[static_cast<std::size_t>(op)])
        fail(program_fault::ranks_disagree, static_cast<int>(r), -1,
             words({"rank ", r, ": op ", g.name(op).view(), " draws from another random stream than its name says"}));
}

// Is every element of a tensor in one of the boxes that ranks have of it?
class coverage {
 public:
  explicit coverage(model_view const& m) : m_(m), parts_(static_cast<std::size_t>(m.tensor_count())) {}
  void add(outside const& o) {
    box_of_letters b;
    b.rank = o.rank;
    for (int a = 0; a < o.rank; ++a)
      b.at[a] = {static_cast<std::int64_t>(o.begin[a]), static_cast<std::int64_t>(o.begin[a] + o.extents[a])};
    if (b.elements() > 0) parts_[static_cast<std::size_t>(o.tensor)].insert(b);
  }
  void require(int tensor, char const* what) const {
    box_set all;
    for (box_of_letters const& b : parts_[static_cast<std::size_t>(tensor)]) (void)all.add(b);
    if (all.elements() == m_.tensor(tensor).elements) return;
    fail(program_fault::missing, -1, -1,
         words({m_.name_of_tensor(tensor), ": of ", static_cast<long long>(m_.tensor(tensor).elements), " elements ",
                static_cast<long long>(all.elements()), " are ", what, " by some rank"}));
  }

 private:
  model_view const& m_;
  std::vector<std::set<box_of_letters>> parts_;
};

inline void check_ends(model_view const& m, std::vector<program> const& programs, world& all, bool forward_only) {
  graph_data const& g = m.graph;
  coverage stored(m), given(m), slopes(m);
  bool with_gradients = false;
  for (std::size_t r = 0; r < programs.size(); ++r) {
    rank_check& rank = *all.ranks()[r];
    program const& p = programs[r];
    rank.check_end(p.stored, "what is stored", program_fault::not_renewed, [&](int t) {
      const int next = forward_only ? -1 : m.renewed(t);
      return next >= 0 ? next : t;
    });
    rank.check_end(p.outputs, "an output", program_fault::wrong_contents,
                   [&](int t) { return g.ops[g.tensors[t].op].info->is_output ? t : -1; });
    rank.check_end(p.gradients, "a gradient", program_fault::wrong_contents, [&](int t) { return g.tensors[t].gradient; });
    for (outside const& o : p.stored) stored.add(o);
    for (outside const& o : p.outputs) given.add(o);
    for (outside const& o : p.gradients) slopes.add(o);
    with_gradients = with_gradients || !p.gradients.empty();
  }
  for (int op = 0; op < g.ops.size; ++op) {
    op_entry const& e = g.ops[op];
    const source_kind kind = e.info->source;
    if (kind == source_kind::parameter || kind == source_kind::state || (kind == source_kind::constant && !forward_only))
      stored.require(e.first_output, "stored");
    if (e.info->is_output && (!forward_only || e.when == pass::forward)) given.require(e.first_output, "given out");
    if (with_gradients && kind == source_kind::parameter && m.renewed(e.first_output) >= 0)
      slopes.require(e.first_output, "given out as a gradient");
  }
}
// "rank 1, instruction 17, op fc.weight (sgd, update): ..." before a finding's words.
[[gnu::cold]] inline program_finding with_place(graph_data const& g, std::vector<program> const& programs, program_finding f) {
  if (f.rank < 0 || (f.instruction < 0 && f.words.starts_with("rank "))) return f;
  std::string place = words({"rank ", f.rank});
  program const& p = programs[static_cast<std::size_t>(f.rank)];
  if (f.instruction >= 0 && static_cast<std::size_t>(f.instruction) < p.instructions.size()) {
    instruction const& i = p.instructions[static_cast<std::size_t>(f.instruction)];
    place += words({", instruction ", f.instruction, ", "});
    const bool readable =
        f.what != program_fault::malformed &&
        (i.kind != instruction_kind::compute || (i.payload >= 0 && static_cast<std::size_t>(i.payload) < p.computes.size()));
    place += readable ? words_of(p, g, i) : std::string(name_of(i.kind));
  }
  f.words = place + ": " + f.words;
  return f;
}
}  // namespace detail::checking

// The first thing that is wrong with the programs of all ranks of one plan, by rank; nothing when they compute what the
// graph says. Bad programs are no reason to throw, or to stop: whatever they hold, the answer is a finding.
inline program_finding check_programs(graph_data const& g, std::vector<program> const& programs,
                                      program_check_options const& how = {}) {
  using namespace detail::checking;
  try {
    if (programs.empty()) fail(program_fault::missing, -1, -1, "there are no programs");
    check_ranks_agree(programs);
    check_kernels_agree(g, how);
    const model_view m(g);
    world all(m, programs, how.workspace);
    all.run();
    check_ends(m, programs, all, how.forward_only);
  } catch (stop const& s) { return with_place(g, programs, s.found); }
  return {};
}

}  // namespace partita
