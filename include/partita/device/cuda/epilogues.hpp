// Which instructions of a program a matrix product can take in: the addition of a bias to its result, and gelu of that.
#pragma once
#include <algorithm>
#include <cstddef>
#include <span>

#include <partita/core/list.hpp>
#include <partita/device/cuda/launcher.hpp>
#include <partita/device/cuda/memory_range.hpp>
#include <partita/program/program.hpp>
#include <partita/program/words.hpp>

namespace partita::on_cuda {

// They are the next ones in the compute lane, and wait for nothing that the product has not waited for: so they may be made as
// early as it. Nobody else reads the product's own result, which is then made nowhere; that of the addition is kept.
class epilogue_finder {
 public:
  static constexpr std::size_t none = ~std::size_t{0};
  struct followers {
    std::size_t bias = none, gelu = none;  // into program::instructions
  };

  epilogue_finder(program const& what, graph_data const& graph, std::span<launcher const> launchers)
      : program_(&what),
        graph_(&graph),
        launchers_(launchers),
        uses_(what.buffers.size()),
        next_(what.instructions.size(), none),
        waited_(what.instructions.size(), 0) {
    std::size_t last = none;
    int waited = 0;
    for (std::size_t at = 0; at < what.instructions.size(); ++at) {
      instruction const& i = what.instructions[at];
      for (int k = 0; k < i.read_count + i.write_count; ++k) {
        uses& of = uses_[static_cast<std::size_t>(what.accesses[static_cast<std::size_t>(i.first_access + k)])];
        ++(k < i.read_count ? of.readers : of.writers);
      }
      if (i.where != lane::compute) continue;
      if (last != none) next_[last] = at;
      waited = std::max(waited, i.wait);
      waited_[at] = waited;
      last = at;
    }
  }

  struct joined {
    followers next;
    product what;
  };
  // The product that the instruction `at` is, together with what follows it; next.bias is none where nothing can be taken in.
  // `address(reference)` is where an operand lies. None of what is made early may lie where the product still reads.
  template <class Address> joined join(std::size_t at, product const& alone, Address address) const {
    joined made{after(at), alone};
    if (alone.batch.count != 1 || alone.accumulate || alone.ldc != alone.n) made.next = {};
    if (made.next.bias == none) return made;
    const auto place = [&](compute_call const& c, operand const& x, reference const& r) {
      return memory_range{address(r), partita::detail::elements(x, c.extents) * size_of(x.type)};
    };
    const auto made_by = [&](compute_call const& c) { return place(c, info(c).outputs[0], output(c)); };
    const auto read_by = [&](compute_call const& c, int k) { return place(c, info(c).input(k), input(c, k)); };
    compute_call const &multiplies = *call_of(at), &adds = *call_of(made.next.bias);
    const memory_range sum = made_by(adds), vector = read_by(adds, 1);
    const auto is_free = [&](memory_range const& to) {
      bool free = !overlap(to, vector);
      for (int k = 0; k < multiplies.input_count; ++k) free = free && !overlap(to, read_by(multiplies, k));
      return free;
    };
    if (vector.bytes != alone.n * size_of(alone.type) || sum.bytes != alone.m * alone.n * size_of(alone.type) || !is_free(sum)) {
      made.next = {};
      return made;
    }
    made.what.bias = vector.begin;
    made.what.c = address(output(adds));
    if (made.next.gelu == none) return made;
    compute_call const& bends = *call_of(made.next.gelu);
    if (const memory_range bent = made_by(bends); is_free(bent) && !overlap(bent, sum)) {
      made.what.before_gelu = made.what.c;
      made.what.c = address(output(bends));
    } else made.next.gelu = none;
    return made;
  }

 private:
  struct uses {
    int readers = 0, writers = 0;
  };
  followers after(std::size_t at) const {
    followers found;
    compute_call const* const product = call_of(at);
    if (product == nullptr || product->output_count != 1 || product->accumulate || !is_read_once(output(*product))) return found;
    found.bias = follower(at, at, after_product::adds_bias);
    if (found.bias != none) found.gelu = follower(found.bias, at, after_product::gelu);
    return found;
  }
  reference const& input(compute_call const& c, int k) const {
    return program_->references[static_cast<std::size_t>(c.first_input + k)];
  }
  reference const& output(compute_call const& c) const { return program_->references[static_cast<std::size_t>(c.first_output)]; }
  compute_call const* call_of(std::size_t at) const {
    instruction const& i = program_->instructions[at];
    if (i.kind != instruction_kind::compute || i.where != lane::compute) return nullptr;
    return &program_->computes[static_cast<std::size_t>(i.payload)];
  }
  op_info const& info(compute_call const& c) const { return *graph_->ops[c.op].info; }
  bool is_read_once(reference const& r) const {
    buffer const& b = program_->buffers[static_cast<std::size_t>(r.buffer)];
    uses const& of = uses_[static_cast<std::size_t>(r.buffer)];
    return b.where == region::arena && !b.to_end && !b.from_start && of.readers == 1 && of.writers == 1;
  }
  // The instruction after `at`, where it is `what` of the whole of at's result and can be made when `first` is.
  std::size_t follower(std::size_t at, std::size_t first, after_product what) const {
    const std::size_t next = next_[at];
    if (next == none || program_->instructions[next].wait > waited_[first]) return none;
    compute_call const *const made = call_of(at), *const taken = call_of(next);
    if (taken == nullptr || taken->accumulate || launchers_[static_cast<std::size_t>(taken->op)].after != what) return none;
    reference const &from = output(*made), &to = input(*taken, 0);
    operand const &x = info(*made).outputs[0], &y = info(*taken).outputs[0];
    const bool same =
        from.buffer == to.buffer && from.offset == to.offset && x.type == y.type &&
        partita::detail::elements(x, made->extents) == partita::detail::elements(info(*taken).input(0), taken->extents);
    return same ? next : none;
  }

  program const* program_;
  graph_data const* graph_;
  std::span<launcher const> launchers_;
  list<uses> uses_;         // by buffer
  list<std::size_t> next_;  // of an instruction of the compute lane: the next one in it
  list<int> waited_;        // by instruction of the compute lane: how many of the other lane were waited for before it
};

}  // namespace partita::on_cuda
