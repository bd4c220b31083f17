// Appends instructions to one rank's program, with the buffers that each reads and writes.
#pragma once
#include <initializer_list>

#include <partita/core/list.hpp>
#include <partita/program/lowering.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail {

// A piece as a rank holds it: where, and which boxes of the tensor.
struct held {
  reference at{};
  box_list piece{};
  bool valid() const { return at.buffer >= 0; }
};

class program_builder {
 public:
  explicit program_builder(program& p) : p_(p) {}

  int add_buffer(std::size_t bytes, dtype type, int tensor, region where = region::arena) {
    buffer b;
    b.bytes = bytes;
    b.type = type;
    b.tensor = tensor;
    b.where = where;
    p_.buffers.push_back(b);
    return static_cast<int>(p_.buffers.size()) - 1;
  }
  reference fresh(box_list const& b, dtype type, int tensor) {
    return {add_buffer(b.elements() * size_of(type), type, tensor), 0};
  }

  void fill(reference to, std::size_t elements, dtype type, double value, lane where, instance const& of) {
    if (elements == 0) return;
    p_.fills.push_back({to, elements, value});
    instruction i = start(instruction_kind::fill, where, type, of);
    i.payload = static_cast<int>(p_.fills.size()) - 1;
    finish(i, {}, {to.buffer});
  }
  // What both hold, from the one array into the other.
  void copy(held const& from, held const& to, dtype type, lane where, instance const& of, bool combine = false,
            reduction reduce = reduction::sum) {
    instruction i = start(instruction_kind::copy, where, type, of);
    i.first_box = static_cast<int>(p_.boxes.size());
    std::size_t from_at = 0;
    for (int k = 0; k < from.piece.count(); ++k) {
      std::size_t to_at = 0;
      for (int q = 0; q < to.piece.count(); ++q) {
        copy_box(from, from_at, from.piece[k], to, to_at, to.piece[q], type, combine, reduce);
        to_at += to.piece[q].elements();
      }
      from_at += from.piece[k].elements();
    }
    i.box_count = static_cast<int>(p_.boxes.size()) - i.first_box;
    if (i.box_count == 0) return;
    if (combine) finish(i, {from.at.buffer, to.at.buffer}, {to.at.buffer});
    else finish(i, {from.at.buffer}, {to.at.buffer});
  }
  void collective(instruction_kind kind, collective_call call, dtype type, instance const& of) {
    const int from = call.from.buffer, to = call.to.buffer;
    call.step = step;
    p_.collectives.push_back(std::move(call));
    instruction i = start(kind, lane::communication, type, of);
    i.payload = static_cast<int>(p_.collectives.size()) - 1;
    if (!joining_) return finish(i, {from >= 0 ? from : to}, {to});
    if (read_.empty()) call_ = i;
    else ++call_.call_count;
    read_.push_back(from >= 0 ? from : to);
    written_.push_back(to);
    called_ = true;
  }
  // Between these the collective of each member is kept, with what comes after it, until the last has been lowered.
  void begin_bucket() { joining_ = true; }
  void next_in_bucket() { called_ = false; }
  void end_bucket() {
    joining_ = called_ = false;
    if (!read_.empty()) finish(call_, read_, written_);
    for (instruction const& i : after_) p_.instructions.push_back(i);
    read_.clear();
    written_.clear();
    after_.clear();
  }
  void exchange(exchange_call call, dtype type, instance const& of) {
    if (call.sends.empty() && call.receives.empty()) return;
    list<int> reads, writes;
    for (transfer const& t : call.sends) reads.push_back(t.at.buffer);
    for (transfer const& t : call.receives) writes.push_back(t.at.buffer);
    call.step = step;
    p_.exchanges.push_back(std::move(call));
    instruction i = start(instruction_kind::exchange, lane::communication, type, of);
    i.payload = static_cast<int>(p_.exchanges.size()) - 1;
    finish(i, reads, writes);
  }
  void compute(compute_call call, list<reference> const& inputs, list<reference> const& outputs, dtype type, instance const& of) {
    list<int> reads, writes;
    call.first_input = static_cast<int>(p_.references.size());
    call.input_count = static_cast<int>(inputs.size());
    for (reference r : inputs) {
      p_.references.push_back(r);
      reads.push_back(r.buffer);
    }
    call.first_output = static_cast<int>(p_.references.size());
    call.output_count = static_cast<int>(outputs.size());
    for (reference r : outputs) {
      p_.references.push_back(r);
      writes.push_back(r.buffer);
      if (call.accumulate) reads.push_back(r.buffer);
    }
    if (call.scratch.buffer >= 0) writes.push_back(call.scratch.buffer);
    p_.computes.push_back(call);
    instruction i = start(instruction_kind::compute, lane::compute, type, of);
    i.payload = static_cast<int>(p_.computes.size()) - 1;
    finish(i, reads, writes);
  }
  program& made() { return p_; }
  int step = 0;  // of the move that is being lowered

 private:
  void copy_box(held const& from, std::size_t from_at, box const& source_box, held const& to, std::size_t to_at,
                box const& target_box, dtype type, bool combine, reduction reduce) {
    const box piece = intersection(source_box, target_box);
    if (piece.elements() == 0) return;
    box_copy b;
    const place_in source = locate(source_box, piece), target = locate(target_box, piece);
    b.from = {from.at.buffer, from.at.offset + (from_at + source.offset) * size_of(type)};
    b.to = {to.at.buffer, to.at.offset + (to_at + target.offset) * size_of(type)};
    b.rank = piece.rank;
    for (int a = 0; a < piece.rank; ++a) {
      b.extents[a] = piece.at[a].size;
      b.from_strides[a] = source.strides[a];
      b.to_strides[a] = target.strides[a];
    }
    b.combine = combine;
    b.reduce = reduce;
    p_.boxes.push_back(b);
  }
  static instruction start(instruction_kind kind, lane where, dtype type, instance const& of) {
    instruction i;
    i.kind = kind;
    i.where = where;
    i.type = type;
    i.node = of.node;
    i.index = of.index;
    return i;
  }
  void finish(instruction i, list<int> const& reads, list<int> const& writes) {
    i.first_access = static_cast<int>(p_.accesses.size());
    i.read_count = static_cast<int>(reads.size());
    i.write_count = static_cast<int>(writes.size());
    p_.accesses.append(reads);
    p_.accesses.append(writes);
    (called_ ? after_ : p_.instructions).push_back(i);
  }
  program& p_;
  bool joining_ = false, called_ = false;  // in a bucket; behind a member's collective
  instruction call_;                       // of the bucket
  list<int> read_, written_;               // by it
  list<instruction> after_;
};

}  // namespace partita::detail

#include <partita/core/end_planning_code.hpp>
