// What each instruction of a program puts into a stream: found out once, with addresses in place of references.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <string>
#include <utility>

#include <partita/core/list.hpp>
#include <partita/core/words.hpp>
#include <partita/device/cuda/boxes.hpp>
#include <partita/device/cuda/chain_finder.hpp>
#include <partita/device/cuda/epilogues.hpp>
#include <partita/device/cuda/launcher.hpp>
#include <partita/device/cuda/maxima.hpp>
#include <partita/device/cuda/memory.hpp>
#include <partita/device/cuda/products.hpp>
#include <partita/device/cuda/scratch.hpp>
#include <partita/device/cuda/touched_ranges.hpp>
#include <partita/program/joined_call.hpp>
#include <partita/program/placed_transfer.hpp>
#include <partita/program/program.hpp>
#include <partita/program/words.hpp>

namespace partita::on_cuda {

template <class Api> class tasks_of_program {
 public:
  tasks_of_program(program const& what, graph_data const& graph, kernels_of_training const& kernels,
                   std::span<std::uint64_t const> keys, std::byte* state, std::byte* arena, step_context const* step,
                   fault_record* fault, products<Api>& multiplies, bool trains, unsigned most_blocks)
      : program_(&what),
        graph_(&graph),
        launchers_(kernels.launchers),
        boxes_(kernels.boxes),
        keys_(keys),
        state_(state),
        arena_(arena),
        step_(step),
        fault_(fault),
        products_(&multiplies),
        most_blocks_(most_blocks) {
    host_step_.training = trains;
    place_variadic_inputs();
    for (collective_call const& c : what.collectives) joined_.push_back({address(c.from), address(c.to), c.counts});
    if (const std::size_t bytes = bytes_of_keys(what); bytes > 0)
      keys_of_maxima_ = device_memory<Api>(bytes, "keys of maxima between devices");
    for (instruction const& i : what.instructions) {
      of_.push_back({tasks_.size(), 0, 0});
      touched_.add(what, i, [this](reference const& r) { return address(r); });
      add(i);
      of_.back().tasks = tasks_.size() - of_.back().first_task - of_.back().tasks_after;
    }
    add_epilogues();
    add_chains(kernels.chains);
    for (exchange_call const& e : what.exchanges) {
      exchanges_.push_back({transfers_.size(), e.sends.size(), e.receives.size()});
      for (auto const* half : {&e.sends, &e.receives}) {
        list<transfer> sorted(*half);  // between two ranks NCCL matches by order, so both order by tag
        std::stable_sort(sorted.begin(), sorted.end(), [](transfer const& a, transfer const& b) {
          return std::pair(a.peer, a.tag) < std::pair(b.peer, b.tag);
        });
        for (transfer const& t : sorted) transfers_.push_back({t.peer, address(t.at), t.bytes});
      }
    }
  }

  // `alone`: the instruction as it stands; else with those that a product or a chain takes in, whose own turn then puts nothing.
  void put(std::size_t instruction, typename Api::stream_type stream, bool alone = false) {
    span_of_tasks const& own = of_[instruction];
    if (!alone && own.taken_in) return;
    if (!alone && own.with_epilogue != none) {
      joined_product const& whole = with_epilogues_[own.with_epilogue];
      return products_->put(*whole.ready, whole.what, stream);
    }
    if (!alone && own.with_chain != none) {
      chain_finder::chain const& whole = chains_[own.with_chain];
      whole.kernel->launch(whole.arguments, whole.blocks(most_blocks_), most_threads, Api::handle(stream));
      return check<Api>(Api::launched(), "a launch");
    }
    put(own.first_task, own.tasks, stream);
  }
  // After a collective.
  void put_after(std::size_t instruction, typename Api::stream_type stream) {
    span_of_tasks const& own = of_[instruction];
    put(own.first_task + own.tasks, own.tasks_after, stream);
  }
  // Of what the calls of a collective hold.
  dtype type_of_calls(instruction const& i) const { return reduces_keys(*program_, i) ? type_of_keys(i.type) : i.type; }
  // What `put` touches.
  std::span<memory_range const> reads(std::size_t instruction, bool alone = false) const {
    return touched_.reads(instruction, alone);
  }
  std::span<memory_range const> writes(std::size_t instruction, bool alone = false) const {
    return touched_.writes(instruction, alone);
  }
  std::span<joined_call const> collectives(std::size_t first, std::size_t count) const {
    return std::span(joined_).subspan(first, count);
  }
  std::span<placed_transfer const> sends(std::size_t exchange) const {
    return std::span(transfers_).subspan(exchanges_[exchange].first, exchanges_[exchange].sends);
  }
  std::span<placed_transfer const> receives(std::size_t exchange) const {
    return std::span(transfers_).subspan(exchanges_[exchange].first + exchanges_[exchange].sends, exchanges_[exchange].receives);
  }

  // Null for no place.
  std::byte* address(reference const& at) const {
    if (at.buffer < 0) return nullptr;
    buffer const& b = program_->buffers[static_cast<std::size_t>(at.buffer)];
    return (b.where == region::state ? state_ : arena_) + b.offset + at.offset;
  }
  // Launches of kernels in a step.
  std::size_t launches() const {
    std::size_t n = 0;
    for (span_of_tasks const& own : of_)
      if (!own.taken_in)
        for (std::size_t k = 0; k < own.tasks; ++k) n += tasks_[own.first_task + k].what != task::kind::product;
    return n;
  }
  // Instructions that products and chains take in.
  std::size_t taken_in() const {
    return static_cast<std::size_t>(std::count_if(of_.begin(), of_.end(), [](span_of_tasks const& own) { return own.taken_in; }));
  }
  bool is_taken_in(std::size_t instruction) const { return of_[instruction].taken_in; }
  bool takes_in(std::size_t instruction) const {
    return of_[instruction].with_epilogue != none || of_[instruction].with_chain != none;
  }
  std::span<chain_finder::chain const> chains() const { return chains_; }
  // The chain that an instruction puts; null: none.
  chain_finder::chain const* chain_at(std::size_t instruction) const {
    return of_[instruction].with_chain == none ? nullptr : &chains_[of_[instruction].with_chain];
  }
  // The product that an instruction is, where it is one and nothing else; null elsewhere.
  product const* only_product(std::size_t instruction) const {
    span_of_tasks const& own = of_[instruction];
    if (own.tasks != 1 || tasks_[own.first_task].what != task::kind::product) return nullptr;
    return &products_put_[tasks_[own.first_task].index];
  }
  std::string words_of(fault_record const& f) const {
    auto const op = static_cast<std::size_t>(program_->computes[static_cast<std::size_t>(f.compute)].op);
    return launchers_[op].words != nullptr ? launchers_[op].words(f.what) : words({"a mistake in its data: ", f.what.value});
  }

 private:
  struct task {
    enum class kind : std::uint8_t { launch, box, product } what = kind::launch;
    int step = 0;
    unsigned blocks = 1, threads = most_threads;
    std::size_t memory = 0;
    std::size_t op = 0, index = 0;  // into arguments_, box_arguments_ or products_put_
    typename Api::product_type const* ready = nullptr;
  };
  static constexpr std::size_t none = epilogue_finder::none;
  struct span_of_tasks {
    std::size_t first_task, tasks, tasks_after;
    std::size_t with_epilogue = none, with_chain = none;  // into with_epilogues_, chains_
    bool taken_in = false;
  };
  struct joined_product {
    product what;
    typename Api::product_type const* ready;
  };
  struct span_of_transfers {
    std::size_t first, sends, receives;
  };

  void put(std::size_t first, std::size_t count, typename Api::stream_type stream) {
    for (std::size_t k = first; k < first + count; ++k) {
      task const& t = tasks_[k];
      switch (t.what) {
        case task::kind::launch:
          launchers_[t.op].launch(arguments_[t.index], t.step, {t.blocks, t.threads, t.memory}, Api::handle(stream));
          break;
        case task::kind::box: boxes_(box_arguments_[t.index], t.blocks, t.threads, Api::handle(stream)); break;
        case task::kind::product: {
          products_->put(*t.ready, products_put_[t.index], stream);
          continue;
        }
      }
      check<Api>(Api::launched(), "a launch");
    }
  }
  std::string place(instruction const& i) const {
    return words({"rank ", program_->rank, ", ", partita::words_of(*program_, *graph_, i)});
  }

  // An op of any number of inputs finds their addresses in device memory.
  void place_variadic_inputs() {
    list<void const*> all;
    for (std::size_t at = 0; at < program_->computes.size(); ++at) {
      compute_call const& c = program_->computes[at];
      if (!graph_->ops[c.op].info->variadic) continue;
      variadic_[static_cast<int>(at)] = all.size();
      for (int k = 0; k < c.input_count; ++k)
        all.push_back(address(program_->references[static_cast<std::size_t>(c.first_input + k)]));
    }
    if (all.empty()) return;
    inputs_ = device_memory<Api>(all.size() * sizeof(void*), "addresses of operands");
    check<Api>(Api::copy_now(inputs_.data(), all.data(), inputs_.size()), "addresses of operands");
  }

  // One instruction of several puts what all of them do.
  void join(std::span<std::size_t const> members, std::size_t puts) {
    for (std::size_t at : members) of_[at].taken_in = at != puts;
    touched_.join(members, puts);
  }
  void add(instruction const& i) {
    switch (i.kind) {
      case instruction_kind::compute: return add_compute(i);
      case instruction_kind::copy:
        for (int k = 0; k < i.box_count; ++k) {
          box_copy const& b = program_->boxes[static_cast<std::size_t>(i.first_box + k)];
          add_box(arguments_of(b, i.type, address(b.from), address(b.to)));
        }
        return;
      case instruction_kind::fill: {
        fill_call const& f = program_->fills[static_cast<std::size_t>(i.payload)];
        return add_fill(i, address(f.to), f.elements, f.value);
      }
      case instruction_kind::chain: throw_error({place(i), ": chains are made for CPU devices; lower with fuse = false"});
      default:
        if (i.where != lane::communication) throw_error({place(i), ": communicates in the compute lane"});
        if (reduces_keys(*program_, i)) add_keys(i);
    }
  }

  // Maxima between devices: of keys, in memory of their own, one instruction after the other.
  void add_keys(instruction const& i) {
    const std::size_t size = size_of(type_of_keys(i.type));
    std::byte* keys = keys_of_maxima_.data();
    list<box_arguments> after;
    for (std::size_t at = static_cast<std::size_t>(i.payload); at < static_cast<std::size_t>(i.payload + i.call_count); ++at) {
      const reduced_numbers n = numbers_of(*program_, i, program_->collectives[at]);
      joined_call& joined = joined_[at];
      add_box(keys_box(box_kind::to_keys, i.type, n.all, i.kind == instruction_kind::all_reduce ? joined.to : joined.from, keys));
      after.push_back(keys_box(box_kind::from_keys, i.type, n.kept, keys + n.first * size, joined.to));
      joined.from = keys;
      joined.to = keys + n.first * size;
      keys += n.bytes(i.type);
    }
    const std::size_t before = tasks_.size();
    for (box_arguments const& a : after) add_box(a);
    of_.back().tasks_after = tasks_.size() - before;
  }
  void add_compute(instruction const& i) {
    compute_call const& c = program_->computes[static_cast<std::size_t>(i.payload)];
    const auto op = static_cast<std::size_t>(c.op);
    if (c.op < 0 || op >= launchers_.size() || op >= keys_.size() || launchers_[op].record == nullptr)
      throw_error({place(i), ": has no kernel for CUDA devices"});
    launcher const& l = launchers_[op];
    op_entry const& e = graph_->ops[c.op];
    kernel_arguments a;
    a.input_count = c.input_count;
    a.compute = i.payload;
    a.info = *e.info;
    if (const auto known = variadic_.find(i.payload); known != variadic_.end())
      a.all_inputs = reinterpret_cast<void const* const*>(inputs_.data()) + known->second;
    else
      for (int k = 0; k < c.input_count; ++k)
        a.inputs[k] = address(program_->references[static_cast<std::size_t>(c.first_input + k)]);
    for (int k = 0; k < c.output_count; ++k)
      a.outputs[k] = address(program_->references[static_cast<std::size_t>(c.first_output + k)]);
    std::memcpy(a.extents, c.extents, sizeof a.extents);
    std::memcpy(a.offsets, c.offsets, sizeof a.offsets);
    std::memcpy(a.wholes, c.wholes, sizeof a.wholes);
    a.given = e.given;
    a.key = keys_[op];
    a.accumulate = c.accumulate;
    a.scratch = address(c.scratch);
    a.fault = fault_;
    a.step = &host_step_;
    recording r;
    l.record(a, r);
    const std::size_t own = own_scratch(l, a.info, a.extents), wanted = own + bytes_of_sums(r),
                      given = c.scratch.buffer < 0
                                  ? 0
                                  : program_->buffers[static_cast<std::size_t>(c.scratch.buffer)].bytes - c.scratch.offset;
    if (wanted > given) throw_error({place(i), ": needs ", wanted, " bytes of scratch, but the program has ", given});
    if (a.scratch != nullptr) a.partials = static_cast<std::byte*>(a.scratch) + own;
    if (r.refused) throw_error({place(i), ": ", l.words != nullptr ? l.words(r.fault) : std::string("refused by its kernel")});
    if (r.too_long) throw_error({place(i), ": its kernel has more than ", recording::most, " loops"});
    a.step = step_;
    arguments_.push_back(a);
    for (int s = 0; s < r.count; ++s) {
      launch_step const& step = r.steps[s];
      if (step.is_product) each_product(step, [&](product const& p) { add_product(i, p); });
      else if (step.items > 0) {
        task t;
        t.step = s;
        t.op = op;
        t.memory = step.memory;
        t.index = arguments_.size() - 1;
        t.threads = static_cast<unsigned>(std::clamp<std::size_t>((step.per_item + 31) / 32 * 32, 32, most_threads));
        t.blocks = static_cast<unsigned>(std::min<std::size_t>(step.items, most_blocks_ * (most_threads / t.threads)));
        tasks_.push_back(t);
      }
    }
  }
  typename Api::product_type const* ready(instruction const& i, product_shape const& shape) try {
    return products_->ready(shape);
  } catch (error const& e) { throw_error({place(i), ": ", e.what()}); }
  void add_product(instruction const& i, product const& p) {
    if (p.m == 0 || p.n == 0) return;
    if (i.where != lane::compute)
      throw_error({place(i), ": multiplies in the communication lane, whose products share a workspace"});
    if (p.k == 0) {
      if (!p.accumulate) add_fill(i, p.c, p.m * p.n, 0);
      return;
    }
    task t;
    t.what = task::kind::product;
    t.index = products_put_.size();
    t.ready = ready(i, shape_of(p));
    products_put_.push_back(p);
    tasks_.push_back(t);
  }
  // Products together with the additions and gelu that follow, where the library has that.
  void add_epilogues() {
    const epilogue_finder finder(*program_, *graph_, launchers_);
    for (std::size_t at = 0; at < of_.size(); ++at) {
      product const* const alone = only_product(at);
      if (alone == nullptr) continue;
      epilogue_finder::joined found = finder.join(at, *alone, [this](reference const& r) { return address(r); });
      if (found.next.all().empty()) continue;
      instruction const& i = program_->instructions[at];
      typename Api::product_type const* made = ready(i, shape_of(found.what));
      while (made == nullptr && found.drop(*alone)) made = ready(i, shape_of(found.what));
      if (made == nullptr) continue;
      of_[at].with_epilogue = with_epilogues_.size();
      list<std::size_t> members = found.next.all();
      members.push_back(at);
      join(members, at);
      with_epilogues_.push_back({found.what, made});
    }
  }
  // Element-wise ops that follow each other, as one kernel.
  void add_chains(std::span<chain_kernel const> kernels) {
    const chain_finder finder(*program_, *graph_, launchers_, kernels, keys_);
    chains_ = finder.find([this](reference const& r) { return address(r); },
                          [this](std::size_t at) { return of_[at].taken_in || takes_in(at); }, step_);
    for (std::size_t k = 0; k < chains_.size(); ++k) {
      chain_finder::chain const& each = chains_[k];
      of_[each.place].with_chain = k;
      join(std::span(each.members).first(static_cast<std::size_t>(each.count)), each.place);
    }
  }
  void add_fill(instruction const& i, void* to, std::size_t elements, double value) {
    add_box(fill_of(to, i.type, elements, value));
  }
  void add_box(box_arguments const& a) {
    if (a.elements == 0) return;
    task t;
    t.what = task::kind::box;
    t.index = box_arguments_.size();
    t.blocks = static_cast<unsigned>(std::min<std::size_t>((a.elements + box_chunk - 1) / box_chunk, most_blocks_));
    box_arguments_.push_back(a);
    tasks_.push_back(t);
  }

  program const* program_;
  graph_data const* graph_;
  std::span<launcher const> launchers_;
  box_launch boxes_;
  std::span<std::uint64_t const> keys_;
  std::byte *state_, *arena_;
  step_context const* step_;  // device memory
  fault_record* fault_;       // device memory
  products<Api>* products_;
  unsigned most_blocks_;
  step_context host_step_{};
  list<task> tasks_;
  list<span_of_tasks> of_;  // by instruction
  touched_ranges touched_;
  list<kernel_arguments> arguments_;
  list<box_arguments> box_arguments_;
  list<product> products_put_;
  list<joined_product> with_epilogues_;
  list<chain_finder::chain> chains_;
  list<joined_call> joined_;  // by program::collectives
  list<placed_transfer> transfers_;
  list<span_of_transfers> exchanges_;
  std::map<int, std::size_t> variadic_;  // by compute: where its addresses begin in inputs_
  device_memory<Api> inputs_, keys_of_maxima_;
};

}  // namespace partita::on_cuda
