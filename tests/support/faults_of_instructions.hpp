// Faults inside one rank: ops, pieces, copies, chains, what is stored and given out.
#pragma once
#include "faults_of_calls.hpp"

namespace partita::testing {

namespace faults {
inline std::vector<place_of_instruction> computes(injection const& x,
                                                  std::function<bool(program const&, compute_call const&)> const& wanted) {
  return x.places([&](program const& p, instruction const& i) {
    return i.kind == instruction_kind::compute && wanted(p, p.computes[static_cast<std::size_t>(i.payload)]);
  });
}
inline std::vector<place_of_instruction> all_computes(injection const& x) {
  return computes(x, [](program const&, compute_call const&) { return true; });
}
inline partita::reference& reference_of(injection& x, place_of_instruction const& p, int number) {
  return x.of(p).references[static_cast<std::size_t>(number)];
}
// A random letter of the op, or -1.
inline int any_letter(injection& x, compute_call const& c) {
  const int n = x.g.ops[c.op].info->dim_count;
  return n == 0 ? -1 : x.below(n);
}
inline bool dropped(injection& x, std::vector<place_of_instruction> const& all, char const* what) {
  place_of_instruction p;
  if (!pick(x, all, p, what)) return false;
  x.remove(p);
  return true;
}
inline bool doubled(injection& x, std::vector<place_of_instruction> const& all, char const* what) {
  place_of_instruction p;
  if (!pick(x, all, p, what)) return false;
  x.insert(p.rank, p.at + 1, x.at(p));
  return true;
}
inline bool other_piece(injection& x, int which) {
  place_of_instruction p;
  if (!pick(x, all_computes(x), p, which == 0 ? "a shorter piece" : which == 1 ? "another offset" : "another whole extent"))
    return false;
  compute_call& c = x.compute_at(p);
  const int d = any_letter(x, c);
  if (d < 0) return false;
  if (which == 0 && c.extents[d] < 2) return false;
  if (which == 0) --c.extents[d];
  else if (which == 1) c.offsets[d] += c.offsets[d] > 0 ? static_cast<std::size_t>(-1) : 1;
  else c.wholes[d] += 1;
  return true;
}
// By what one element, or one piece, further or nearer would be.
inline bool other_slice(injection& x) {
  place_of_instruction p;
  if (!pick(x, all_computes(x), p, "an input read from another place of its buffer")) return false;
  compute_call const& c = x.compute_at(p);
  if (c.input_count == 0) return false;
  const int k = x.below(c.input_count);
  partita::reference& r = reference_of(x, p, c.first_input + k);
  const std::size_t bytes = x.bytes_of_operand(c, x.g.ops[c.op].info->input(k)),
                    room = x.of(p).buffers[static_cast<std::size_t>(r.buffer)].bytes;
  std::vector<std::size_t> offsets;
  for (std::size_t step : {bytes, size_of(x.g.ops[c.op].info->input(k).type)}) {
    if (r.offset + step + bytes <= room) offsets.push_back(r.offset + step);
    if (r.offset >= step) offsets.push_back(r.offset - step);
  }
  if (offsets.empty()) return false;
  r.offset = x.any(offsets);
  return true;
}
inline bool output_elsewhere(injection& x) {
  place_of_instruction p;
  if (!pick(x, all_computes(x), p, "an output written to another place")) return false;
  compute_call const& c = x.compute_at(p);
  partita::reference& r = reference_of(x, p, c.first_output + x.below(c.output_count));
  std::vector<int> others;
  program const& q = x.of(p);
  for (std::size_t b = 0; b < q.buffers.size(); ++b)
    if (static_cast<int>(b) != r.buffer && q.buffers[b].bytes == q.buffers[static_cast<std::size_t>(r.buffer)].bytes &&
        q.buffers[b].first >= 0)
      others.push_back(static_cast<int>(b));
  if (others.empty()) return false;
  r.buffer = x.any(others);
  return true;
}
// What an earlier micro-batch, or another op, left.
inline bool stale_input(injection& x, bool same_tensor) {
  place_of_instruction p;
  if (!pick(x, all_computes(x), p, same_tensor ? "an input of another index in time" : "an input of another tensor"))
    return false;
  compute_call const& c = x.compute_at(p);
  if (c.input_count == 0) return false;
  partita::reference& r = reference_of(x, p, c.first_input + x.below(c.input_count));
  std::vector<int> others;
  program const& q = x.of(p);
  buffer const& now = q.buffers[static_cast<std::size_t>(r.buffer)];
  for (std::size_t b = 0; b < q.buffers.size(); ++b)
    if (static_cast<int>(b) != r.buffer && q.buffers[b].bytes == now.bytes && q.buffers[b].first >= 0 &&
        q.buffers[b].first < p.at && (q.buffers[b].tensor == now.tensor) == same_tensor)
      others.push_back(static_cast<int>(b));
  if (others.empty()) return false;
  r.buffer = x.any(others);
  return true;
}
inline bool swapped_operands(injection& x, bool inputs) {
  struct found {
    place_of_instruction p;
    int i, j;
  };
  std::vector<found> all;
  for (place_of_instruction const& p : all_computes(x)) {
    compute_call const& c = x.compute_at(p);
    op_info const& f = *x.g.ops[c.op].info;
    const int n = inputs ? c.input_count : c.output_count, first = inputs ? c.first_input : c.first_output;
    for (int i = 0; i < n; ++i)
      for (int j = i + 1; j < n; ++j) {
        operand const &a = inputs ? f.input(i) : f.outputs[i], &b = inputs ? f.input(j) : f.outputs[j];
        partita::reference const &u = reference_of(x, p, first + i), &v = reference_of(x, p, first + j);
        if (!f.variadic && a.type == b.type && x.bytes_of_operand(c, a) == x.bytes_of_operand(c, b) &&
            (u.buffer != v.buffer || u.offset != v.offset))
          all.push_back({p, first + i, first + j});
      }
  }
  if (all.empty()) return false;
  const found f = x.any(all);
  x.say(f.p, inputs ? "two inputs swapped" : "two outputs swapped");
  std::swap(reference_of(x, f.p, f.i), reference_of(x, f.p, f.j));
  return true;
}
// The same op of another place in the model, with other attributes or another random stream.
inline bool other_op(injection& x) {
  auto others_of = [&](compute_call const& c) {
    std::vector<int> others;
    op_entry const& now = x.g.ops[c.op];
    for (int op = 0; op < x.g.ops.size; ++op) {
      op_entry const& e = x.g.ops[op];
      bool differs = e.info->kind.starts_with("dropout") && e.origin != now.origin;
      for (int k = 0; k < 6; ++k) differs = differs || e.given.values[k] != now.given.values[k];
      if (e.info == now.info && differs) others.push_back(op);
    }
    return others;
  };
  place_of_instruction p;
  if (!pick(x, computes(x, [&](program const&, compute_call const& c) { return !others_of(c).empty(); }), p,
            "another op of its kind"))
    return false;
  compute_call& c = x.compute_at(p);
  c.op = x.any(others_of(c));
  return true;
}
// Its readers get what it would have read: a scale, an activation or a dropout that is not applied.
inline bool skipped_op(injection& x) {
  place_of_instruction p;
  if (!pick(x,
            computes(x,
                     [&](program const&, compute_call const& c) {
                       op_info const& f = *x.g.ops[c.op].info;
                       return !f.variadic && f.input_count > 0 && f.output_count == 1 && f.input(0).type == f.outputs[0].type &&
                              !c.accumulate && x.bytes_of_operand(c, f.input(0)) == x.bytes_of_operand(c, f.outputs[0]);
                     }),
            p, "an op passed over"))
    return false;
  compute_call const c = x.compute_at(p);
  const partita::reference from = reference_of(x, p, c.first_input), to = reference_of(x, p, c.first_output);
  if (from.buffer == to.buffer || x.of(p).buffers[static_cast<std::size_t>(to.buffer)].where == region::state) return false;
  for (partita::reference& r : x.of(p).references)
    if (r.buffer == to.buffer) r = {from.buffer, from.offset + r.offset - to.offset};
  x.remove(p);
  return true;
}
inline bool accumulates_otherwise(injection& x, bool was) {
  place_of_instruction p;
  if (!pick(x,
            computes(
                x, [&](program const&, compute_call const& c) { return c.accumulate == was && x.g.ops[c.op].info->accumulates; }),
            p, was ? "an addition that overwrites" : "a first result that is added"))
    return false;
  x.compute_at(p).accumulate = !was;
  return true;
}

// -- copies and fills
inline std::vector<place_of_instruction> copies(injection const& x, bool combine) {
  return x.places([=](program const& p, instruction const& i) {
    return i.kind == instruction_kind::copy && i.box_count > 0 &&
           p.boxes[static_cast<std::size_t>(i.first_box)].combine == combine;
  });
}
inline box_copy& box_at(injection& x, place_of_instruction const& p) {
  return x.of(p).boxes[static_cast<std::size_t>(x.at(p).first_box)];
}
inline bool copy_otherwise(injection& x, int which) {
  place_of_instruction p;
  std::vector<place_of_instruction> all = copies(x, false);
  for (place_of_instruction const& q : copies(x, true)) all.push_back(q);
  if (!pick(x, all, p, "a copy of another box")) return false;
  box_copy& b = box_at(x, p);
  const std::size_t size = size_of(x.at(p).type);
  partita::reference& r = which == 0 ? b.from : b.to;
  switch (which) {
    case 0:
    case 1: {  // one element aside
      std::size_t last = r.offset;
      for (int a = 0; a < b.rank; ++a) last += (b.extents[a] - 1) * (which == 0 ? b.from_strides[a] : b.to_strides[a]) * size;
      const std::size_t room = x.of(p).buffers[static_cast<std::size_t>(r.buffer)].bytes;
      if (last + 2 * size <= room) r.offset += size;
      else if (r.offset >= size) r.offset -= size;
      else return false;
      return true;
    }
    case 2: {  // an element less along one axis
      const int a = b.rank == 0 ? 0 : x.below(b.rank);
      if (b.rank == 0 || b.extents[a] < 2) return false;
      --b.extents[a];
      return true;
    }
    default: {  // another stride
      const int a = b.rank < 2 ? 0 : x.below(b.rank - 1);
      if (b.rank < 2 || b.extents[a] < 2 || b.from_strides[a] < 2) return false;
      --b.from_strides[a];
      return true;
    }
  }
}
inline bool other_combination(injection& x) {
  place_of_instruction p;
  if (!pick(x, copies(x, true), p, "combined otherwise")) return false;
  box_copy& b = box_at(x, p);
  b.reduce = b.reduce == reduction::sum ? reduction::max : reduction::sum;
  return true;
}
inline bool copy_of_type(injection& x) {
  std::vector<place_of_instruction> all = copies(x, false);
  for (place_of_instruction const& q : copies(x, true)) all.push_back(q);
  place_of_instruction p;
  if (!pick(x, all, p, "a copy of another type")) return false;
  x.at(p).type = f16;
  return true;
}
inline bool fill_otherwise(injection& x, int which) {
  place_of_instruction p;
  if (!pick(x, x.places(instruction_kind::fill), p, "a fill")) return false;
  fill_call& f = x.of(p).fills[static_cast<std::size_t>(x.at(p).payload)];
  if (which == 0) f.value = f.value == 0 ? 1 : 0;
  else if (which == 1) --f.elements;
  else x.remove(p);
  return true;
}

// -- chains
inline chain_link& any_link(injection& x, place_of_instruction const& p) {
  chain_call const& c = x.chain_at(p);
  return x.of(p).links[static_cast<std::size_t>(c.first_link + x.below(c.link_count))];
}
inline bool chain_otherwise(injection& x, int which) {
  place_of_instruction p;
  if (!pick(x, x.places(instruction_kind::chain), p, "a chain")) return false;
  chain_call& c = x.chain_at(p);
  chain_link& l = any_link(x, p);
  compute_call& call = x.of(p).computes[static_cast<std::size_t>(l.compute)];
  const int operands = call.input_count + call.output_count, k = x.below(operands);
  switch (which) {
    case 0:  // links in another order
      if (c.link_count < 2) return false;
      std::swap(x.of(p).links[static_cast<std::size_t>(c.first_link)],
                x.of(p).links[static_cast<std::size_t>(c.first_link + c.link_count - 1)]);
      return true;
    case 1:  // a link less
      --c.link_count;
      return true;
    case 2:  // another place in the tile
      for (int o = 0; o < call.input_count; ++o)
        if (l.operands[o] == tile_operand::internal) {
          l.slots[o] += 64;
          return true;
        }
      return false;
    case 3:  // rows taken as whole, and the other way about
      if (l.operands[k] == tile_operand::internal) return false;
      l.operands[k] = l.operands[k] == tile_operand::rows ? tile_operand::whole : tile_operand::rows;
      return true;
    case 4:
      if (l.operands[k] != tile_operand::rows) return false;
      l.row_bytes[k] += 4;
      return true;
    case 5:  // a row less
      if (c.inner < 2) return false;
      --c.inner;
      return true;
    case 6: {
      const int d = any_letter(x, call);
      if (d < 0) return false;
      ++call.offsets[d];
      return true;
    }
    default:  // scratch for fewer bytes than the tile has
      if (c.scratch_bytes == 0) return false;
      x.of(p).buffers[static_cast<std::size_t>(c.scratch.buffer)].bytes = 0;
      return true;
  }
}

// -- what is stored and given out
inline bool outside_otherwise(injection& x, list<outside> program::*part, int which, char const* what) {
  const int rank = x.below(static_cast<int>(x.programs.size()));
  program& p = x.programs[static_cast<std::size_t>(rank)];
  auto& all = p.*part;
  if (all.empty()) return false;
  const std::size_t k = static_cast<std::size_t>(x.below(static_cast<int>(all.size())));
  outside& o = all[k];
  x.words =
      std::string(what) + " at rank " + std::to_string(rank) + ": " + std::string(x.g.name(x.g.tensors[o.tensor].op).view());
  std::size_t elements = 1;
  for (int a = 0; a < o.rank; ++a) elements *= o.extents[a];
  if (elements == 0) return false;
  switch (which) {
    case 0: {  // the piece beside it
      if (o.rank == 0) return false;
      const int a = x.below(o.rank);
      if (o.begin[a] > 0) --o.begin[a];
      else if (o.begin[a] + o.extents[a] < o.whole[a]) ++o.begin[a];
      else return false;
      return true;
    }
    case 1: {  // another tensor's place
      std::vector<partita::reference> others;
      for (outside const& q : all) {
        std::size_t n = 1;
        for (int a = 0; a < q.rank; ++a) n *= q.extents[a];
        if (n == elements && x.g.operand_of(q.tensor).type == x.g.operand_of(o.tensor).type && q.at.buffer != o.at.buffer)
          others.push_back(q.at);
      }
      if (others.empty()) return false;
      o.at = x.any(others);
      return true;
    }
    default: {  // nobody has it
      const int tensor = o.tensor;
      for (program& q : x.programs) (q.*part).erase_if([&](outside const& y) { return y.tensor == tensor; });
      return true;
    }
  }
}
}  // namespace faults

inline std::vector<fault_kind> faults_of_instructions() {
  using namespace faults;
  return {
      {"an op is left out", [](injection& x) { return dropped(x, all_computes(x), "an op left out"); }},
      {"an op is passed over", skipped_op},
      {"an addition is done twice",
       [](injection& x) {
         return doubled(x, computes(x, [](program const&, compute_call const& c) { return c.accumulate; }),
                        "an addition done twice");
       }},
      {"an addition overwrites", [](injection& x) { return accumulates_otherwise(x, true); }},
      {"a first result is added", [](injection& x) { return accumulates_otherwise(x, false); }},
      {"an op has a shorter piece", [](injection& x) { return other_piece(x, 0); }},
      {"an op has a piece of another offset", [](injection& x) { return other_piece(x, 1); }},
      {"an op has another whole extent", [](injection& x) { return other_piece(x, 2); }},
      {"an op reads another slice", other_slice},
      {"an op reads what another index in time left", [](injection& x) { return stale_input(x, true); }},
      {"an op reads another tensor", [](injection& x) { return stale_input(x, false); }},
      {"an op writes elsewhere", output_elsewhere},
      {"two inputs are swapped", [](injection& x) { return swapped_operands(x, true); }},
      {"two outputs are swapped", [](injection& x) { return swapped_operands(x, false); }},
      {"another op of its kind runs", other_op},
      {"a copy is left out", [](injection& x) { return dropped(x, copies(x, false), "a copy left out"); }},
      {"a partial result is not added", [](injection& x) { return dropped(x, copies(x, true), "a partial result not added"); }},
      {"a partial result is added twice",
       [](injection& x) { return doubled(x, copies(x, true), "a partial result added twice"); }},
      {"a partial result overwrites",
       [](injection& x) {
         place_of_instruction p;
         if (!pick(x, copies(x, true), p, "a partial result that overwrites")) return false;
         box_at(x, p).combine = false;
         return true;
       }},
      {"a partial result is combined otherwise", other_combination},
      {"a copy reads one element aside", [](injection& x) { return copy_otherwise(x, 0); }},
      {"a copy writes one element aside", [](injection& x) { return copy_otherwise(x, 1); }},
      {"a copy is shorter", [](injection& x) { return copy_otherwise(x, 2); }},
      {"a copy has another stride", [](injection& x) { return copy_otherwise(x, 3); }},
      {"a copy has another type", copy_of_type},
      {"a fill has another value", [](injection& x) { return fill_otherwise(x, 0); }},
      {"a fill is shorter", [](injection& x) { return fill_otherwise(x, 1); }},
      {"a fill is left out", [](injection& x) { return fill_otherwise(x, 2); }},
      {"a chain is left out", [](injection& x) { return dropped(x, x.places(instruction_kind::chain), "a chain left out"); }},
      {"links of a chain are in another order", [](injection& x) { return chain_otherwise(x, 0); }},
      {"a chain has a link less", [](injection& x) { return chain_otherwise(x, 1); }},
      {"a link has another place in the tile", [](injection& x) { return chain_otherwise(x, 2); }},
      {"a link takes rows for the whole", [](injection& x) { return chain_otherwise(x, 3); }},
      {"a link has other rows", [](injection& x) { return chain_otherwise(x, 4); }},
      {"a chain has a row less", [](injection& x) { return chain_otherwise(x, 5); }},
      {"a link has a piece of another offset", [](injection& x) { return chain_otherwise(x, 6); }},
      {"a chain has no scratch", [](injection& x) { return chain_otherwise(x, 7); }},
      {"another piece is stored", [](injection& x) { return outside_otherwise(x, &program::stored, 0, "another piece stored"); }},
      {"a tensor is stored in another's place",
       [](injection& x) { return outside_otherwise(x, &program::stored, 1, "stored in another's place"); }},
      {"a tensor is stored nowhere", [](injection& x) { return outside_otherwise(x, &program::stored, 2, "stored nowhere"); }},
      {"another piece of an input is given",
       [](injection& x) { return outside_otherwise(x, &program::inputs, 0, "another piece given"); }},
      {"an output is another piece",
       [](injection& x) { return outside_otherwise(x, &program::outputs, 0, "another piece of an output"); }},
      {"an output is given out nowhere",
       [](injection& x) { return outside_otherwise(x, &program::outputs, 2, "given out nowhere"); }},
      {"a gradient is another's",
       [](injection& x) { return outside_otherwise(x, &program::gradients, 1, "another's gradient"); }},
  };
}

}  // namespace partita::testing
