// Runs the program of one rank on a CUDA device.
//
// The calling thread puts every instruction of a step into one of two streams, in the order of the program, and then waits
// for the device. An instruction that waits for the other lane waits for an event in the other stream, so the host waits
// for nothing between. The step's numbers (learning rate, step, seed) are read from device memory: a step that was captured
// as a graph, with what NCCL puts into the streams, is launched again as it is.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>

#include <partita/core/list.hpp>
#include <partita/core/words.hpp>
#include <partita/device/cpu/finite.hpp>
#include <partita/device/cuda/captured_graph.hpp>
#include <partita/device/cuda/scope_ranges.hpp>
#include <partita/device/cuda/tasks.hpp>
#include <partita/program/communication_error.hpp>
#include <partita/program/program.hpp>
#include <partita/program/step.hpp>

namespace partita::on_cuda {

// The group of a communication's communicator: of an exchange it is that of all ranks, -1.
inline int group_of(program const& p, instruction const& i) {
  return i.kind == instruction_kind::exchange ? -1 : p.collectives[static_cast<std::size_t>(i.payload)].group;
}

struct executor_options {
  bool capture = false;          // the step as a graph: on all ranks or on none, each of which has a process of its own
  double timeout_seconds = 300;  // for which no communication may make progress
  unsigned most_blocks = 1024;   // of a launch, of 256 threads; of as many more as they are smaller
};

// `Communicator` is a model of partita::stream_communicator, made with the program's groups. What the constructor is given by
// reference or span outlives the executor, which lives and ends on its device's thread. A step allocates nothing.
template <class Api, class Communicator> class device_executor {
 public:
  // `keys` are by op; `state` and `arena` are device memory of what the program says. `trains`: what
  // steps will be run with. Throws error where an op has no kernel, or a piece is refused by one.
  device_executor(program const& what, graph_data const& graph, kernels_of_training const& kernels,
                  std::span<std::uint64_t const> keys, std::byte* state, std::byte* arena, Communicator& comm,
                  products<Api>& multiplies, bool trains, executor_options options = {})
      : program_(&what),
        graph_(&graph),
        comm_(&comm),
        options_(options),
        training_(trains),
        shared_host_(sizeof(step_context) + sizeof(fault_record)),
        shared_device_(sizeof(step_context) + sizeof(fault_record), "a step's numbers"),
        tasks_(what, graph, kernels, keys, state, arena, device_step(), device_fault(), multiplies, trains, options.most_blocks),
        ranges_(what, graph) {
    const std::size_t count = what.instructions.size();
    awaits_.assign(count, none);
    event_of_.assign(count, none);
    list<std::size_t> lanes[2];
    for (std::size_t at = 0; at < count; ++at) lanes[number_of(what.instructions[at].where)].push_back(at);
    for (std::size_t at = 0; at < count; ++at) {
      instruction const& i = what.instructions[at];
      if (i.wait <= 0) continue;
      auto const& other = lanes[1 - number_of(i.where)];
      if (static_cast<std::size_t>(i.wait) > other.size())
        throw_error({place(i), ": waits for ", i.wait, " instructions of a lane that has ", other.size()});
      awaits_[at] = other[static_cast<std::size_t>(i.wait) - 1];
      if (awaits_[at] > at) throw_error({place(i), ": waits for an instruction that comes after it"});
      if (event_of_[awaits_[at]] == none) event_of_[awaits_[at]] = new_event();
    }
    for (std::size_t at : lanes[1]) {
      if (!is_communication(what.instructions[at].kind)) continue;
      // In a capture an event is either for a stream that waits or for the host, and elsewhere for both.
      if (!options.capture && event_of_[at] == none) event_of_[at] = new_event();
      communications_.push_back({at, new_event(), options.capture ? new_event() : event_of_[at]});
    }
  }
  device_executor(device_executor const&) = delete;
  device_executor& operator=(device_executor const&) = delete;

  // Runs the program once; all ranks of the communicator do so together. If that fails on any rank, all of them stop and
  // this throws error, which names rank, op and pass. Afterwards the executor runs no more.
  void run(step_context const& step) {
    check_usable(step);
    try {
      *new (shared_host_.data()) step_context = step;
      // Libraries allocate and NCCL connects ranks in their first calls, which a capture forbids.
      if (options_.capture && warm_) launch();
      else put();
      warm_ = true;
      at_ = nullptr;
      wait_for_device();
      fault_record found;
      __builtin_memcpy(&found, shared_host_.data() + sizeof(step_context), sizeof found);
      if (found.found != 0) throw_fault(found);
    } catch (...) {
      fail();
      throw error(message_);
    }
  }

  // Runs the program once, instruction by instruction, and looks at every number that an op or a sum over ranks makes. All
  // ranks do so together.
  non_finite first_non_finite(step_context const& step) {
    check_usable(step);
    typename Api::stream_type const streams[2]{compute_.get(), communication_.get()};
    non_finite found;
    try {
      found.where = first_non_finite_source();
      found.when = std::chrono::steady_clock::time_point::min();  // before all that runs
      *new (shared_host_.data()) step_context = step;
      new (shared_host_.data() + sizeof(step_context)) fault_record{};
      check<Api>(Api::copy_to_device(shared_device_.data(), shared_host_.data(), shared_device_.size(), streams[0]),
                 "the step's numbers");
      wait_for(streams[0]);
      for (std::size_t at = 0; at < program_->instructions.size(); ++at) {
        instruction const& i = program_->instructions[at];
        at_ = &i;
        const bool clean = found.where.empty() && all_finite(i, false);
        put(i, at, streams[number_of(i.where)], true);  // each op's own result
        wait_for(streams[number_of(i.where)]);
        if (clean && !all_finite(i, true)) found = {place(i), std::chrono::steady_clock::now()};
      }
    } catch (...) {
      fail();
      throw error(message_);
    }
    return found;
  }

  bool failed() const { return static_cast<bool>(failure_); }
  std::exception_ptr failure() const { return failure_; }
  std::chrono::steady_clock::time_point failed_at() const { return failed_at_; }
  program const& what() const { return *program_; }
  typename Api::stream_type stream_of(lane where) const { return where == lane::compute ? compute_.get() : communication_.get(); }
  std::size_t launches() const { return tasks_.launches(); }
  std::size_t taken_in() const { return tasks_.taken_in(); }  // instructions that products and chains make with them
  std::span<chain_finder::chain const> chains() const { return tasks_.chains(); }

 private:
  static constexpr std::size_t none = ~std::size_t{0};
  struct communication_events {
    std::size_t at;              // in program::instructions
    std::size_t started, ended;  // in events_
  };

  void check_usable(step_context const& step) {
    if (failed()) throw_error({"rank ", program_->rank, " runs no more, because a step failed: ", message_});
    if (step.training != training_)
      throw_error({"rank ", program_->rank, ": the program was made ready for steps of another kind"});
    at_ = nullptr;
  }
  static std::size_t number_of(lane where) { return where == lane::compute ? 0 : 1; }
  std::string place(instruction const& i) const {
    return words({"rank ", program_->rank, ", ", words_of(*program_, *graph_, i)});
  }
  step_context* device_step() const { return reinterpret_cast<step_context*>(shared_device_.data()); }
  fault_record* device_fault() const { return reinterpret_cast<fault_record*>(shared_device_.data() + sizeof(step_context)); }
  std::size_t new_event() {
    events_.emplace_back();
    return events_.size() - 1;
  }

  // The step as a graph, which the first call makes.
  void launch() {
    if (graph_of_step_.is_made()) comm_->count_again(traffic_of_step_);
    else {
      const auto before = comm_->traffic();
      graph_of_step_.begin();
      put();
      graph_of_step_.finish();
      traffic_of_step_ = comm_->traffic() - before;
    }
    graph_of_step_.launch();
  }

  // Everything of a step, into the streams.
  void put() {
    const auto until_all_are_put = comm_->watch_launches();
    typename Api::stream_type const streams[2]{compute_.get(), communication_.get()};
    new (shared_host_.data() + sizeof(step_context)) fault_record{};
    check<Api>(Api::copy_to_device(shared_device_.data(), shared_host_.data(), shared_device_.size(), streams[0]),
               "the step's numbers");
    order(streams[0], begun_, streams[1]);
    std::size_t next = 0;  // in communications_
    for (std::size_t at = 0; at < program_->instructions.size(); ++at) {
      instruction const& i = program_->instructions[at];
      at_ = &i;
      ranges_.enter(at);
      const auto stream = streams[number_of(i.where)];
      if (awaits_[at] != none)
        check<Api>(Api::wait(stream, events_[event_of_[awaits_[at]]].get()), "waiting for the other stream");
      if (is_communication(i.kind)) mark(communications_[next].started, stream);
      put(i, at, stream);
      if (is_communication(i.kind))
        if (const std::size_t ended = communications_[next++].ended; ended != event_of_[at]) mark(ended, stream);
      if (event_of_[at] != none) check<Api>(Api::record(events_[event_of_[at]].get(), stream), "an event");
    }
    at_ = nullptr;
    ranges_.leave();
    order(streams[1], ended_, streams[0]);
    check<Api>(Api::copy_to_host(shared_host_.data() + sizeof(step_context), device_fault(), sizeof(fault_record), streams[0]),
               "what kernels found");
  }
  void put(instruction const& i, std::size_t at, typename Api::stream_type stream, bool alone = false) {
    Api::touches(stream, tasks_.reads(at, alone), tasks_.writes(at, alone));
    tasks_.put(at, stream, alone);
    if (!is_communication(i.kind)) return;
    communicate(i, stream);
    tasks_.put_after(at, stream);
  }
  // Records an event that the host asks for.
  void mark(std::size_t which, typename Api::stream_type stream) {
    const auto e = events_[which].get();
    check<Api>(graph_of_step_.is_open() ? Api::record_for_host(e, stream) : Api::record(e, stream), "an event");
  }
  void order(typename Api::stream_type first, event<Api> const& between, typename Api::stream_type then) {
    check<Api>(Api::record(between.get(), first), "an event");
    check<Api>(Api::wait(then, between.get()), "waiting for the other stream");
  }

  void communicate(instruction const& i, typename Api::stream_type stream) {
    const std::size_t payload = static_cast<std::size_t>(i.payload);
    if (i.kind == instruction_kind::exchange) return comm_->exchange(tasks_.sends(payload), tasks_.receives(payload), stream);
    collective_call const& first = program_->collectives[payload];
    const auto group = static_cast<std::size_t>(first.group);
    const std::span<joined_call const> calls = tasks_.collectives(payload, static_cast<std::size_t>(i.call_count));
    const dtype type = tasks_.type_of_calls(i);
    switch (i.kind) {
      case instruction_kind::all_reduce: return comm_->all_reduce(group, calls, type, first.reduce, stream);
      case instruction_kind::all_gather: return comm_->all_gather(group, calls, type, stream);
      case instruction_kind::reduce_scatter: return comm_->reduce_scatter(group, calls, type, first.reduce, stream);
      default:
        for (std::size_t k = 0; k < calls.size(); ++k) {
          collective_call const& c = program_->collectives[payload + k];
          comm_->all_to_all(group, calls[k].from, c.counts, calls[k].to, c.receive_counts, i.type, stream);
        }
    }
  }

  void wait_for_device() {
    if (communications_.empty() || comm_->size() == 1) return check<Api>(Api::synchronize(compute_.get()), "the step");
    using clock = std::chrono::steady_clock;
    auto last_progress = clock::now();
    std::size_t ended = 0, started = 0;
    for (unsigned turn = 0;; ++turn) {
      const auto answer = Api::query(compute_.get());
      if (answer == Api::success) {  // what began and ended between two looks counts, as it does on other ranks
        while (started < communications_.size()) note_started(program_->instructions[communications_[started++].at]);
        return look(started, started);
      }
      if (answer != Api::not_ready) check<Api>(answer, "the step");
      const std::size_t before = started + ended;
      while (started < communications_.size() &&
             Api::query_event(events_[communications_[started].started].get()) == Api::success)
        note_started(program_->instructions[communications_[started++].at]);
      while (ended < started && Api::query_event(events_[communications_[ended].ended].get()) == Api::success) ++ended;
      if (started + ended != before) last_progress = clock::now();
      look(ended, started);
      // Who waits in a collective speaks first: it knows in which, and who is missing.
      const double limit = options_.timeout_seconds * (started > ended ? 1 : 2);
      if (std::chrono::duration<double>(clock::now() - last_progress).count() > limit) give_up(ended, started);
      if (turn < 256) std::this_thread::yield();
      else std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
  void note_started(instruction const& i) {
    const auto payload = static_cast<std::size_t>(i.payload);
    if (i.kind == instruction_kind::exchange) comm_->note_started(tasks_.sends(payload), tasks_.receives(payload));
    else comm_->note_started(on_cuda::group_of(*program_, i));
  }
  // NCCL tells a communicator's failure, and not of which call: it is the first of the group that has not ended on this rank,
  // or its last one, if the failure is told late.
  void look(std::size_t ended, std::size_t started) {
    try {
      comm_->look();
    } catch (communication_error const& e) {
      std::size_t which = communications_.size();
      for (std::size_t c = communications_.size(); c-- > 0;)
        if (group_of(communications_[c].at) == e.group && (which == communications_.size() || c >= ended)) which = c;
      if (which == communications_.size()) throw;
      at_ = &program_->instructions[communications_[which].at];
      throw_error({e.what(), which < ended     ? "; it is the last of them, and had ended on this rank"
                             : which < started ? "; it was under way"
                                               : "; it is the next of them, and had not begun on this rank"});
    }
  }
  // Of one instruction among others of other ranks, which all come to it.
  void wait_for(typename Api::stream_type stream) {
    for (auto answer = Api::query(stream); answer != Api::success; answer = Api::query(stream)) {
      if (answer != Api::not_ready) check<Api>(answer, "the step");
      comm_->look();
      std::this_thread::yield();
    }
  }
  bool finite(dtype type, void const* at, std::size_t elements) {
    if (at == nullptr || elements == 0 || !is_float(type)) return true;
    seen_.resize(elements * size_of(type));
    check<Api>(Api::copy_to_host(seen_.data(), at, seen_.size(), compute_.get()), "a look at numbers");
    wait_for(compute_.get());
    return on_cpu::all_finite(type, seen_.data(), elements);
  }
  bool all_finite(instruction const& i, bool written) {
    const std::size_t payload = static_cast<std::size_t>(i.payload);
    if (i.kind == instruction_kind::all_reduce) {
      for (std::size_t k = payload; k < payload + static_cast<std::size_t>(i.call_count); ++k) {
        collective_call const& c = program_->collectives[k];
        if (!finite(i.type, tasks_.address(c.to), c.counts[0])) return false;
      }
      return true;
    }
    if (i.kind != instruction_kind::compute) return true;
    compute_call const& c = program_->computes[payload];
    op_info const& info = *graph_->ops[c.op].info;
    auto look = [&](operand const& x, int at) {
      return finite(x.type, tasks_.address(program_->references[static_cast<std::size_t>(at)]),
                    partita::detail::elements(x, c.extents));
    };
    if (!written)
      for (int k = 0; k < c.input_count; ++k)
        if (!look(info.input(k), c.first_input + k)) return false;
    if (written || c.accumulate)
      for (int k = 0; k < c.output_count; ++k)
        if (!look(info.outputs[k], c.first_output + k)) return false;
    return true;
  }
  std::string first_non_finite_source() {
    for (auto const* list : {&program_->inputs, &program_->stored})
      for (outside const& o : *list) {
        if (o.at.buffer < 0) continue;
        std::size_t count = 1;
        for (int d = 0; d < o.rank; ++d) count *= o.extents[d];
        if (!finite(program_->buffers[static_cast<std::size_t>(o.at.buffer)].type, tasks_.address(o.at), count))
          return words({"rank ", program_->rank, list == &program_->inputs ? ", input " : ", stored ",
                        graph_->name(graph_->tensors[o.tensor].op).view()});
      }
    return {};
  }
  int group_of(std::size_t at) const { return on_cuda::group_of(*program_, program_->instructions[at]); }
  [[noreturn]] void give_up(std::size_t ended, std::size_t started) {
    if (ended == started) throw_error({"it has made no progress for ", 2 * options_.timeout_seconds, " s"});
    at_ = &program_->instructions[communications_[ended].at];
    const std::string missing = comm_->words_of_missing(group_of(communications_[ended].at));
    comm_->look();  // who has failed meanwhile answers no more, and has said why
    throw_error({"did not end within ", options_.timeout_seconds, " s", missing});
  }

  [[noreturn]] void throw_fault(fault_record const& found) const {
    for (instruction const& i : program_->instructions)
      if (i.kind == instruction_kind::compute && i.payload == found.compute) at_ = &i;
    throw_error({tasks_.words_of(found)});
  }

  // In a handler.
  void fail() {
    ranges_.leave();
    failure_ = std::current_exception();
    failed_at_ = std::chrono::steady_clock::now();
    std::string what = "an exception that is no std::exception";
    try {
      throw;
    } catch (std::exception const& known) { what = known.what(); } catch (...) {
    }
    const std::string where = at_ != nullptr ? words_of(*program_, *graph_, *at_) : std::string("the step");
    message_ = words({"rank ", program_->rank, ", ", where, ": ", what});
    graph_of_step_.end();  // before the communicators, which wait for graphs that have calls of them
    comm_->abort(words({where, ": ", what}));
  }

  program const* program_;
  graph_data const* graph_;
  Communicator* comm_;
  executor_options options_;
  bool training_, warm_ = false;
  stream<Api> compute_, communication_;
  event<Api> begun_, ended_;
  list<event<Api>> events_;
  host_memory<Api> shared_host_;      // the step's numbers, then what kernels found
  device_memory<Api> shared_device_;  // the same
  tasks_of_program<Api> tasks_;
  scope_ranges<Api> ranges_;
  list<std::size_t> awaits_, event_of_;  // by instruction: whom it waits for; its event, in events_
  list<communication_events> communications_;
  captured_graph<Api> graph_of_step_{compute_};
  std::decay_t<decltype(std::declval<Communicator const&>().traffic())> traffic_of_step_;  // as a graph
  mutable instruction const* at_ = nullptr;                                                // what is being put, or is to blame
  list<std::byte> seen_;                                                                   // of the device's memory
  std::exception_ptr failure_;
  std::chrono::steady_clock::time_point failed_at_{};
  std::string message_;
};

}  // namespace partita::on_cuda
