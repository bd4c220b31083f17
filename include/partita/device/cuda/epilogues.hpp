// Which instructions of a program a matrix product can take in: the addition of a bias to its result, and gelu of that, or the
// addition of another tensor; or gelu's gradient, and the sum of its rows.
#pragma once
#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include <partita/core/list.hpp>
#include <partita/device/cuda/buffer_uses.hpp>
#include <partita/device/cuda/launcher.hpp>
#include <partita/device/cuda/memory_range.hpp>
#include <partita/program/program.hpp>
#include <partita/program/words.hpp>

namespace partita::on_cuda {

// Whether a product can make more than itself: one, whose rows follow each other.
inline bool may_take_more(product const& p) { return p.batch.count == 1 && !p.accumulate && p.ldc == p.n; }

// They are the next ones in the compute lane, and wait for nothing that the product has not waited for: so they may be made as
// early as it. Nobody else reads what is added to, which is then made nowhere; what gelu is applied to is kept.
class epilogue_finder {
 public:
  static constexpr std::size_t none = ~std::size_t{0};
  struct followers {
    // Into program::instructions.
    std::size_t bias = none, add = none, gelu = none, gelu_gradient = none, row_sums = none;
    list<std::size_t> all() const {
      list<std::size_t> some;
      for (std::size_t at : {bias, add, gelu, gelu_gradient, row_sums})
        if (at != none) some.push_back(at);
      return some;
    }
  };

  epilogue_finder(program const& what, graph_data const& graph, std::span<launcher const> launchers)
      : program_(&what),
        graph_(&graph),
        launchers_(launchers),
        uses_(count_uses(what)),
        next_(what.instructions.size(), none),
        waited_(what.instructions.size(), 0) {
    std::size_t last = none;
    int waited = 0;
    for (std::size_t at = 0; at < what.instructions.size(); ++at) {
      instruction const& i = what.instructions[at];
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
    // The same with one less; false where that is nothing.
    bool drop(product const& alone) {
      if (std::exchange(what.row_sums, nullptr) != nullptr) next.row_sums = none;
      else if (std::exchange(what.gelu_of, nullptr) != nullptr) {
        next.gelu_gradient = none;
        what.c = alone.c;
      } else if (what.before_gelu != nullptr) {
        next.gelu = none;
        what.c = std::exchange(what.before_gelu, nullptr);
      } else return false;
      return !next.all().empty();
    }
  };
  // The product that the instruction `at` is, together with what follows it.
  // `address(reference)` is where an operand lies. None of what is made early may lie where the product still reads.
  template <class Address> joined join(std::size_t at, product const& alone, Address address) const {
    joined made{{}, alone};
    if (!may_take_more(alone) || call_of(at) == nullptr) return made;
    compute_call const& multiplies = *call_of(at);
    const std::size_t bytes = alone.m * alone.n * size_of(alone.type);
    memory_range vector;
    const auto range = [&](compute_call const& c, operand const& x, reference const& r) {
      return memory_range{address(r), partita::detail::elements(x, c.extents) * size_of(x.type)};
    };
    const auto made_by = [&](compute_call const& c) { return range(c, info(c).outputs[0], output(c)); };
    const auto read_by = [&](compute_call const& c, int k) { return range(c, info(c).input(k), input(c, k)); };
    const auto is_read = [&](memory_range const& r) {
      bool read = false;
      for (int k = 0; k < multiplies.input_count; ++k) read = read || overlap(r, read_by(multiplies, k));
      return read;
    };
    const auto is_free = [&](memory_range const& to) { return to.bytes == bytes && !overlap(to, vector) && !is_read(to); };
    if (multiplies.output_count != 1 || made_by(multiplies).bytes != bytes) return made;

    std::size_t last = at;
    if (const std::size_t next = follower(at, at, after_product::adds_bias); next != none && is_read_once(output(multiplies))) {
      compute_call const& adds = *call_of(next);
      vector = read_by(adds, 1);
      if (vector.bytes == alone.n * size_of(alone.type) && is_free(made_by(adds))) {
        last = made.next.bias = next;
        made.what.bias = vector.begin;
        made.what.c = address(output(adds));
      } else return made;
    }
    // In bf16 and f16 a plan that cuts the product adds what it has rounded: one device must not be much more exact than that.
    if (const std::size_t next = is_narrow(alone.type) ? none : follower(last, at, after_product::adds);
        next != none && is_read_once(output(*call_of(last)))) {
      compute_call const& adds = *call_of(next);
      const int other = input(adds, 0).buffer == output(*call_of(last)).buffer ? 1 : 0;
      const memory_range to = made_by(adds), from = read_by(adds, other);
      if (input(adds, other).buffer != output(*call_of(last)).buffer && from.bytes == bytes && is_free(to) &&
          (!overlap(to, from) || to.begin == from.begin)) {
        made.next.add = next;
        made.what.addend = from.begin;
        made.what.c = address(output(adds));
      }
    } else if (const std::size_t then = follower(last, at, after_product::gelu); then != none) {
      compute_call const& bends = *call_of(then);
      if (const memory_range to = made_by(bends); is_free(to) && !overlap(to, made_by(*call_of(last)))) {
        made.next.gelu = then;
        made.what.before_gelu = made.what.c;
        made.what.c = address(output(bends));
      }
    } else if (const std::size_t slope = follower(at, at, after_product::gelu_gradient);
               slope != none && (is_read_once(output(multiplies)) || is_in_place(*call_of(slope)))) {
      compute_call const& bends = *call_of(slope);
      const memory_range to = made_by(bends), from = read_by(bends, 1);
      if (from.bytes != bytes || !is_free(to) || overlap(to, from)) return made;
      made.next.gelu_gradient = slope;
      made.what.gelu_of = from.begin;
      made.what.c = address(output(bends));
      const std::size_t sums = follower(slope, at, after_product::sums_rows);
      if (sums == none) return made;
      const memory_range row = made_by(*call_of(sums));
      if (row.bytes == alone.n * size_of(alone.type) && !is_read(row) && !overlap(row, from) && !overlap(row, to)) {
        made.next.row_sums = sums;
        made.what.row_sums = address(output(*call_of(sums)));
      }
    }
    return made;
  }

 private:
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
    const auto id = static_cast<std::size_t>(r.buffer);
    return is_passed_on(program_->buffers[id], uses_[id]);
  }
  // What it reads is nowhere when it has run.
  bool is_in_place(compute_call const& c) const {
    return input(c, 0).buffer == output(c).buffer && input(c, 0).offset == output(c).offset;
  }
  // The instruction after `at`, where it is `what` of the whole of at's result and can be made when `first` is.
  std::size_t follower(std::size_t at, std::size_t first, after_product what) const {
    const std::size_t next = next_[at];
    if (next == none || program_->instructions[next].wait > waited_[first]) return none;
    compute_call const *const made = call_of(at), *const taken = call_of(next);
    if (taken == nullptr || taken->accumulate || launchers_[static_cast<std::size_t>(taken->op)].after != what) return none;
    reference const& from = output(*made);
    operand const &x = info(*made).outputs[0], &y = info(*taken).outputs[0];
    for (int k = 0; k < (what == after_product::adds ? 2 : 1); ++k) {
      reference const& to = input(*taken, k);
      if (from.buffer == to.buffer && from.offset == to.offset && x.type == y.type &&
          partita::detail::elements(x, made->extents) == partita::detail::elements(info(*taken).input(k), taken->extents))
        return next;
    }
    return none;
  }

  program const* program_;
  graph_data const* graph_;
  std::span<launcher const> launchers_;
  list<buffer_uses> uses_;  // by buffer
  list<std::size_t> next_;  // of an instruction of the compute lane: the next one in it
  list<int> waited_;        // by instruction of the compute lane: how many of the other lane were waited for before it
};

}  // namespace partita::on_cuda
