// Programs made by hand, over ops that a test gives as functions.
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include <partita/device/cpu/backend.hpp>
#include <partita/program/memory.hpp>
#include <partita/program/program.hpp>

namespace partita_test {

// A graph of ops that each read and write arrays of the extent 'n'; the k-th op makes tensor k. Not copied.
struct hand_made_graph {
  partita::graph_data data;
  std::vector<partita::on_cpu::launcher> launchers;
  std::vector<std::uint64_t> keys;
  std::deque<partita::op_info> infos;

  template <std::size_t N> int op(char const (&name)[N], void (*run)(partita::on_cpu::launch_arguments const&),
                                  partita::dtype type, partita::pass when = partita::pass::forward, char const* kind = "mix",
                                  partita::source_kind source = partita::source_kind::none) {
    partita::op_info& info = infos.emplace_back();
    info.kind = kind;
    info.source = source;
    info.variadic = true;
    info.dim_count = info.input_count = info.output_count = 1;
    info.dims[0].letter = 'n';
    info.inputs[0].rank = info.outputs[0].rank = 1;
    info.inputs[0].type = info.outputs[0].type = type;
    partita::op_entry e;
    e.info = &info;
    e.name = data.names.size;
    e.when = when;
    e.origin = data.ops.size;
    e.first_output = data.tensors.size;
    data.names.push({-1, partita::label(name, static_cast<short>(N - 1)), {}});
    data.ops.push(e);
    partita::tensor_entry t;
    t.op = data.ops.size - 1;
    data.tensors.push(t);
    launchers.push_back({run, nullptr});
    keys.push_back(static_cast<std::uint64_t>(data.ops.size));
    return data.ops.size - 1;
  }
};

struct program_maker {
  partita::program made;

  explicit program_maker(int rank, partita::list<partita::list<int>> groups = {}) {
    made.rank = rank;
    made.groups = std::move(groups);
  }

  int buffer(std::size_t elements, partita::dtype type, int tensor = -1, partita::region where = partita::region::arena) {
    partita::buffer b;
    b.bytes = elements * partita::size_of(type);
    b.type = type;
    b.tensor = tensor;
    b.where = where;
    made.buffers.push_back(b);
    return static_cast<int>(made.buffers.size()) - 1;
  }
  partita::buffer& at(int b) { return made.buffers[static_cast<std::size_t>(b)]; }
  std::size_t elements(int b) { return at(b).bytes / partita::size_of(at(b).type); }

  partita::instruction& add(partita::instruction_kind kind, partita::lane where, int payload, std::vector<int> reads,
                            std::vector<int> writes) {
    partita::instruction i;
    i.kind = kind;
    i.where = where;
    i.payload = payload;
    i.type = !writes.empty() ? at(writes[0]).type : !reads.empty() ? at(reads[0]).type : partita::f32;
    i.first_access = static_cast<int>(made.accesses.size());
    i.read_count = static_cast<int>(reads.size());
    i.write_count = static_cast<int>(writes.size());
    made.accesses.append(reads);
    made.accesses.append(writes);
    made.instructions.push_back(i);
    return made.instructions.back();
  }

  void compute(int op, std::vector<int> const& inputs, int output, partita::lane where = partita::lane::compute) {
    partita::compute_call c;
    c.op = op;
    c.first_input = static_cast<int>(made.references.size());
    c.input_count = static_cast<int>(inputs.size());
    for (int b : inputs) made.references.push_back({b, 0});
    c.first_output = static_cast<int>(made.references.size());
    c.output_count = 1;
    made.references.push_back({output, 0});
    c.extents[0] = c.wholes[0] = elements(output);
    made.computes.push_back(c);
    add(partita::instruction_kind::compute, where, static_cast<int>(made.computes.size()) - 1, inputs, {output});
  }
  void fill(int to, double value, partita::lane where = partita::lane::compute) {
    made.fills.push_back({{to, 0}, elements(to), value});
    add(partita::instruction_kind::fill, where, static_cast<int>(made.fills.size()) - 1, {}, {to});
  }
  // count elements, from element `source` on to element `target` on
  void copy(int from, std::size_t source, int to, std::size_t target, std::size_t count, bool combine,
            partita::reduction how = partita::reduction::sum, partita::lane where = partita::lane::compute) {
    const std::size_t width = partita::size_of(at(from).type);
    partita::box_copy b;
    b.from = {from, source * width};
    b.to = {to, target * width};
    b.rank = 1;
    b.extents[0] = count;
    b.from_strides[0] = b.to_strides[0] = 1;
    b.combine = combine;
    b.reduce = how;
    // what it leaves as it was is read as well
    partita::instruction& i = add(partita::instruction_kind::copy, where, -1, {from, to}, {to});
    i.first_box = static_cast<int>(made.boxes.size());
    i.box_count = 1;
    made.boxes.push_back(b);
  }
  void collective(partita::instruction_kind kind, int group, int from, int to, partita::list<std::size_t> counts,
                  partita::reduction how = partita::reduction::sum, partita::list<std::size_t> receives = {}) {
    partita::collective_call c;
    c.group = group;
    c.from = {from, 0};
    c.to = {to, 0};
    c.counts = std::move(counts);
    c.receive_counts = std::move(receives);
    c.reduce = how;
    made.collectives.push_back(c);
    const bool in_place = kind == partita::instruction_kind::all_reduce;
    add(kind, partita::lane::communication, static_cast<int>(made.collectives.size()) - 1, {in_place ? to : from}, {to});
  }
  void all_reduce(int group, int b, partita::reduction how = partita::reduction::sum) {
    collective(partita::instruction_kind::all_reduce, group, -1, b, {elements(b)}, how);
  }
  void exchange(std::vector<std::pair<int, int>> sends, std::vector<std::pair<int, int>> receives,
                std::uint64_t tag) {  // (peer, buffer)
    partita::exchange_call e;
    std::vector<int> reads, writes;
    for (auto [peer, b] : sends) e.sends.push_back({peer, {b, 0}, at(b).bytes, tag}), reads.push_back(b);
    for (auto [peer, b] : receives) e.receives.push_back({peer, {b, 0}, at(b).bytes, tag}), writes.push_back(b);
    made.exchanges.push_back(e);
    add(partita::instruction_kind::exchange, partita::lane::communication, static_cast<int>(made.exchanges.size()) - 1, reads,
        writes);
  }
  // `b` as a one-dimensional tensor of the outside
  partita::outside seen(int b, int tensor) {
    partita::outside o;
    o.tensor = tensor;
    o.at = {b, 0};
    o.rank = 1;
    o.extents[0] = o.whole[0] = elements(b);
    return o;
  }
};

}  // namespace partita_test
