// Faults put into programs: each kind looks for places where it can stand, picks one at random, and changes the copies
// that it is given. Whether a fault that the check does not see is harmless is judged without it (faults_trial.hpp).
#pragma once
#include <algorithm>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <partita/program/check.hpp>

namespace partita::testing {

struct place_of_instruction {
  int rank, at;
};

// The programs of all ranks, to be damaged.
class injection {
 public:
  using workspace_of = std::function<std::size_t(int, std::size_t const*)>;
  injection(graph_data const& graph, std::vector<program> const& good, unsigned seed, workspace_of workspace = {})
      : g(graph),
        programs(good),
        random(seed),
        workspace_(std::move(workspace)),
        part_(static_cast<int>(seed * 2654435761u >> 26)) {}

  graph_data const& g;
  std::vector<program> programs;
  std::mt19937 random;
  std::string words;  // what was done
  // What the ranks' executors launch with, where a fault is there.
  std::vector<graph_data> graphs;
  std::vector<list<std::uint64_t>> keys;

  program_finding check() const {
    program_check_options how;
    how.workspace = workspace_;
    for (graph_data const& other : graphs) how.graphs.push_back(&other);
    for (auto const& k : keys) how.keys.emplace_back(k);
    return check_programs(g, programs, how);
  }

  // -- choosing
  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random); }
  template <class T> T const& any(std::vector<T> const& all) {
    return all[static_cast<std::size_t>(below(static_cast<int>(all.size())))];
  }
  program& of(place_of_instruction const& p) { return programs[static_cast<std::size_t>(p.rank)]; }
  instruction& at(place_of_instruction const& p) { return of(p).instructions[static_cast<std::size_t>(p.at)]; }
  compute_call& compute_at(place_of_instruction const& p) { return of(p).computes[static_cast<std::size_t>(at(p).payload)]; }
  collective_call& collective_at(place_of_instruction const& p) {
    return of(p).collectives[static_cast<std::size_t>(part_of(at(p)))];
  }
  // Of calls that are made as one always the same, on all ranks.
  int part_of(instruction const& i) const { return i.payload + part_ % std::max(1, i.call_count); }
  collective_call const& call_of(program const& p, instruction const& i) const {
    return p.collectives[static_cast<std::size_t>(part_of(i))];
  }
  exchange_call& exchange_at(place_of_instruction const& p) { return of(p).exchanges[static_cast<std::size_t>(at(p).payload)]; }
  chain_call& chain_at(place_of_instruction const& p) { return of(p).chains[static_cast<std::size_t>(at(p).payload)]; }
  std::vector<place_of_instruction> places(std::function<bool(program const&, instruction const&)> const& wanted) const {
    std::vector<place_of_instruction> found;
    for (std::size_t r = 0; r < programs.size(); ++r)
      for (std::size_t i = 0; i < programs[r].instructions.size(); ++i)
        if (wanted(programs[r], programs[r].instructions[i])) found.push_back({static_cast<int>(r), static_cast<int>(i)});
    return found;
  }
  std::vector<place_of_instruction> places(instruction_kind kind) const {
    return places([=](program const&, instruction const& i) { return i.kind == kind; });
  }
  // Notes where the fault stands.
  void say(place_of_instruction const& p, std::string const& what) {
    words =
        what + " at rank " + std::to_string(p.rank) + ", instruction " + std::to_string(p.at) + ", " + words_of(of(p), g, at(p));
  }

  // -- taking part in one call: the members' instructions
  std::vector<place_of_instruction> members(place_of_instruction const& p) {
    std::vector<place_of_instruction> all;
    const int group = collective_at(p).group;
    int number = 0;  // how many calls of the group come before
    auto counts = [&](program const& q, instruction const& i) {
      return i.kind >= instruction_kind::all_reduce && i.kind <= instruction_kind::all_to_all &&
             q.collectives[static_cast<std::size_t>(i.payload)].group == group;
    };
    for (int i = 0; i < p.at; ++i) number += counts(of(p), of(p).instructions[static_cast<std::size_t>(i)]);
    for (int r : of(p).groups[static_cast<std::size_t>(group)]) {
      program const& q = programs[static_cast<std::size_t>(r)];
      int seen = 0;
      for (std::size_t i = 0; i < q.instructions.size(); ++i)
        if (counts(q, q.instructions[i]) && seen++ == number) all.push_back({r, static_cast<int>(i)});
    }
    return all;
  }

  // -- changing the list, so that every wait is still for the same instruction
  void remove(place_of_instruction const& p) {
    program& q = of(p);
    const lane where = at(p).where;
    const int number = number_in_lane(q, p.at);
    for (std::size_t i = static_cast<std::size_t>(p.at) + 1; i < q.instructions.size(); ++i)
      if (instruction& x = q.instructions[i]; x.where != where && x.wait >= number) --x.wait;
    q.instructions.erase(q.instructions.begin() + p.at);
  }
  // Puts an instruction before position `at`; it waits for all that comes before it, and what comes after it waits for it.
  void insert(int rank, int position, instruction x) {
    program& q = programs[static_cast<std::size_t>(rank)];
    int before[2]{};
    for (int i = 0; i < position; ++i) ++before[q.instructions[static_cast<std::size_t>(i)].where == lane::compute ? 0 : 1];
    const int mine = x.where == lane::compute ? 0 : 1, number = before[mine] + 1;
    x.wait = before[1 - mine];
    for (std::size_t i = static_cast<std::size_t>(position); i < q.instructions.size(); ++i)
      if (instruction& y = q.instructions[i]; y.where != x.where) y.wait = std::max(y.wait + (y.wait >= number ? 1 : 0), number);
    q.instructions.insert(q.instructions.begin() + position, x);
  }
  static int number_in_lane(program const& q, int position) {  // from 1
    int n = 0;
    for (int i = 0; i <= position; ++i)
      n += q.instructions[static_cast<std::size_t>(i)].where == q.instructions[static_cast<std::size_t>(position)].where;
    return n;
  }

  std::size_t bytes_of_operand(compute_call const& c, operand const& x) const {
    std::size_t n = size_of(x.type);
    for (int a = 0; a < x.rank; ++a) n *= c.extents[x.dims[a]] * (x.inner[a] >= 0 ? c.extents[x.inner[a]] : 1);
    return n;
  }

 private:
  workspace_of workspace_;
  int part_;
};

struct fault_kind {
  std::string name;
  std::function<bool(injection&)> put;  // false: there is no place for it
};

}  // namespace partita::testing
