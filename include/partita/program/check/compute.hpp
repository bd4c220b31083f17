// Ops: each is called for a piece of its letters, reads the parts of its operands that go with that piece, and makes the
// part of its outputs that goes with it. Chains run the same tile by tile.
#pragma once
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include <partita/program/check/rank.hpp>

namespace partita::detail::checking {

using workspace_of = std::function<std::size_t(int op, std::size_t const* extents)>;  // bytes; may be empty

class op_check {
 public:
  op_check(rank_check& rank, workspace_of const& workspace) : r_(rank), m_(rank.model()), workspace_(workspace) {}

  void run(compute_call const& c) {
    const piece of = piece_of(c);
    op_info const& f = *of.entry->info;
    std::vector<int> sums;
    std::vector<places> reads;
    if (f.variadic) sums = read_terms(of, c, reads);
    else {
      if (c.input_count != f.input_count)
        r_.fail(program_fault::malformed,
                words({"it is given ", c.input_count, " inputs, the op has ", static_cast<int>(f.input_count)}));
      for (int k = 0; k < f.input_count; ++k) {
        const int tensor = m_.graph.input(*of.entry, k);
        part_of_tensor const part = m_.operand_part(c.op, f.inputs[k], of.letters);
        reference const& at = r_.item(r_.what().references, c.first_input + k, "references");
        sums.push_back(read(tensor, part, at, k));
        reads.push_back({at.buffer, static_cast<std::int64_t>(at.offset), bytes_of_part(tensor, part), m_.tensor(tensor).root});
      }
    }
    check_outputs(of, c);
    std::vector<places> writes;
    for (int o = 0; o < f.output_count; ++o) {
      const int tensor = of.entry->first_output + o;
      part_of_tensor const part = m_.operand_part(c.op, f.outputs[o], of.letters);
      reference const& at = r_.item(r_.what().references, c.first_output + o, "references");
      const places here{at.buffer, static_cast<std::int64_t>(at.offset), bytes_of_part(tensor, part), tensor};
      for (places const& x : reads)
        if (x.overlaps(here) && !(x.same(here) && m_.graph.tensors[tensor].carried == x.tensor))
          r_.fail(program_fault::shared_bytes, words({"output ", o, " lies on an input"}));
      for (places const& x : writes)
        if (x.overlaps(here)) r_.fail(program_fault::shared_bytes, words({"output ", o, " lies on another output"}));
      writes.push_back(here);
      write(tensor, part, at, sum_of(of, o, sums), c.accumulate);
    }
    const std::size_t scratch = workspace_ ? workspace_(c.op, c.extents) : 0;
    if (scratch > 0 && c.scratch.buffer < 0)
      r_.fail(program_fault::out_of_bounds, words({"its kernel wants ", scratch, " bytes of scratch and is given none"}));
    if (c.scratch.buffer >= 0) use_scratch(c.scratch, std::max<std::size_t>(1, scratch));
  }

  void run(chain_call const& chain) {
    tiles_ = {};
    if (chain.depth < 1 || chain.depth > max_rank || chain.link_count < 1 || chain.tile_rows < 1 || chain.inner < 1)
      r_.fail(program_fault::malformed, "a chain without ops, shared axes or rows");
    std::int64_t rows = static_cast<std::int64_t>(chain.inner);
    for (int d = 0; d + 1 < chain.depth; ++d) rows *= static_cast<std::int64_t>(chain.outer[d]);
    if (rows < 1) r_.fail(program_fault::malformed, "a chain without rows");
    for (int l = 0; l < chain.link_count; ++l) run_link(chain, r_.item(r_.what().links, chain.first_link + l, "links"), rows);
    if (chain.scratch_bytes > 0) use_scratch(chain.scratch, chain.scratch_bytes);
  }

 private:
  struct piece {
    op_entry const* entry = nullptr;
    int op = -1;
    span_of letters[max_dims];
  };
  struct places {
    int buffer;
    std::int64_t begin, bytes;
    int tensor;
    bool overlaps(places const& o) const { return buffer == o.buffer && begin < o.begin + o.bytes && o.begin < begin + bytes; }
    bool same(places const& o) const { return buffer == o.buffer && begin == o.begin && bytes == o.bytes; }
  };

  piece piece_of(compute_call const& c) const {
    graph_data const& g = m_.graph;
    if (c.op < 0 || c.op >= g.ops.size) r_.fail(program_fault::malformed, words({"op ", c.op, " is none of the graph's"}));
    piece p;
    p.entry = &g.ops[c.op];
    p.op = c.op;
    op_info const& f = *p.entry->info;
    if (f.source != source_kind::none) r_.fail(program_fault::malformed, words({"it runs ", f.kind, ", which has no kernel"}));
    if (c.output_count != f.output_count)
      r_.fail(program_fault::malformed,
              words({"it is given ", c.output_count, " outputs, the op has ", static_cast<int>(f.output_count)}));
    for (int d = 0; d < f.dim_count; ++d) {
      const std::int64_t all = m_.whole_of(c.op, d), begin = static_cast<std::int64_t>(c.offsets[d]),
                         size = static_cast<std::int64_t>(c.extents[d]);
      p.letters[d] = {begin, begin + size};
      const bool good = static_cast<std::int64_t>(c.wholes[d]) == all && size > 0 && begin >= 0 && begin + size <= all &&
                        (!f.dims[d].whole || f.dims[d].merged || size == all);
      if (!good)
        r_.fail(program_fault::wrong_piece,
                words({"letter ", f.dims[d].letter, ": ", c.offsets[d], " to ", c.offsets[d] + c.extents[d], " of ", c.wholes[d],
                       " is no piece of axis ", f.dims[d].axis->name, ", which has ", static_cast<long long>(all),
                       f.dims[d].whole ? " and is never cut" : ""}));
    }
    return p;
  }
  std::int64_t bytes_of_part(int tensor, part_of_tensor const& part) const {
    return part.elements() * bytes_of(m_.tensor(tensor).type);
  }

  int read(int tensor, part_of_tensor const& part, reference const& at, int number) {
    tensor_view const& t = m_.tensor(tensor);
    r_.check_place(at, bytes_of_part(tensor, part));
    r_.read_bytes(at.buffer);
    return understood(
        tensor, part,
        look(r_.contents_of(at.buffer), m_.dense(t, part, static_cast<std::int64_t>(at.offset)), t.root, t.type, r_.sums()),
        number, at.buffer);
  }
  int understood(int tensor, part_of_tensor const& part, reading const& found, int number, int buffer) const {
    if (found.what == seen::good) return found.sum;
    r_.fail(rank_check::fault_of(found.what),
            words({"input ", number, " is to be ", m_.name_of_tensor(tensor), m_.words_of_part(part), ", but ",
                   buffer < 0 ? std::string("the tile") : words({"buffer ", buffer}), " ", r_.words_of_reading(found)}));
  }
  // The operands that lie here of a sum over any number of them: which they are, what lies there tells.
  std::vector<int> read_terms(piece const& of, compute_call const& c, std::vector<places>& reads) {
    op_entry const& e = *of.entry;
    std::vector<int> sums(static_cast<std::size_t>(e.input_count), nothing);
    part_of_tensor const part = m_.operand_part(of.op, e.info->inputs[0], of.letters);
    for (int k = 0; k < c.input_count; ++k) {
      reference const& at = r_.item(r_.what().references, c.first_input + k, "references");
      const int first = m_.graph.input(e, 0);
      r_.check_place(at, bytes_of_part(first, part));
      r_.read_bytes(at.buffer);
      bool known = false;
      for (int i = 0; i < e.input_count && !known; ++i) {
        if (sums[static_cast<std::size_t>(i)] != nothing) continue;
        tensor_view const& t = m_.tensor(m_.graph.input(e, i));
        const lattice wanted = m_.dense(t, part, static_cast<std::int64_t>(at.offset));
        bool near = false;
        for (patch const& p : r_.contents_of(at.buffer))
          near = near || (p.tensor == t.root && p.where.place <= wanted.place && p.where.last() >= wanted.place);
        if (!near) continue;
        const reading found = look(r_.contents_of(at.buffer), wanted, t.root, t.type, r_.sums());
        if (found.what != seen::good) continue;
        sums[static_cast<std::size_t>(i)] = found.sum;
        known = true;
      }
      if (!known)
        r_.fail(program_fault::wrong_contents, words({"input ", k, " is none of the sum's terms, or one that it has already"}));
      reads.push_back({at.buffer, static_cast<std::int64_t>(at.offset), bytes_of_part(first, part), -1});
    }
    return sums;
  }
  void check_outputs(piece const& of, compute_call const& c) const {
    op_info const& f = *of.entry->info;
    if (!c.accumulate) return;
    if (!f.accumulates) r_.fail(program_fault::malformed, words({"it is to add to its output, which ", f.kind, " cannot"}));
    for (int o = 0; o < f.output_count; ++o)
      if (f.outputs[o].reduce != reduction::sum)
        r_.fail(program_fault::wrong_reduction, words({"it adds to an output that is no sum"}));
  }
  // From which pieces output o is reduced once the op has run.
  int sum_of(piece const& of, int o, std::vector<int> const& of_inputs) {
    op_info const& f = *of.entry->info;
    const int tensor = m_.tensor(of.entry->first_output + o).root;
    operand const& x = f.outputs[o];
    box_of_letters missing;
    std::int64_t all = 1;
    for (int d = 0; d < f.dim_count; ++d) {
      bool there = false;
      for (int a = 0; a < x.rank; ++a) there = there || x.dims[a] == d || x.inner[a] == d;
      if (there) continue;
      missing.at[missing.rank++] = of.letters[d];
      all *= m_.whole_of(of.op, d);
    }
    bool partial = f.variadic;
    for (std::size_t k = 0; k < of_inputs.size(); ++k) {
      if (of_inputs[k] == whole) continue;
      if (!f.variadic && !f.passes_partial)
        r_.fail(program_fault::incomplete,
                words({"input ", k, " has ", r_.sums().words(of_inputs[k]), " of ",
                       m_.name_of_tensor(m_.graph.input(*of.entry, static_cast<int>(k))), ", and ", f.kind, " needs it whole"}));
      if (of_inputs[k] > whole && r_.sums().how(of_inputs[k]) != reduction::sum)
        r_.fail(program_fault::incomplete, words({"input ", k, " is a partial maximum, which ", f.kind, " needs whole"}));
      partial = true;
    }
    const int own = r_.sums().piece(tensor, x.reduce, missing, all);
    if (!partial) return own;
    if (own != whole) r_.fail(program_fault::incomplete, "partial inputs, and a cut of what is summed");
    return f.is_view && of_inputs.size() == 1 ? of_inputs[0] : r_.sums().linear(tensor, of_inputs);
  }
  void write(int tensor, part_of_tensor const& part, reference const& at, int sum, bool accumulate) {
    tensor_view const& t = m_.tensor(tensor);
    const std::int64_t bytes = bytes_of_part(tensor, part);
    if (bytes == 0) return;
    patch x{t.root, sum, t.type, r_.position(), m_.dense(t, part, 0)};
    if (sum == nothing) x = {zeros, nothing, t.type, r_.position(), m_.dense(t, part, 0)};
    contents made{x};
    if (accumulate) made = r_.combine_or_fail(r_.run_of(at, bytes, &t.type), made, reduction::sum, " in the output");
    r_.write_run(at, bytes, made);
  }
  void use_scratch(reference const& at, std::size_t bytes) {
    r_.check_place(at, static_cast<std::int64_t>(bytes));
    r_.write_bytes(at.buffer);
    r_.contents_of(at.buffer).clear();
  }

  // -- chains
  struct tile_value {  // what a tile's scratch holds: a whole piece, of which the tile has some rows
    std::size_t begin, end;
    patch what;
  };
  struct tile_state {
    std::vector<tile_value> scratch;
    std::vector<places> read, written;
  };
  // Whether an operand's first axes are the shared ones, so that rows of it are rows of the chain.
  static bool has_rows(operand const& x, chain_link const& link, int depth) {
    if (x.rank < depth) return false;
    for (int d = 0; d < depth; ++d)
      if (x.dims[d] != link.letters[d] || x.inner[d] >= 0) return false;
    return true;
  }
  static bool knows_rows(operand const& x, chain_link const& link, int depth) {
    for (int a = 0; a < x.rank; ++a)
      for (int d = 0; d < depth; ++d)
        if (x.dims[a] == link.letters[d] || x.inner[a] == link.letters[d]) return true;
    return false;
  }
  void run_link(chain_call const& chain, chain_link const& link, std::int64_t rows) {
    compute_call const& c = r_.item(r_.what().computes, link.compute, "computes");
    const piece of = piece_of(c);
    op_info const& f = *of.entry->info;
    if (f.variadic || c.input_count != f.input_count || c.accumulate || c.scratch.buffer >= 0)
      r_.fail(program_fault::malformed, words({f.kind, " cannot run in a chain like this"}));
    for (int d = 0; d < chain.depth; ++d) {
      const int letter = link.letters[d];
      const std::size_t wanted = d + 1 < chain.depth ? chain.outer[d] : chain.inner;
      if (letter < 0 || letter >= f.dim_count || f.dims[letter].whole || c.extents[letter] != wanted)
        r_.fail(program_fault::wrong_piece, words({f.kind, " cannot be cut into the chain's rows"}));
    }
    std::vector<int> sums;
    for (int k = 0; k < f.input_count; ++k) sums.push_back(read_in_chain(chain, link, of, c, k, rows));
    for (int o = 0; o < f.output_count; ++o) write_in_chain(chain, link, of, c, o, rows, sum_of(of, o, sums));
  }
  int read_in_chain(chain_call const& chain, chain_link const& link, piece const& of, compute_call const& c, int k,
                    std::int64_t rows) {
    op_info const& f = *of.entry->info;
    const int tensor = m_.graph.input(*of.entry, k);
    tensor_view const& t = m_.tensor(tensor);
    part_of_tensor const part = m_.operand_part(c.op, f.inputs[k], of.letters);
    const std::int64_t bytes = bytes_of_part(tensor, part);
    check_kind(chain, link, f.inputs[k], k, bytes / rows, false);
    if (link.operands[k] == tile_operand::internal) {
      const lattice wanted = m_.dense(t, part, 0);
      for (tile_value const& v : tiles_.scratch)
        if (v.begin == link.slots[k] && v.end == link.slots[k] + static_cast<std::size_t>(bytes / rows) * chain.tile_rows)
          return understood(tensor, part, look({v.what}, wanted, t.root, t.type, r_.sums()), k, -1);
      r_.fail(program_fault::undefined,
              words({"input ", k, " is to be in the tile's scratch at ", link.slots[k], ", where nothing of its size was left"}));
    }
    reference const& at = r_.item(r_.what().references, c.first_input + k, "references");
    const places here{at.buffer, static_cast<std::int64_t>(at.offset), bytes, t.root};
    bool made_here = false;
    for (places const& x : tiles_.written)
      if (x.overlaps(here)) {
        if (!x.same(here) || link.operands[k] != tile_operand::rows)
          r_.fail(program_fault::shared_bytes, words({"input ", k, " is made by the chain and read before all of it is there"}));
        made_here = true;
      }
    if (!made_here) tiles_.read.push_back(here);
    return read(tensor, part, at, k);
  }
  void write_in_chain(chain_call const& chain, chain_link const& link, piece const& of, compute_call const& c, int o,
                      std::int64_t rows, int sum) {
    op_info const& f = *of.entry->info;
    const int tensor = of.entry->first_output + o, number = f.input_count + o;
    tensor_view const& t = m_.tensor(tensor);
    part_of_tensor const part = m_.operand_part(c.op, f.outputs[o], of.letters);
    const std::int64_t bytes = bytes_of_part(tensor, part);
    check_kind(chain, link, f.outputs[o], number, bytes / rows, true);
    if (link.operands[number] == tile_operand::internal) {
      const std::size_t begin = link.slots[number], end = begin + static_cast<std::size_t>(bytes / rows) * chain.tile_rows;
      if (end > chain.scratch_bytes)
        r_.fail(program_fault::out_of_bounds, words({"output ", o, " lies outside the tile's scratch"}));
      std::erase_if(tiles_.scratch, [&](tile_value const& v) { return v.begin < end && begin < v.end; });
      tiles_.scratch.push_back({begin, end, {t.root, sum, t.type, r_.position(), m_.dense(t, part, 0)}});
      return;
    }
    reference const& at = r_.item(r_.what().references, c.first_output + o, "references");
    const places here{at.buffer, static_cast<std::int64_t>(at.offset), bytes, t.root};
    for (auto const* list : {&tiles_.read, &tiles_.written})
      for (places const& x : *list)
        if (x.overlaps(here))
          r_.fail(program_fault::shared_bytes, words({"output ", o, " lies on what the next tile still reads"}));
    tiles_.written.push_back(here);
    write(tensor, part, at, sum, false);
  }
  void check_kind(chain_call const& chain, chain_link const& link, operand const& x, int number, std::int64_t row_bytes,
                  bool written) const {
    const tile_operand kind = link.operands[number];
    const bool good =
        kind == tile_operand::whole ? !written && !knows_rows(x, link, chain.depth) : has_rows(x, link, chain.depth);
    if (!good)
      r_.fail(program_fault::wrong_piece, words({"operand ", number, " cannot be taken by rows of the chain as it is said"}));
    if (kind == tile_operand::rows && link.row_bytes[number] != static_cast<std::size_t>(row_bytes))
      r_.fail(program_fault::wrong_piece, words({"operand ", number, " has rows of ", static_cast<long long>(row_bytes),
                                                 " bytes, not ", link.row_bytes[number]}));
  }

  rank_check& r_;
  model_view const& m_;
  workspace_of const& workspace_;
  tile_state tiles_;
};

}  // namespace partita::detail::checking
