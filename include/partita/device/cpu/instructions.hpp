// What each instruction of a program does on the CPU.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>

#include <partita/core/list.hpp>
#include <partita/core/words.hpp>
#include <partita/device/cpu/call.hpp>
#include <partita/device/cpu/copy.hpp>
#include <partita/device/cpu/finite.hpp>
#include <partita/device/cpu/outside.hpp>
#include <partita/program/joined_call.hpp>
#include <partita/program/program.hpp>
#include <partita/program/step.hpp>
#include <partita/program/words.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::on_cpu {

namespace detail {
// What a communicator's `exchange` takes spans of; device/ does not include comm/, which names it.
template <class Message, class Communicator>
Message message_of(void (Communicator::*)(std::span<const Message>, std::span<const Message>));
}  // namespace detail

// A program with addresses in place of references. Two threads may run two instructions at once if the program orders
// neither before the other.
template <class Communicator> class instruction_runner {
 public:
  instruction_runner(program const& what, graph_data const& graph, std::span<launcher const> launchers,
                     std::span<std::uint64_t const> keys, std::span<std::byte> state, std::span<std::byte> arena,
                     Communicator& comm, workers& team)
      : program_(&what),
        graph_(&graph),
        launchers_(launchers),
        keys_(keys),
        state_(state.data()),
        arena_(arena.data()),
        comm_(&comm),
        team_(team.size() > 1 ? &team : nullptr),
        worker_count_(team.size()) {
    if (state.size() < what.state_bytes || arena.size() < what.arena_bytes)
      throw_error({"rank ", what.rank, ": the program needs ", what.state_bytes, " bytes of state and ", what.arena_bytes,
                   " of arena, but is given ", state.size(), " and ", arena.size()});
    if (comm.rank() != what.rank) throw_error({"rank ", what.rank, ": given the communicator of rank ", comm.rank()});
    addresses_.reserve(what.references.size());
    for (reference const& r : what.references) addresses_.push_back(address(r));
    for (exchange_call const& e : what.exchanges) {
      exchanges_.push_back({messages_.size(), e.sends.size(), e.receives.size()});
      for (auto const* list : {&e.sends, &e.receives})
        for (transfer const& t : *list) messages_.push_back({t.peer, address(t.at), t.bytes, t.tag});
    }
    for (collective_call const& c : what.collectives) joined_.push_back({address(c.from), address(c.to), c.counts});
    for (instruction const& i : what.instructions)
      if (i.kind == instruction_kind::compute) check(i, i.payload);
      else if (i.kind == instruction_kind::chain) {
        chain_call const& chain = what.chains[static_cast<std::size_t>(i.payload)];
        for (int l = 0; l < chain.link_count; ++l) check(i, what.links[static_cast<std::size_t>(chain.first_link + l)].compute);
        if (chain.scratch_bytes > 0 &&
            what.buffers[static_cast<std::size_t>(chain.scratch.buffer)].bytes < chain.scratch_bytes * worker_count_)
          throw_error({place(i), ": the chain's tiles are planned for fewer than ", worker_count_, " workers"});
      }
  }

  // `alone`: on the calling thread, because the workers serve another lane.
  void run(instruction const& i, step_context const& step, bool alone) const {
    const std::size_t payload = static_cast<std::size_t>(i.payload);
    workers* const team = alone ? nullptr : team_;
    switch (i.kind) {
      case instruction_kind::compute: {
        compute_call const& c = program_->computes[payload];
        launch_arguments a = arguments(c, step, team);
        a.inputs = addresses_.data() + c.first_input;
        a.outputs = addresses_.data() + c.first_output;
        return launchers_[static_cast<std::size_t>(c.op)].run(a);
      }
      case instruction_kind::chain: return run_chain(program_->chains[payload], step, team);
      case instruction_kind::copy:
        for (int k = 0; k < i.box_count; ++k) {
          box_copy const& b = program_->boxes[static_cast<std::size_t>(i.first_box + k)];
          copy_box(b, i.type, address(b.from), address(b.to), team);
        }
        return;
      case instruction_kind::fill: {
        fill_call const& f = program_->fills[payload];
        return fill_elements(i.type, address(f.to), f.elements, f.value, team);
      }
      case instruction_kind::exchange: {
        messages_of const& e = exchanges_[payload];
        const std::span<message const> all(messages_);
        return comm_->exchange(all.subspan(e.first, e.sends), all.subspan(e.first + e.sends, e.receives));
      }
      default: break;
    }
    if (i.call_count == 1) return run_call(i, program_->collectives[payload]);
    if constexpr (joins_calls) {
      const std::span<joined_call const> calls = std::span(joined_).subspan(payload, static_cast<std::size_t>(i.call_count));
      collective_call const& first = program_->collectives[payload];
      const auto group = static_cast<std::size_t>(first.group);
      switch (i.kind) {
        case instruction_kind::all_reduce: return comm_->all_reduce(group, calls, i.type, first.reduce);
        case instruction_kind::all_gather: return comm_->all_gather(group, calls, i.type);
        case instruction_kind::reduce_scatter: return comm_->reduce_scatter(group, calls, i.type, first.reduce);
        default: break;
      }
    }
    for (int k = 0; k < i.call_count; ++k) run_call(i, program_->collectives[payload + static_cast<std::size_t>(k)]);
  }
  // "rank 1, op block.0.fc1 (linear, backward)"
  std::string place(instruction const& i) const {
    return words({"rank ", program_->rank, ", ", words_of(*program_, *graph_, i)});
  }

  // Whether everything is finite that an instruction reads, or writes. Of those that only move numbers, or give every
  // rank the same, nothing is looked at.
  bool reads_finite(instruction const& i) const { return look(i, false); }
  bool writes_finite(instruction const& i) const { return look(i, true); }

  // The name of an input, parameter or state that is not finite now; empty when all are.
  std::string first_non_finite_source() const {
    for (auto const* list : {&program_->inputs, &program_->stored})
      for (outside const& o : *list) {
        if (o.at.buffer < 0) continue;
        std::size_t count = 1;
        for (int d = 0; d < o.rank; ++d) count *= o.extents[d];
        if (all_finite(program_->buffers[static_cast<std::size_t>(o.at.buffer)].type, address(o.at), count)) continue;
        return words({"rank ", program_->rank, list == &program_->inputs ? ", input " : ", stored ",
                      o.tensor >= 0 && o.tensor < graph_->tensors.size
                          ? std::string(graph_->name(graph_->tensors[o.tensor].op).view())
                          : words({"tensor ", o.tensor})});
      }
    return {};
  }

 private:
  using message = decltype(detail::message_of(&Communicator::exchange));
  // Calls that are one may also be made one after the other.
  static constexpr bool joins_calls =
      requires(Communicator & c, std::size_t group, std::span<joined_call const> calls, dtype type, reduction how) {
    c.all_reduce(group, calls, type, how);
    c.all_gather(group, calls, type);
    c.reduce_scatter(group, calls, type, how);
  };
  void run_call(instruction const& i, collective_call const& c) const {
    const auto group = static_cast<std::size_t>(c.group);
    void *const from = address(c.from), *const to = address(c.to);
    switch (i.kind) {
      case instruction_kind::all_reduce: return comm_->all_reduce(group, to, c.counts[0], i.type, c.reduce);
      case instruction_kind::all_gather: return comm_->all_gather(group, from, to, c.counts, i.type);
      case instruction_kind::reduce_scatter: return comm_->reduce_scatter(group, from, to, c.counts, i.type, c.reduce);
      case instruction_kind::all_to_all: return comm_->all_to_all(group, from, c.counts, to, c.receive_counts, i.type);
      default: return;
    }
  }

  struct messages_of {
    std::size_t first, sends, receives;
  };  // in messages_

  launch_arguments arguments(compute_call const& c, step_context const& step, workers* team) const {
    op_entry const& op = graph_->ops[c.op];
    launch_arguments a;
    a.input_count = c.input_count;
    a.info = op.info;
    std::memcpy(a.extents, c.extents, sizeof a.extents);
    std::memcpy(a.offsets, c.offsets, sizeof a.offsets);
    std::memcpy(a.wholes, c.wholes, sizeof a.wholes);
    a.given = op.given;
    a.key = keys_[static_cast<std::size_t>(c.op)];
    a.accumulate = c.accumulate;
    a.scratch = address(c.scratch);
    a.step = &step;
    a.team = team;
    return a;
  }

  // Tiles are shared out among the workers; each runs all links on one tile before the next tile.
  void run_chain(chain_call const& chain, step_context const& step, workers* team) const {
    std::size_t outer = 1;
    for (int d = 0; d + 1 < chain.depth; ++d) outer *= chain.outer[d];
    const std::size_t along = (chain.inner + chain.tile_rows - 1) / chain.tile_rows;
    auto run_tiles = [&](std::size_t begin, std::size_t end, std::size_t worker) {
      std::byte* const scratch = chain.scratch_bytes == 0 ? nullptr : address(chain.scratch) + worker * chain.scratch_bytes;
      for (std::size_t tile = begin; tile < end; ++tile)
        for (int l = 0; l < chain.link_count; ++l)
          run_link(chain, program_->links[static_cast<std::size_t>(chain.first_link + l)], tile / along,
                   tile % along * chain.tile_rows, scratch, step);
    };
    if (team == nullptr) run_tiles(0, outer * along, 0);
    else team->parallel(outer * along, 1, run_tiles);
  }
  void run_link(chain_call const& chain, chain_link const& link, std::size_t outer, std::size_t row, std::byte* scratch,
                step_context const& step) const {
    compute_call const& c = program_->computes[static_cast<std::size_t>(link.compute)];
    launch_arguments a = arguments(c, step, nullptr);
    const std::size_t first = outer * chain.inner + row;
    for (int d = chain.depth - 2; d >= 0; --d) {
      a.extents[link.letters[d]] = 1;
      a.offsets[link.letters[d]] += outer % chain.outer[d];
      outer /= chain.outer[d];
    }
    const int last = link.letters[chain.depth - 1];
    a.extents[last] = std::min(chain.tile_rows, chain.inner - row);
    a.offsets[last] += row;
    void* pointers[max_inputs + max_outputs];
    auto place = [&](int operand, int reference) {
      switch (link.operands[operand]) {
        case tile_operand::whole: return addresses_[static_cast<std::size_t>(reference)];
        case tile_operand::rows:
          return static_cast<void*>(static_cast<std::byte*>(addresses_[static_cast<std::size_t>(reference)]) +
                                    first * link.row_bytes[operand]);
        case tile_operand::internal: return static_cast<void*>(scratch + link.slots[operand]);
      }
      return static_cast<void*>(nullptr);
    };
    for (int k = 0; k < c.input_count; ++k) pointers[k] = place(k, c.first_input + k);
    for (int k = 0; k < c.output_count; ++k) pointers[c.input_count + k] = place(c.input_count + k, c.first_output + k);
    a.inputs = pointers;
    a.outputs = pointers + c.input_count;
    launchers_[static_cast<std::size_t>(c.op)].run(a);
  }

  std::byte* address(reference const& r) const { return on_cpu::address(*program_, r, state_, arena_); }

  void check(instruction const& i, int compute) const {
    compute_call const& c = program_->computes[static_cast<std::size_t>(compute)];
    const auto op = static_cast<std::size_t>(c.op);
    if (c.op < 0 || c.op >= graph_->ops.size || op >= launchers_.size() || op >= keys_.size() || launchers_[op].run == nullptr)
      throw_error({place(i), ": has no kernel on the CPU"});
    if (launchers_[op].workspace == nullptr) return;
    const std::size_t wanted = launchers_[op].workspace(*graph_->ops[c.op].info, c.extents, worker_count_);
    const std::size_t given =
        c.scratch.buffer < 0 ? 0 : program_->buffers[static_cast<std::size_t>(c.scratch.buffer)].bytes - c.scratch.offset;
    if (wanted > given)
      throw_error(
          {place(i), ": needs ", wanted, " bytes of scratch for ", worker_count_, " workers, but the program has ", given});
  }

  bool look(instruction const& i, bool written) const {
    const std::size_t payload = static_cast<std::size_t>(i.payload);
    switch (i.kind) {
      case instruction_kind::compute: {
        compute_call const& c = program_->computes[payload];
        op_info const& info = *graph_->ops[c.op].info;
        auto finite = [&](operand const& x, int at) {
          void const* const data = addresses_[static_cast<std::size_t>(at)];
          return data == nullptr || all_finite(x.type, data, detail::elements(x, c.extents));
        };
        if (!written)
          for (int k = 0; k < c.input_count; ++k)
            if (!finite(info.input(k), c.first_input + k)) return false;
        if (written || c.accumulate)
          for (int k = 0; k < c.output_count; ++k)
            if (!finite(info.outputs[k], c.first_output + k)) return false;
        return true;
      }
      case instruction_kind::chain: {  // what comes from outside it, and what it leaves
        chain_call const& chain = program_->chains[payload];
        for (int l = 0; l < chain.link_count; ++l) {
          chain_link const& link = program_->links[static_cast<std::size_t>(chain.first_link + l)];
          compute_call const& c = program_->computes[static_cast<std::size_t>(link.compute)];
          op_info const& info = *graph_->ops[c.op].info;
          for (int k = 0; k < (written ? c.output_count : c.input_count); ++k) {
            const int at = written ? c.input_count + k : k, place = written ? c.first_output + k : c.first_input + k;
            if (link.operands[at] == tile_operand::internal || (!written && made_in(chain, l, place))) continue;
            operand const& x = written ? info.outputs[k] : info.input(k);
            void const* const data = addresses_[static_cast<std::size_t>(place)];
            if (data != nullptr && !all_finite(x.type, data, detail::elements(x, c.extents))) return false;
          }
        }
        return true;
      }
      case instruction_kind::copy:
        for (int k = 0; k < i.box_count; ++k) {
          box_copy const& b = program_->boxes[static_cast<std::size_t>(i.first_box + k)];
          if (!b.combine) continue;
          if (!written && !box_finite(b, i.type, address(b.from), false)) return false;
          if (!box_finite(b, i.type, address(b.to), true)) return false;
        }
        return true;
      case instruction_kind::all_reduce: {
        bool finite = true;
        for (std::size_t k = payload; k < payload + static_cast<std::size_t>(i.call_count); ++k)
          finite = finite && all_finite(i.type, joined_[k].to, joined_[k].counts[0]);
        return finite;
      }
      default: return true;
    }
  }

  bool made_in(chain_call const& chain, int before, int place) const {
    const int buffer = program_->references[static_cast<std::size_t>(place)].buffer;
    for (int l = 0; l < before; ++l) {
      compute_call const& c =
          program_->computes[static_cast<std::size_t>(program_->links[static_cast<std::size_t>(chain.first_link + l)].compute)];
      for (int k = 0; k < c.output_count; ++k)
        if (program_->references[static_cast<std::size_t>(c.first_output + k)].buffer == buffer) return true;
    }
    return false;
  }

  program const* program_;
  graph_data const* graph_;
  std::span<launcher const> launchers_;
  std::span<std::uint64_t const> keys_;
  std::byte *state_, *arena_;
  Communicator* comm_;
  workers* team_;  // null for one
  std::size_t worker_count_;
  list<void*> addresses_;     // by program::references
  list<joined_call> joined_;  // by program::collectives
  list<message> messages_;
  list<messages_of> exchanges_;
};

}  // namespace partita::on_cpu

#include <partita/core/end_planning_code.hpp>
