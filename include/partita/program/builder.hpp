// Appends instructions to one rank's program, with the buffers that each reads and writes.
#pragma once
#include <initializer_list>

#include <partita/program/lowering.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail {

// A piece as a rank holds it: where, and which box of the tensor.
struct held {
  reference at{};
  box piece{};
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
  reference fresh(box const& b, dtype type, int tensor) { return {add_buffer(b.elements() * size_of(type), type, tensor), 0}; }

  void fill(reference to, std::size_t elements, dtype type, double value, lane where, instance const& of) {
    if (elements == 0) return;
    p_.fills.push_back({to, elements, value});
    instruction i = start(instruction_kind::fill, where, type, of);
    i.payload = static_cast<int>(p_.fills.size()) - 1;
    finish(i, {}, {to.buffer});
  }
  // One box from one array into another: `piece` of the tensor, of which the arrays hold `from_box` and `to_box`.
  void copy(held const& from, held const& to, box const& piece, dtype type, lane where, instance const& of,
            bool combine = false, reduction reduce = reduction::sum) {
    if (piece.elements() == 0) return;
    box_copy b;
    const place_in source = locate(from.piece, piece), target = locate(to.piece, piece);
    b.from = {from.at.buffer, from.at.offset + source.offset * size_of(type)};
    b.to = {to.at.buffer, to.at.offset + target.offset * size_of(type)};
    b.rank = piece.rank;
    for (int a = 0; a < piece.rank; ++a) {
      b.extents[a] = piece.at[a].size;
      b.from_strides[a] = source.strides[a];
      b.to_strides[a] = target.strides[a];
    }
    b.combine = combine;
    b.reduce = reduce;
    instruction i = start(instruction_kind::copy, where, type, of);
    i.first_box = static_cast<int>(p_.boxes.size());
    i.box_count = 1;
    p_.boxes.push_back(b);
    if (combine) finish(i, {b.from.buffer, b.to.buffer}, {b.to.buffer});
    else finish(i, {b.from.buffer}, {b.to.buffer});
  }
  void collective(instruction_kind kind, collective_call call, dtype type, instance const& of) {
    const int from = call.from.buffer, to = call.to.buffer;
    p_.collectives.push_back(std::move(call));
    instruction i = start(kind, lane::communication, type, of);
    i.payload = static_cast<int>(p_.collectives.size()) - 1;
    finish(i, {from >= 0 ? from : to}, {to});
  }
  void exchange(exchange_call call, dtype type, instance const& of) {
    if (call.sends.empty() && call.receives.empty()) return;
    std::vector<int> reads, writes;
    for (transfer const& t : call.sends) reads.push_back(t.at.buffer);
    for (transfer const& t : call.receives) writes.push_back(t.at.buffer);
    p_.exchanges.push_back(std::move(call));
    instruction i = start(instruction_kind::exchange, lane::communication, type, of);
    i.payload = static_cast<int>(p_.exchanges.size()) - 1;
    finish(i, reads, writes);
  }
  void compute(compute_call call, std::vector<reference> const& inputs, std::vector<reference> const& outputs, dtype type,
               instance const& of) {
    std::vector<int> reads, writes;
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

 private:
  static instruction start(instruction_kind kind, lane where, dtype type, instance const& of) {
    instruction i;
    i.kind = kind;
    i.where = where;
    i.type = type;
    i.node = of.node;
    i.index = of.index;
    return i;
  }
  void finish(instruction i, std::vector<int> const& reads, std::vector<int> const& writes) {
    i.first_access = static_cast<int>(p_.accesses.size());
    i.read_count = static_cast<int>(reads.size());
    i.write_count = static_cast<int>(writes.size());
    p_.accesses.insert(p_.accesses.end(), reads.begin(), reads.end());
    p_.accesses.insert(p_.accesses.end(), writes.begin(), writes.end());
    p_.instructions.push_back(i);
  }
  program& p_;
};

}  // namespace partita::detail

#include <partita/core/end_planning_code.hpp>
