// One rank's instructions, followed on contents instead of numbers.
#pragma once
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include <partita/program/check/bytes.hpp>
#include <partita/program/check/contents.hpp>
#include <partita/program/check/model_view.hpp>
#include <partita/program/words.hpp>

namespace partita::detail::checking {

class rank_check {
 public:
  rank_check(model_view const& model, pieces_summed& sums, program const& p)
      : model_(model), sums_(sums), p_(p), bytes_((check_tables(p), p)), held_(p.buffers.size()) {}

  program const& what() const { return p_; }
  int position() const { return now_; }
  bool ended() const { return now_ == static_cast<int>(p_.instructions.size()); }
  void advance() { ++now_; }
  instruction const& current() const { return p_.instructions[static_cast<std::size_t>(now_)]; }

  [[noreturn]] void fail(program_fault what, std::string text) const { fail_at(what, now_, std::move(text)); }
  [[noreturn]] void fail_at(program_fault what, int at, std::string text) const {
    checking::fail(what, p_.rank, at, std::move(text));
  }
  template <class T> T const& item(list<T> const& table, int i, char const* name) const {
    if (i < 0 || static_cast<std::size_t>(i) >= table.size())
      fail(program_fault::malformed, words({"number ", i, " of ", name, ", of which there are ", table.size()}));
    return table[static_cast<std::size_t>(i)];
  }

  // -- what is there before the first instruction
  void start() {
    now_ = -1;
    for (std::size_t b = 0; b < p_.buffers.size(); ++b)
      if (p_.buffers[b].where == region::state) bytes_.begin(static_cast<int>(b));
    for (auto const* list : {&p_.inputs, &p_.stored})
      for (outside const& o : *list) {
        const part_of_tensor part = part_of(o);
        source_kind const kind = model_.graph.ops[model_.graph.tensors[o.tensor].op].info->source;
        if (kind == source_kind::none || (kind == source_kind::input) != (list == &p_.inputs))
          fail(program_fault::malformed, words({model_.name_of_tensor(o.tensor), " is listed among ",
                                                list == &p_.inputs ? "inputs" : "what is stored", ", which it is not"}));
        if (part.elements() == 0) continue;
        bytes_.begin(o.at.buffer);
        tensor_view const& t = model_.tensor(o.tensor);
        patch x{t.root, whole, t.type, -1, model_.dense(t, part, static_cast<std::int64_t>(o.at.offset))};
        if (take_run_there(o.at.buffer, x.where.place, x.where.elements() * bytes_of(t.type)))
          fail(program_fault::shared_bytes,
               words({model_.name_of_tensor(o.tensor), " and another tensor are stored in the same place"}));
        put(contents_of(o.at.buffer), x);
      }
    now_ = 0;
  }
  // -- what has to be there after the last one
  void check_end(list<outside> const& all, char const* role, program_fault otherwise, auto wanted_of) {
    for (outside const& o : all) {
      const part_of_tensor part = part_of(o);
      const int wanted = wanted_of(o.tensor);
      if (wanted < 0) fail(program_fault::malformed, words({model_.name_of_tensor(o.tensor), " is listed among ", role}));
      tensor_view const& t = model_.tensor(wanted);
      if (part.elements() == 0) continue;
      bytes_.check_kept(o.at.buffer, now_);
      const reading r =
          look(contents_of(o.at.buffer), model_.dense(t, part, static_cast<std::int64_t>(o.at.offset)), t.root, t.type, sums_);
      if (r.what == seen::good && r.sum == whole) continue;
      const program_fault what = r.what == seen::good ? program_fault::incomplete : otherwise;
      fail(what, words({"after the step ", role, " wants ", model_.name_of_tensor(wanted), model_.words_of_part(part), " in ",
                        bytes_.buffer_words(o.at.buffer), ", which ", words_of_reading(r)}));
    }
  }
  // The part of a tensor that an entry is about, checked.
  part_of_tensor part_of(outside const& o) const {
    if (o.tensor < 0 || o.tensor >= model_.tensor_count())
      fail(program_fault::malformed, words({"tensor ", o.tensor, " is none of the graph's"}));
    tensor_view const& t = model_.tensor(o.tensor);
    part_of_tensor part;
    part.rank = o.rank;
    bool good = o.rank == t.rank;
    for (int a = 0; a < t.rank && good; ++a) {
      part.at[a] = {static_cast<std::int64_t>(o.begin[a]), static_cast<std::int64_t>(o.begin[a] + o.extents[a])};
      good = o.whole[a] == static_cast<std::size_t>(t.extents[a]) && o.begin[a] + o.extents[a] <= o.whole[a];
    }
    if (!good)
      fail(program_fault::wrong_piece, words({"the box given for ", model_.name_of_tensor(o.tensor), " is none of its boxes"}));
    check_place(o.at, part.elements() * bytes_of(t.type));
    return part;
  }

  // -- places and contents
  contents& contents_of(int buffer) { return held_[static_cast<std::size_t>(buffer)]; }
  // `bytes` from a place on are inside its buffer.
  void check_place(reference const& at, std::int64_t bytes) const {
    if (bytes == 0) return;
    buffer const& b = item(p_.buffers, at.buffer, "buffers");
    if (at.offset > b.bytes || static_cast<std::size_t>(bytes) > b.bytes - at.offset)
      fail(program_fault::out_of_bounds,
           words({"it uses ", static_cast<long long>(bytes), " bytes at ", at.offset, " of ", bytes_.buffer_words(at.buffer)}));
  }
  void read_bytes(int buffer) { bytes_.read(buffer, now_); }
  void write_bytes(int buffer) { bytes_.write(buffer, now_); }
  // Does anything known lie there?
  bool take_run_there(int buffer, std::int64_t begin, std::int64_t bytes) {
    contents there;
    return take_run(contents_of(buffer), begin, bytes, there) < bytes;
  }
  // What a run holds, all of one element type unless `type` is null; places count from 0.
  contents run_of(reference const& at, std::int64_t bytes, dtype const* type) {
    contents taken;
    if (bytes == 0) return taken;
    check_place(at, bytes);
    read_bytes(at.buffer);
    if (take_run(contents_of(at.buffer), static_cast<std::int64_t>(at.offset), bytes, taken) != 0)
      fail(program_fault::undefined, words({"it reads ", static_cast<long long>(bytes), " bytes at ", at.offset, " of ",
                                            bytes_.buffer_words(at.buffer), ", not all of which were written"}));
    if (type != nullptr)
      for (patch const& p : taken) check_type(p, *type);
    return taken;
  }
  void check_type(patch const& p, dtype type) const {
    if (p.type == type) return;
    fail(program_fault::wrong_type,
         words({"it treats ", model_.name_of_tensor(p.tensor), ", which is ", name_of(p.type), ", as ", name_of(type)}));
  }
  void write_run(reference const& at, std::int64_t bytes, contents const& given, std::int64_t shift = 0) {
    if (bytes == 0) return;
    check_place(at, bytes);
    write_bytes(at.buffer);
    lattice run;
    run.place = static_cast<std::int64_t>(at.offset);
    run.push(bytes, 1, 0);
    contents& held = contents_of(at.buffer);
    forget_run(held, run.place, bytes);
    for (patch p : given) {
      p.where.place += run.place + shift;
      p.made_by = now_;
      put(held, p);
    }
  }
  static void forget_run(contents& held, std::int64_t begin, std::int64_t bytes) {
    contents kept;
    for (patch const& p : held) {
      const std::int64_t size = bytes_of(p.type);
      if (p.where.last() + size <= begin || p.where.place >= begin + bytes) {
        kept.push_back(p);
        continue;
      }
      if ((p.where.place - begin) % size != 0 || bytes % size != 0) continue;
      lattice run;
      run.place = begin;
      run.push(bytes / size, size, 0);
      contents one{p};
      forget(one, run, size);
      kept.insert(kept.end(), one.begin(), one.end());
    }
    held = std::move(kept);
  }
  contents combine_or_fail(contents const& a, contents const& b, reduction how, std::string_view whose) {
    contents result;
    switch (combine(a, b, how, sums_, result)) {
      case combined::good: return result;
      case combined::unlike:
        fail(program_fault::wrong_contents, words({"it combines unlike elements", whose, words_of_pair(a, b)}));
      case combined::other_type: fail(program_fault::wrong_type, words({"it combines elements of different types", whose}));
      case combined::twice:
        fail(program_fault::counted_twice, words({"a piece is added that was in the sum before", whose, words_of_pair(a, b)}));
      case combined::otherwise_reduced:
        fail(program_fault::wrong_reduction,
             words({"partial results are combined otherwise than they are to be", whose, words_of_pair(a, b)}));
    }
    return result;
  }
  std::string words_of_pair(contents const& a, contents const& b) const {
    if (a.empty() || b.empty()) return "";
    return words({": ", words_of_patch(a.front()), " and ", words_of_patch(b.front())});
  }
  std::string words_of_patch(patch const& p) const {
    return model_.name_of_tensor(p.tensor) + (p.sum == whole ? "" : words({", ", sums_.words(p.sum)}));
  }
  std::string words_of_reading(reading const& r) const {
    const std::string held =
        r.found == nullptr
            ? ""
            : words_of_patch(*r.found) + (r.found->made_by < 0 ? "" : words({", written by instruction ", r.found->made_by}));
    switch (r.what) {
      case seen::good: return words({"holds ", sums_.words(r.sum), " of it"});
      case seen::undefined: return "holds nothing, or not all of it";
      case seen::other_tensor: return words({"holds ", held});
      case seen::other_part: return words({"holds another part of it, or in another order: ", held});
      case seen::other_type: return words({"holds elements of another type: ", held});
      case seen::mixed: return words({"holds parts of it that are reduced from different pieces: ", held});
    }
    return "";
  }
  static program_fault fault_of(seen s) {
    return s == seen::undefined    ? program_fault::undefined
           : s == seen::other_type ? program_fault::wrong_type
           : s == seen::mixed      ? program_fault::incomplete
                                   : program_fault::wrong_contents;
  }

  // -- instructions within a rank
  void copy(instruction const& i) {
    for (int k = 0; k < i.box_count; ++k) copy_box(item(p_.boxes, i.first_box + k, "boxes"), i.type);
  }
  void fill(fill_call const& f, dtype type) {
    const double v = f.value;
    const bool is_zero = v == 0 && !std::signbit(v), is_lowest = v <= -std::numeric_limits<double>::max();
    if (!is_zero && !is_lowest)
      fail(program_fault::wrong_contents, words({"it fills with ", v, ", which neither sums nor maxima begin with"}));
    if (f.elements == 0) return;
    patch x{is_zero ? zeros : lowest, nothing, type, now_, {}};
    const std::int64_t size = bytes_of(type);
    x.where.push(static_cast<std::int64_t>(f.elements), size, 0);
    write_run(f.to, static_cast<std::int64_t>(f.elements) * size, {x});
  }

  model_view const& model() const { return model_; }
  pieces_summed& sums() { return sums_; }
  bytes_of_rank& bytes() { return bytes_; }

 private:
  void copy_box(box_copy const& b, dtype type) {
    const std::int64_t size = bytes_of(type);
    if (b.rank < 0 || b.rank > max_rank) fail(program_fault::malformed, words({"a box of ", b.rank, " axes"}));
    struct axis {
      std::int64_t count, from, to;
    } axes[max_rank];
    int count = 0;
    for (int a = 0; a < b.rank; ++a) {
      if (b.extents[a] == 0) return;
      if (b.extents[a] > 1)
        axes[count++] = {static_cast<std::int64_t>(b.extents[a]), static_cast<std::int64_t>(b.from_strides[a]) * size,
                         static_cast<std::int64_t>(b.to_strides[a]) * size};
    }
    auto along = [&](reference const& at, std::int64_t axis::*place, reference const& index_at, std::int64_t axis::*index) {
      sort_few(axes, count, [&](axis const& x, axis const& y) { return x.*place > y.*place; });
      lattice l;
      l.place = static_cast<std::int64_t>(at.offset);
      l.index = static_cast<std::int64_t>(index_at.offset);
      for (int a = 0; a < count; ++a) l.push(axes[a].count, axes[a].*place, axes[a].*index);
      if (!is_nested(l, size)) fail(program_fault::malformed, "the strides of a copied box run into each other");
      check_place({at.buffer, at.offset}, l.last() + size - l.place);
      return l;
    };
    const lattice from = along(b.from, &axis::from, b.to, &axis::to), to = along(b.to, &axis::to, b.to, &axis::to);
    if (b.from.buffer == b.to.buffer && elements_in_common(from, to) > 0)
      fail(program_fault::shared_bytes, "it copies a box over itself");
    read_bytes(b.from.buffer);
    contents taken;
    if (take(contents_of(b.from.buffer), from, size, taken) != 0) fail_to_take(b.from, from, type, "copies");
    for (patch const& p : taken) check_type(p, type);
    if (b.combine) {
      read_bytes(b.to.buffer);
      contents before;
      if (take(contents_of(b.to.buffer), to, size, before) != 0) fail_to_take(b.to, to, type, "adds to");
      for (patch const& p : before) check_type(p, type);
      taken = combine_or_fail(before, taken, b.reduce, "");
    }
    write_bytes(b.to.buffer);
    contents& held = contents_of(b.to.buffer);
    forget(held, to, size);
    for (patch p : taken) {
      p.made_by = now_;
      put(held, p);
    }
  }
  [[noreturn]] void fail_to_take(reference const& at, lattice const& places, dtype type, char const* verb) {
    for (patch const& p : contents_of(at.buffer))
      if (p.where.place <= places.last() && p.where.last() >= places.place) check_type(p, type);
    fail(program_fault::undefined,
         words({"it ", verb, " a box at ", at.offset, " of ", bytes_.buffer_words(at.buffer), ", not all of which was written"}));
  }
  // Tables that constructors index.
  static program const& check_tables(program const& p) {
    for (std::size_t i = 0; i < p.instructions.size(); ++i) {
      instruction const& x = p.instructions[i];
      if (x.kind > instruction_kind::exchange)
        checking::fail(program_fault::malformed, p.rank, static_cast<int>(i), "it is of no known kind");
      if (is_communication(x.kind) && x.where != lane::communication)
        checking::fail(program_fault::malformed, p.rank, static_cast<int>(i),
                       words({name_of(x.kind), " stands in the compute lane: the other lane communicates"}));
      if (x.first_access < 0 || x.read_count < 0 || x.write_count < 0 ||
          static_cast<std::size_t>(x.first_access + x.read_count + x.write_count) > p.accesses.size())
        checking::fail(program_fault::malformed, p.rank, static_cast<int>(i), "its accesses are none of the program's");
    }
    for (int b : p.accesses)
      if (b < 0 || static_cast<std::size_t>(b) >= p.buffers.size())
        checking::fail(program_fault::malformed, p.rank, -1, words({"buffer ", b, " is accessed and does not exist"}));
    return p;
  }

  model_view const& model_;
  pieces_summed& sums_;
  program const& p_;
  bytes_of_rank bytes_;
  std::vector<contents> held_;
  int now_ = 0;
};

}  // namespace partita::detail::checking
