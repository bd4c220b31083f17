// Runs the programs of all ranks on one thread, each in the order of its list, without lanes: every buffer has memory of
// its own, so that neither the memory plan nor the executor can hide a wrong program.
#pragma once
#include <cmath>
#include <cstring>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include <partita/device/cpu/backend.hpp>
#include <partita/model/initial.hpp>
#include <partita/model/names.hpp>
#include <partita/program/lower.hpp>
#include <partita/program/words.hpp>

namespace partita::testing {

template <class Graph> class program_interpreter {
 public:
  program_interpreter(Graph const& g, std::vector<program> const& programs, std::uint64_t seed)
      : g_(g), programs_(programs), seed_(seed), keys_(random_keys(g, unique_names(g))), team_(1) {
    memory_.resize(programs.size());
    for (std::size_t r = 0; r < programs.size(); ++r)
      for (partita::buffer const& b : programs[r].buffers) memory_[r].emplace_back(b.bytes + 64, 0xff);
    for (std::size_t r = 0; r < programs.size(); ++r)
      for (outside const& o : programs[r].stored) {
        op_entry const& e = g.ops[g.tensors[o.tensor].op];
        void* to = at(r, o.at);
        const dtype type = e.info->outputs[0].type;
        attributes given = e.given;
        if (e.info->source == source_kind::constant) given = {{0, e.given.values[0]}};
        if (e.info->source == source_kind::state) given = {};
        const std::uint64_t name = hash(g.name(g.tensors[o.tensor].op).view());
        if (type == f64) fill_initial(given, name, seed, o.rank, o.whole, o.begin, o.extents, static_cast<double*>(to));
        else fill_initial(given, name, seed, o.rank, o.whole, o.begin, o.extents, static_cast<float*>(to));
      }
  }
  template <class Find> void run(Find find_input, step_context const& step) {
    for (std::size_t r = 0; r < programs_.size(); ++r)
      for (outside const& o : programs_[r].inputs) {
        auto const& whole = find_input(std::string(g_.name(g_.tensors[o.tensor].op).view()));
        const dtype type = g_.operand_of(o.tensor).type;
        each_element(o, [&](std::size_t local, std::size_t global) { set(at(r, o.at), type, local, whole.all.at(global)); });
      }
    std::vector<std::size_t> next(programs_.size(), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < programs_.size(); ++r)
        while (next[r] < programs_[r].instructions.size() && step_one(r, next, step)) {
          ++next[r];
          moved = true;
        }
    }
    std::string stuck;
    for (std::size_t r = 0; r < programs_.size(); ++r)
      if (next[r] != programs_[r].instructions.size()) {
        instruction const& i = programs_[r].instructions[next[r]];
        stuck += (stuck.empty() ? "" : "; ") + std::string("rank ") + std::to_string(r) + " is stuck at instruction " +
                 std::to_string(next[r]) + ", " + words_of(programs_[r], g_, i) + ", node " + std::to_string(i.node) +
                 ", index " + std::to_string(i.index);
      }
    if (!stuck.empty()) throw error(stuck);
    if (!mail_.empty()) throw error("a message was sent and never received");
    done_.clear();
  }
  // Replicas are the same bits, or within `apart` of each other.
  std::vector<double> gather(list<outside> program::*part, int tensor, double apart = 0) const {
    std::vector<double> all;
    std::vector<bool> known;
    for (std::size_t r = 0; r < programs_.size(); ++r)
      for (outside const& o : programs_[r].*part)
        if (o.tensor == tensor) {
          std::size_t n = 1;
          for (int a = 0; a < o.rank; ++a) n *= o.whole[a];
          all.resize(n);
          known.resize(n);
          const dtype type = g_.operand_of(tensor).type;
          each_element(o, [&](std::size_t local, std::size_t global) {
            const double v = get(at(r, o.at), type, local);
            if (known[global] && all[global] != v && !(std::abs(all[global] - v) <= apart) &&
                !(v != v && all[global] != all[global]))
              throw error("replicas of " + std::string(g_.name(g_.tensors[tensor].op).view()) + " differ: " +
                          std::to_string(all[global]) + " and on rank " + std::to_string(r) + " " + std::to_string(v));
            all[global] = v;
            known[global] = true;
          });
        }
    for (bool k : known)
      if (!k) throw error("no rank holds a part of " + std::string(g_.name(g_.tensors[tensor].op).view()));
    if (all.empty()) throw error("nobody holds " + std::string(g_.name(g_.tensors[tensor].op).view()));
    return all;
  }

 private:
  template <class F> static void each_element(outside const& o, F visit) {
    std::size_t n = 1;
    for (int a = 0; a < o.rank; ++a) n *= o.extents[a];
    for (std::size_t i = 0; i < n; ++i) {
      std::size_t left = i, stride = 1, global = 0;
      for (int a = o.rank - 1; a >= 0; --a) {
        global += (o.begin[a] + left % o.extents[a]) * stride;
        left /= o.extents[a];
        stride *= o.whole[a];
      }
      visit(i, global);
    }
  }
  static double get(void const* p, dtype t, std::size_t i) {
    switch (t) {
      case f64: return static_cast<double const*>(p)[i];
      case f32: return static_cast<float const*>(p)[i];
      case bf16: return float{static_cast<bfloat16 const*>(p)[i]};
      case f16: return float{static_cast<float16 const*>(p)[i]};
      default: return static_cast<std::int32_t const*>(p)[i];
    }
  }
  static void set(void* p, dtype t, std::size_t i, double v) {
    if (t == f64) static_cast<double*>(p)[i] = v;
    else if (t == f32) static_cast<float*>(p)[i] = static_cast<float>(v);
    else if (t == bf16) static_cast<bfloat16*>(p)[i] = bfloat16(static_cast<float>(v));
    else if (t == f16) static_cast<float16*>(p)[i] = float16(static_cast<float>(v));
    else static_cast<std::int32_t*>(p)[i] = static_cast<std::int32_t>(v);
  }
  static double combined(dtype t, double a, double b, reduction how) {
    if (how != reduction::sum) return a > b ? a : b;
    return t == f64 || t == i32 ? a + b : double{static_cast<float>(a) + static_cast<float>(b)};
  }
  static void combine(void* to, void const* from, dtype t, std::size_t i, std::size_t j, reduction how) {
    set(to, t, i, combined(t, get(to, t, i), get(from, t, j), how));
  }
  void* at(std::size_t r, partita::reference const& x) const {
    return const_cast<unsigned char*>(memory_[r][static_cast<std::size_t>(x.buffer)].data()) + x.offset;
  }

  bool step_one(std::size_t r, std::vector<std::size_t> const& next, step_context const& step) {
    program const& p = programs_[r];
    instruction const& i = p.instructions[next[r]];
    switch (i.kind) {
      case instruction_kind::compute: compute(r, p.computes[static_cast<std::size_t>(i.payload)], step); return true;
      case instruction_kind::chain: {  // link by link on whole pieces: tiles must not matter
        chain_call const& chain = p.chains[static_cast<std::size_t>(i.payload)];
        for (int l = 0; l < chain.link_count; ++l)
          compute(r, p.computes[static_cast<std::size_t>(p.links[static_cast<std::size_t>(chain.first_link + l)].compute)], step);
        return true;
      }
      case instruction_kind::fill: {
        fill_call const& f = p.fills[static_cast<std::size_t>(i.payload)];
        for (std::size_t k = 0; k < f.elements; ++k) set(at(r, f.to), i.type, k, f.value);
        return true;
      }
      case instruction_kind::copy:
        for (int b = 0; b < i.box_count; ++b) copy(r, p.boxes[static_cast<std::size_t>(i.first_box + b)], i.type);
        return true;
      case instruction_kind::exchange: return exchange(r, next[r], p.exchanges[static_cast<std::size_t>(i.payload)]);
      default: return collective(r, next, i);
    }
  }
  void compute(std::size_t r, compute_call const& c, step_context const& step) {
    program const& p = programs_[r];
    std::vector<void const*> inputs;
    std::vector<void*> outputs;
    for (int k = 0; k < c.input_count; ++k) inputs.push_back(at(r, p.references[static_cast<std::size_t>(c.first_input + k)]));
    for (int k = 0; k < c.output_count; ++k) outputs.push_back(at(r, p.references[static_cast<std::size_t>(c.first_output + k)]));
    on_cpu::launch_arguments a;
    a.inputs = inputs.data();
    a.outputs = outputs.data();
    a.input_count = c.input_count;
    a.info = g_.ops[c.op].info;
    for (int d = 0; d < max_dims; ++d) {
      a.extents[d] = c.extents[d];
      a.offsets[d] = c.offsets[d];
      a.wholes[d] = c.wholes[d];
    }
    a.given = g_.ops[c.op].given;
    a.key = keys_[static_cast<std::size_t>(c.op)];
    a.accumulate = c.accumulate;
    a.step = &step;
    a.team = &team_;
    std::vector<double> scratch(g_.launchers[c.op].workspace(*a.info, a.extents, 1) / 8 + 8);
    a.scratch = scratch.data();
    g_.launchers[c.op].run(a);
  }
  void copy(std::size_t r, box_copy const& b, dtype type) {
    std::size_t n = 1;
    for (int a = 0; a < b.rank; ++a) n *= b.extents[a];
    for (std::size_t i = 0; i < n; ++i) {
      std::size_t left = i, from = 0, to = 0;
      for (int a = b.rank - 1; a >= 0; --a) {
        from += left % b.extents[a] * b.from_strides[a];
        to += left % b.extents[a] * b.to_strides[a];
        left /= b.extents[a];
      }
      if (b.combine) combine(at(r, b.to), at(r, b.from), type, to, from, b.reduce);
      else set(at(r, b.to), type, to, get(at(r, b.from), type, from));
    }
  }
  bool exchange(std::size_t r, std::size_t position, exchange_call const& x) {
    if (!done_[{r, position}]) {
      for (transfer const& t : x.sends) {
        auto const* data = static_cast<unsigned char const*>(at(r, t.at));
        mail_[{r, static_cast<std::size_t>(t.peer), t.tag}].emplace_back(data, data + t.bytes);
      }
      done_[{r, position}] = true;
    }
    for (transfer const& t : x.receives)
      if (!mail_.count({static_cast<std::size_t>(t.peer), r, t.tag})) return false;
    for (transfer const& t : x.receives) {
      auto const mail = mail_.find({static_cast<std::size_t>(t.peer), r, t.tag});
      std::vector<unsigned char> const& first = mail->second.front();
      if (first.size() != t.bytes) throw error("a message has another size than its receiver expects");
      std::memcpy(at(r, t.at), first.data(), t.bytes);
      mail->second.pop_front();
      if (mail->second.empty()) mail_.erase(mail);
    }
    return true;
  }
  // Done by the last member that arrives, for all; the others find it done.
  bool collective(std::size_t r, std::vector<std::size_t> const& next, instruction const& i) {
    if (done_[{r, next[r]}]) return true;
    const int group = programs_[r].collectives[static_cast<std::size_t>(i.payload)].group;
    list<int> const& members = programs_[r].groups[static_cast<std::size_t>(group)];
    for (int m : members) {
      program const& p = programs_[static_cast<std::size_t>(m)];
      const std::size_t at = next[static_cast<std::size_t>(m)];
      if (at >= p.instructions.size()) return false;
      instruction const& other = p.instructions[at];
      if (!is_communication(other.kind) || other.kind == instruction_kind::exchange) return false;
      if (done_[{static_cast<std::size_t>(m), at}]) return false;  // it has yet to go on to this call
      if (p.collectives[static_cast<std::size_t>(other.payload)].group != group) return false;
      if (other.kind != i.kind || other.call_count != i.call_count)
        throw error("the members of a group call for different things");
    }
    for (int k = 0; k < i.call_count; ++k) carry_out(members, next, i, k);
    for (int m : members) done_[{static_cast<std::size_t>(m), next[static_cast<std::size_t>(m)]}] = true;
    return true;
  }
  // One of the calls that are made as one.
  void carry_out(list<int> const& members, std::vector<std::size_t> const& next, instruction const& i, int which) {
    std::vector<collective_call const*> calls;
    for (int m : members) {
      program const& p = programs_[static_cast<std::size_t>(m)];
      instruction const& other = p.instructions[next[static_cast<std::size_t>(m)]];
      calls.push_back(&p.collectives[static_cast<std::size_t>(other.payload + which)]);
      collective_call const &call = *calls.back(), &first = *calls.front();
      const bool agree =
          i.kind == instruction_kind::all_to_all ? call.counts.size() == first.counts.size() : call.counts == first.counts;
      if (!agree || call.group != first.group || call.reduce != first.reduce || other.type != i.type)
        throw error("the members of a group call for different things");
    }
    collective_call const& c = *calls.front();
    const std::size_t n = members.size();
    auto where = [&](std::size_t m, partita::reference const& x) { return at(static_cast<std::size_t>(members[m]), x); };
    if (i.kind == instruction_kind::all_reduce) {
      for (std::size_t e = 0; e < c.counts[0]; ++e) {
        double sum = get(where(0, calls[0]->to), i.type, e);
        for (std::size_t m = 1; m < n; ++m) sum = combined(i.type, sum, get(where(m, calls[m]->to), i.type, e), c.reduce);
        for (std::size_t m = 0; m < n; ++m) set(where(m, calls[m]->to), i.type, e, sum);
      }
    } else if (i.kind == instruction_kind::all_gather) {
      for (std::size_t to = 0; to < n; ++to) {
        std::size_t offset = 0;
        for (std::size_t from = 0; from < n; ++from) {
          for (std::size_t e = 0; e < c.counts[from]; ++e)
            set(where(to, calls[to]->to), i.type, offset + e, get(where(from, calls[from]->from), i.type, e));
          offset += c.counts[from];
        }
      }
    } else if (i.kind == instruction_kind::reduce_scatter) {
      std::size_t offset = 0;
      for (std::size_t to = 0; to < n; ++to) {
        for (std::size_t e = 0; e < c.counts[to]; ++e) {
          double sum = get(where(0, calls[0]->from), i.type, offset + e);
          for (std::size_t from = 1; from < n; ++from)
            sum = combined(i.type, sum, get(where(from, calls[from]->from), i.type, offset + e), c.reduce);
          set(where(to, calls[to]->to), i.type, e, sum);
        }
        offset += c.counts[to];
      }
    } else {
      for (std::size_t to = 0; to < n; ++to) {
        std::size_t received = 0;
        for (std::size_t from = 0; from < n; ++from) {
          if (calls[from]->counts[to] != calls[to]->receive_counts[from]) throw error("all-to-all counts differ");
          std::size_t offset = 0;
          for (std::size_t k = 0; k < to; ++k) offset += calls[from]->counts[k];
          for (std::size_t e = 0; e < calls[from]->counts[to]; ++e)
            set(where(to, calls[to]->to), i.type, received + e, get(where(from, calls[from]->from), i.type, offset + e));
          received += calls[from]->counts[to];
        }
      }
    }
  }

  Graph const& g_;
  std::vector<program> const& programs_;
  std::uint64_t seed_;
  list<std::uint64_t> keys_;
  on_cpu::workers team_;
  std::vector<std::vector<std::vector<unsigned char>>> memory_;
  // By sender, receiver and tag: of several with one tag the first sent is the first received, as communicators do it.
  std::map<std::tuple<std::size_t, std::size_t, std::uint64_t>, std::deque<std::vector<unsigned char>>> mail_;
  std::map<std::pair<std::size_t, std::size_t>, bool> done_;
};

}  // namespace partita::testing
