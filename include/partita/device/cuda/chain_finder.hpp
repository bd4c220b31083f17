// Which instructions of a program run as one kernel (device/cuda/chain.hpp): element-wise ops of the compute lane, each of which
// reads what an earlier one makes or reads, and for which the training has a kernel.
#pragma once
#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include <partita/core/list.hpp>
#include <partita/device/cuda/chain_table.hpp>
#include <partita/device/cuda/launcher.hpp>
#include <partita/device/cuda/memory_range.hpp>
#include <partita/program/program.hpp>

namespace partita::on_cuda {

// A chain runs in the place of its last op, or else of its first. What stands between changes places with the ops that move: it
// may neither read what they make nor write where they read or write. Nothing of the other lane may wait for an op that moves
// back, and an op that moves ahead waits for nothing that the first one has not waited for.
class chain_finder {
 public:
  struct chain {
    int count = 0;
    std::size_t members[most_links]{};  // into program::instructions
    chain_kernel const* kernel = nullptr;
    chain_arguments arguments{};
    std::size_t place = 0;        // of the member in whose place it runs
    std::size_t saved_bytes = 0;  // that the ops one by one would write and read, and the chain does not
    unsigned blocks(unsigned most) const {
      const std::size_t at_once = most_threads * (kernel->pattern.by_eight ? 8u : 4u);
      return static_cast<unsigned>(std::min<std::size_t>((arguments.elements + at_once - 1) / at_once, most));
    }
  };

  chain_finder(program const& what, graph_data const& graph, std::span<launcher const> launchers,
               std::span<chain_kernel const> kernels, std::span<std::uint64_t const> keys)
      : program_(&what),
        graph_(&graph),
        launchers_(launchers),
        kernels_(kernels),
        keys_(keys),
        uses_(what.buffers.size()),
        place_(what.instructions.size(), 0),
        waited_(what.instructions.size(), 0) {
    int waited = 0;
    for (std::size_t at = 0; at < what.instructions.size(); ++at) {
      instruction const& i = what.instructions[at];
      for (int k = 0; k < i.read_count + i.write_count; ++k) {
        uses& of = uses_[static_cast<std::size_t>(what.accesses[static_cast<std::size_t>(i.first_access + k)])];
        if (k >= i.read_count) ++of.writers;
        else if (std::exchange(of.last_reader, at) != at) ++of.readers;
      }
      if (i.where != lane::compute) continue;
      waited_[at] = waited = std::max(waited, i.wait);
      place_[at] = lane_.size();
      lane_.push_back(at);
    }
    waited_for_.assign(lane_.size() + 1, false);
    for (instruction const& i : what.instructions)
      if (i.where != lane::compute && i.wait > 0) waited_for_[std::min(static_cast<std::size_t>(i.wait), lane_.size())] = true;
  }

  // All chains, none of which has an instruction that is `taken(at)`. `address(reference)` is where an operand lies; `step` is
  // for the kernels.
  template <class Address, class Taken> list<chain> find(Address address, Taken taken, step_context const* step) const {
    list<chain> all;
    if (kernels_.empty()) return all;
    list<bool> used(program_->instructions.size(), false);
    const auto is_free = [&](std::size_t at) { return !used[at] && !taken(at); };
    for (std::size_t begin = 0; begin < lane_.size(); ++begin) {
      if (!is_free(lane_[begin]) || !is_link(lane_[begin])) continue;
      candidates group;
      group.at[group.count++] = lane_[begin];
      for (std::size_t next = begin + 1; next < lane_.size() && next <= begin + farthest && group.count < most_links; ++next) {
        const std::size_t at = lane_[next];
        if (used[at]) break;
        if (!is_free(at) || !is_link(at) || !joins(group, at)) continue;
        if (const std::size_t beside = maker_beside(group, at, begin, next, is_free);
            beside != none && group.count + 2 <= most_links)
          group.at[group.count++] = beside;
        group.at[group.count++] = at;
      }
      chain best;
      for (unsigned some = 1; some < (1u << group.count); some += 2) {  // all with the first, of which some may have no kernel
        const chain made = chain_that_runs(group, some, address, step);
        if (made.count > best.count || (made.count == best.count && made.saved_bytes > best.saved_bytes)) best = made;
      }
      if (best.count == 0) continue;
      for (int m = 0; m < best.count; ++m) used[best.members[m]] = true;
      all.push_back(best);
    }
    return all;
  }

 private:
  static constexpr std::size_t farthest = 32;  // instructions from the first op of a chain to its last
  static constexpr std::size_t none = ~std::size_t{0};
  struct uses {
    int readers = 0, writers = 0;
    std::size_t last_reader = ~std::size_t{0};
  };
  struct candidates {
    int count = 0;
    std::size_t at[most_links]{};
  };

  compute_call const& call(std::size_t at) const {
    return program_->computes[static_cast<std::size_t>(program_->instructions[at].payload)];
  }
  op_info const& info(std::size_t at) const { return *graph_->ops[call(at).op].info; }
  reference const& input(std::size_t at, int k) const {
    return program_->references[static_cast<std::size_t>(call(at).first_input + k)];
  }
  reference const& output(std::size_t at) const { return program_->references[static_cast<std::size_t>(call(at).first_output)]; }
  std::size_t elements(std::size_t at) const { return partita::detail::elements(info(at).outputs[0], call(at).extents); }
  static bool is_alike(operand const& x, operand const& y) {
    bool alike = x.rank == y.rank;
    for (int a = 0; a < x.rank && alike; ++a) alike = x.dims[a] == y.dims[a] && x.inner[a] == y.inner[a];
    return alike;
  }
  // An op that draws knows an element by its number in the whole tensor: those of the piece must follow each other.
  bool is_one_run(std::size_t at) const {
    compute_call const& c = call(at);
    operand const& x = info(at).outputs[0];
    bool cut = false;  // an axis behind this one is
    for (int a = x.rank - 1; a >= 0; --a) {
      const int d = x.dims[a];
      if (x.inner[a] >= 0 || (cut && c.extents[d] > 1)) return false;
      cut = cut || c.extents[d] != c.wholes[d];
    }
    return true;
  }
  std::size_t first_of_run(std::size_t at) const {
    compute_call const& c = call(at);
    operand const& x = info(at).outputs[0];
    std::size_t first = 0, stride = 1;
    for (int a = x.rank - 1; a >= 0; --a) {
      first += c.offsets[x.dims[a]] * stride;
      stride *= c.wholes[x.dims[a]];
    }
    return first;
  }
  bool is_link(std::size_t at) const {
    instruction const& i = program_->instructions[at];
    if (i.kind != instruction_kind::compute) return false;
    compute_call const& c = call(at);
    launcher const& l = launchers_[static_cast<std::size_t>(c.op)];
    if (!l.link.is_link() || c.accumulate || c.scratch.buffer >= 0 || c.output_count != 1 || elements(at) == 0) return false;
    op_info const& f = info(at);
    for (int k = 0; k < f.input_count; ++k)
      if (!is_alike(f.input(k), f.outputs[0])) return false;
    for (int d = 0; d < f.dim_count; ++d)
      if (f.dims[d].summed) return false;
    return !l.draws || is_one_run(at);
  }
  template <class Address> memory_range place(reference const& r, operand const& x, std::size_t count, Address address) const {
    return {address(r), count * size_of(x.type)};
  }
  // Which op of the group makes an input, whole; -1: none. `other`: one makes a part of it, or all and more.
  int maker(candidates const& group, std::size_t at, int k, bool& other) const {
    for (int m = group.count - 1; m >= 0; --m) {
      reference const &made = output(group.at[m]), &read = input(at, k);
      if (made.buffer != read.buffer) continue;
      other = made.offset != read.offset || elements(group.at[m]) != elements(at);
      return m;
    }
    return -1;
  }
  bool is_read_by(candidates const& group, reference const& r) const {
    for (int m = 0; m < group.count; ++m)
      for (int k = 0; k < info(group.at[m]).input_count; ++k)
        if (reference const& x = input(group.at[m], k); x.buffer == r.buffer && x.offset == r.offset) return true;
    return false;
  }
  bool joins(candidates const& group, std::size_t at) const {
    bool linked = false, other = false;
    for (int k = 0; k < info(at).input_count; ++k)
      linked = maker(group, at, k, other) >= 0 || is_read_by(group, input(at, k)) || linked;
    return linked && !other && elements(at) == elements(group.at[0]);
  }
  // What makes another input of `at`, which reads nothing of the group: so it does not join alone.
  template <class Free>
  std::size_t maker_beside(candidates const& group, std::size_t at, std::size_t begin, std::size_t next, Free is_free) const {
    bool other = false;
    for (int k = 0; k < info(at).input_count; ++k)
      for (std::size_t place = next; place-- > begin + 1;) {
        const std::size_t before = lane_[place];
        if (!writes(before, input(at, k).buffer)) continue;
        if (is_free(before) && is_link(before) && elements(before) == elements(at) &&
            std::find(group.at, group.at + group.count, before) == group.at + group.count) {
          const candidates alone{1, {before}};
          if (maker(alone, at, k, other) == 0 && !other) return before;
        }
        break;
      }
    return none;
  }
  bool writes(std::size_t at, int id) const {
    instruction const& i = program_->instructions[at];
    for (int k = i.read_count; k < i.read_count + i.write_count; ++k)
      if (program_->accesses[static_cast<std::size_t>(i.first_access + k)] == id) return true;
    return false;
  }
  // Those of the group whose bits `some` has, where there is a kernel of them and a place to run it; else none.
  template <class Address>
  chain chain_that_runs(candidates const& group, unsigned some, Address address, step_context const* step) const {
    candidates ordered;  // as the graph has them, which the training's chains follow
    std::size_t first = none, last = 0;
    for (int m = 0; m < group.count; ++m) {
      if ((some >> m & 1u) == 0) continue;
      int k = ordered.count++;
      for (; k > 0 && call(group.at[m]).op < call(ordered.at[k - 1]).op; --k) ordered.at[k] = ordered.at[k - 1];
      ordered.at[k] = group.at[m];
      first = std::min(first, group.at[m]);
      last = std::max(last, group.at[m]);
    }
    if (ordered.count < 2) return {};
    chain made = chain_of(ordered, address, step);
    if (made.kernel == nullptr) return {};
    made.place = last;
    if (!may_run_at(ordered, made.place, address)) made.place = first;
    return may_run_at(ordered, made.place, address) ? made : chain{};
  }
  template <class Address> bool may_run_at(candidates const& group, std::size_t place, Address address) const {
    const std::size_t here = place_[place];
    for (int m = 0; m < group.count; ++m) {
      const std::size_t at = group.at[m], mine = place_[at];
      for (std::size_t waits = mine + 1; waits <= here; ++waits)
        if (waited_for_[waits]) return false;
      // What an earlier instruction has waited for, a later one does not wait for again: so all that came before it counts.
      if (mine > here && waited_[at] > waited_[place]) return false;
      for (std::size_t between = std::min(mine, here) + 1; between < std::max(mine, here); ++between) {
        const std::size_t passed = lane_[between];
        if (std::find(group.at, group.at + group.count, passed) == group.at + group.count &&
            !may_change_places(at, passed, address))
          return false;
      }
    }
    return true;
  }
  template <class Address> bool may_change_places(std::size_t one, std::size_t other, Address address) const {
    bool may = true;
    each_range(one, address, [&](memory_range const& mine, bool i_write) {
      each_range(other, address,
                 [&](memory_range const& its, bool it_writes) { may = may && !((i_write || it_writes) && overlap(mine, its)); });
    });
    return may;
  }
  template <class Address, class F> void each_range(std::size_t at, Address address, F f) const {
    instruction const& i = program_->instructions[at];
    for (int k = 0; k < i.read_count + i.write_count; ++k) {
      const int id = program_->accesses[static_cast<std::size_t>(i.first_access + k)];
      f(memory_range{address({id, 0}), program_->buffers[static_cast<std::size_t>(id)].bytes}, k >= i.read_count);
    }
  }
  // Nobody but the group reads what it makes.
  bool is_kept_inside(candidates const& group, int m) const {
    const auto id = static_cast<std::size_t>(output(group.at[m]).buffer);
    buffer const& b = program_->buffers[id];
    if (b.where != region::arena || b.to_end || b.from_start || uses_[id].writers != 1 || output(group.at[m]).offset != 0)
      return false;
    int readers = 0;
    for (int reader = m + 1; reader < group.count; ++reader) {
      bool reads = false;
      for (int k = 0; k < info(group.at[reader]).input_count; ++k)
        reads = reads || input(group.at[reader], k).buffer == static_cast<int>(id);
      readers += reads ? 1 : 0;
    }
    return readers == uses_[id].readers;
  }
  // Without a kernel where the training has none for the group, or what an op writes lies where another one reads.
  template <class Address> chain chain_of(candidates const& group, Address address, step_context const* step) const {
    chain made;
    chain_pattern pattern;
    made.count = group.count;
    made.arguments.elements = elements(group.at[0]);
    memory_range written[most_links]{}, read[most_links][most_link_inputs]{};
    for (int m = 0; m < group.count; ++m) {
      const std::size_t at = made.members[m] = group.at[m];
      op_info const& f = info(at);
      op_entry const& op = graph_->ops[call(at).op];
      link_arguments& link = made.arguments.links[m];
      candidates before = group;
      before.count = m;
      signed char from[most_link_inputs]{-1, -1};
      for (int k = 0; k < f.input_count; ++k) {
        bool other = false;
        from[k] = static_cast<signed char>(maker(before, at, k, other));
        const memory_range lies = place(input(at, k), f.input(k), made.arguments.elements, address);
        if (from[k] >= 0 || is_read_by(before, input(at, k))) made.saved_bytes += lies.bytes;
        if (from[k] < 0) link.inputs[k] = (read[m][k] = lies).begin;
      }
      const memory_range lies = place(output(at), f.outputs[0], made.arguments.elements, address);
      if (is_kept_inside(group, m)) made.saved_bytes += lies.bytes;
      else {
        written[m] = lies;
        link.output = address(output(at));
      }
      link.attribute = op.given.values[0];
      link.key = keys_[static_cast<std::size_t>(call(at).op)];
      link.first = first_of_run(at);
      link.step = step;
      pattern.add(launchers_[static_cast<std::size_t>(call(at).op)].link, from[0], from[1]);
    }
    pattern.choose_width();
    for (int m = 0; m < group.count; ++m)
      for (int n = 0; n < group.count; ++n) {
        if (m != n && overlap(written[m], written[n])) return {};
        for (memory_range const& r : read[n])
          if (overlap(written[m], r) && (n > m || r.begin != written[m].begin || r.bytes != written[m].bytes)) return {};
      }
    const auto known =
        std::find_if(kernels_.begin(), kernels_.end(), [&](chain_kernel const& each) { return each.pattern == pattern; });
    if (known != kernels_.end()) made.kernel = &*known;
    return made;
  }

  program const* program_;
  graph_data const* graph_;
  std::span<launcher const> launchers_;
  std::span<chain_kernel const> kernels_;
  std::span<std::uint64_t const> keys_;
  list<uses> uses_;          // by buffer
  list<std::size_t> lane_;   // the instructions of the compute lane
  list<std::size_t> place_;  // by instruction: where in lane_
  list<int> waited_;         // by instruction of the compute lane: how many of the other lane were waited for before it
  list<bool> waited_for_;    // by number of instructions of the compute lane: the other lane waits for so many
};

}  // namespace partita::on_cuda
