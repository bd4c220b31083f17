// What each instruction of a program takes on one GPU, alone, and all of them as a captured step. `Api` and `Library`
// stand for CUDA and NCCL as in train/cuda_devices.hpp: the tests run this on a pretended machine.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <partita/comm/nccl/communicator.hpp>
#include <partita/cost/profile.hpp>
#include <partita/cost/work.hpp>
#include <partita/device/cuda/arrange.hpp>
#include <partita/device/cuda/executor.hpp>
#include <partita/model/extents.hpp>
#include <partita/model/names.hpp>
#include <partita/plan/verify.hpp>
#include <partita/program/lower.hpp>
#include <partita/simulate/simulate.hpp>

namespace benchmark_cuda {

namespace pt = partita;

using clock_type = std::chrono::steady_clock;
inline double seconds_since(clock_type::time_point begin) {
  return std::chrono::duration<double>(clock_type::now() - begin).count();
}
inline double median(std::vector<double> all) {
  std::nth_element(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2), all.end());
  return all[all.size() / 2];
}

// Everything that one rank's program is made from, as a trainer makes it.
struct planned {
  pt::plan_base plan;
  pt::completed done;
  std::unique_ptr<pt::lowering> shared;
  pt::program what;

  template <class Policy> planned(pt::on_cuda::traced_training const& traced, Policy const& policy) : plan(*traced.graph) {
    policy(plan);
    if (const pt::finding f = pt::verify_plan(*traced.graph, plan, done, false)) throw pt::error(pt::describe(f));
    pt::lowering_options how;
    how.fuse = false;
    how.workspace = [&traced](int op, std::size_t const* extents) {
      return pt::on_cuda::scratch_bytes(traced.launchers[static_cast<std::size_t>(op)], *traced.graph->ops[op].info, extents);
    };
    how.arrange = [&traced](pt::program& p) { pt::on_cuda::gather_followers(p, *traced.graph, traced.launchers); };
    shared = std::make_unique<pt::lowering>(*traced.graph, plan, done, std::move(how));
    what = pt::lower(*shared, 0);
  }
  planned(planned const&) = delete;
  std::size_t bytes() const { return what.state_bytes + what.arena_bytes; }
};

// One distinct instruction: the same op of the same extents may stand many times in a program.
struct instruction_row {
  pt::instruction const* first = nullptr;
  pt::compute_call const* call = nullptr;  // null: a copy or a fill
  std::string what;
  int count = 0;
  double seconds = 0;       // of one
  pt::op_work work;         // of one
  bool is_product = false;  // a call of cuBLASLt
  bool makes_more = false;  // it makes what follows it, too: a bias, gelu or its gradient, a sum, which `direct` does not
  bool taken_in = false;    // by a product or a chain, which makes it too: it takes no time of its own
  double direct = 0;        // seconds of such a call made without this library; 0: not measured
};

struct program_times {
  std::vector<instruction_row> rows;
  double step = 0;  // of the whole, captured
  std::size_t chains = 0, ops_of_chains = 0, saved_bytes = 0;
  double alone() const {
    double all = 0;
    for (instruction_row const& r : rows) all += r.count * r.seconds;
    return all;
  }
};

struct timing_options {
  double seconds_each = 4e-3;  // for which an instruction is repeated
  int steps = 20;
  int most_repeats = 200;
};

template <class Api, class Library> class timed_program {
 public:
  using stream_type = typename Api::stream_type;
  // Puts a product into a stream, without this library; made ready by the function that returns it.
  using direct_product = std::function<std::function<void()>(pt::on_cuda::product const&, stream_type)>;

  // The state begins with small numbers, `tokens` with numbers below `vocabulary`.
  timed_program(pt::on_cuda::traced_training const& traced, planned const& made, std::int32_t vocabulary, timing_options how = {})
      : traced_(traced),
        what_(made.what),
        how_(how),
        vocabulary_(vocabulary),
        keys_(pt::random_keys(*traced.graph, pt::unique_names(*traced.graph))),
        state_(what_.state_bytes, "the state of what is measured"),
        arena_(what_.arena_bytes, "the arena of what is measured"),
        numbers_(sizeof(pt::step_context) + sizeof(pt::on_cuda::fault_record), "a step's numbers") {
    give_numbers(state_);
    give_numbers(arena_);
    pt::step_context step{1e-4, 1, 1, true};
    pt::on_cuda::fault_record none;
    std::vector<std::byte> both(numbers_.size());
    std::memcpy(both.data(), &step, sizeof step);
    std::memcpy(both.data() + sizeof step, &none, sizeof none);
    pt::on_cuda::check<Api>(Api::copy_now(numbers_.data(), both.data(), both.size()), "a step's numbers");
  }

  program_times run(direct_product const& direct = {}) {
    program_times all;
    {
      pt::on_cuda::products<Api> products;
      pt::on_cuda::tasks_of_program<Api> tasks(
          what_, *traced_.graph, traced_, keys_, state_.data(), arena_.data(),
          reinterpret_cast<pt::step_context*>(numbers_.data()),
          reinterpret_cast<pt::on_cuda::fault_record*>(numbers_.data() + sizeof(pt::step_context)), products, true,
          pt::on_cuda::executor_options{}.most_blocks);
      all.rows = rows(tasks, direct);
      for (auto const& c : tasks.chains()) {
        ++all.chains;
        all.ops_of_chains += static_cast<std::size_t>(c.count);
        all.saved_bytes += c.saved_bytes;
      }
    }
    all.step = whole_step();
    return all;
  }

  // Seconds of what `put` puts into the stream, repeated in a captured graph.
  template <class F> double seconds_of(F put) {
    auto settle = [&] { pt::on_cuda::check<Api>(Api::synchronize(stream_.get()), "what is measured"); };
    auto timed = [&](auto work) {
      const auto begin = clock_type::now();
      work();
      settle();
      return seconds_since(begin);
    };
    put();  // libraries load kernels on their first call
    settle();
    const double once = timed(put);
    const int repeats = std::clamp(static_cast<int>(how_.seconds_each / std::max(once, 1e-6)), 1, how_.most_repeats);
    pt::on_cuda::check<Api>(Api::begin_capture(stream_.get()), "a capture");
    for (int i = 0; i < repeats; ++i) put();
    typename Api::graph_type graph{};
    pt::on_cuda::check<Api>(Api::end_capture(stream_.get(), graph), "a capture");
    auto launch = [&] { pt::on_cuda::check<Api>(Api::launch_graph(graph, stream_.get()), "a launch"); };
    launch();
    settle();
    std::vector<double> turns;
    for (int turn = 0; turn < 3; ++turn) turns.push_back(timed(launch) / repeats);
    Api::destroy_graph(graph);
    return median(turns);
  }
  stream_type stream() const { return stream_.get(); }

 private:
  // Positive numbers between 2^-7 and 2^-5, as bf16 and, read two at a time, as f32.
  void give_numbers(pt::on_cuda::device_memory<Api> const& to) {
    std::mt19937 random(1);
    std::vector<std::uint16_t> numbers(std::min<std::size_t>(to.size(), std::size_t{16} << 20) / 2 + 1);
    for (std::uint16_t& n : numbers) n = static_cast<std::uint16_t>(0x3c00 | (random() & 0xff));
    for (std::size_t at = 0; at < to.size(); at += 2 * (numbers.size() - 1))
      pt::on_cuda::check<Api>(Api::copy_now(to.data() + at, numbers.data(), std::min(to.size() - at, 2 * numbers.size() - 2)),
                              "numbers to measure with");
  }
  void give_inputs() {
    std::mt19937 random(2);
    for (pt::outside const& o : what_.inputs) {
      if (o.at.buffer < 0) continue;
      pt::buffer const& b = what_.buffers[static_cast<std::size_t>(o.at.buffer)];
      if (b.type != pt::i32) continue;
      std::vector<std::int32_t> tokens(b.bytes / sizeof(std::int32_t));
      for (std::int32_t& t : tokens) t = static_cast<std::int32_t>(random() % static_cast<unsigned>(vocabulary_));
      std::byte* const to = (b.where == pt::region::state ? state_ : arena_).data() + b.offset;
      pt::on_cuda::check<Api>(Api::copy_now(to, tokens.data(), tokens.size() * sizeof(std::int32_t)), "tokens");
    }
  }

  // In the order of the program, so that each finds what the ones before it have made.
  std::vector<instruction_row> rows(pt::on_cuda::tasks_of_program<Api>& tasks, direct_product const& direct) {
    give_inputs();
    std::vector<instruction_row> all;
    std::map<std::string, std::size_t> known;
    for (std::size_t at = 0; at < what_.instructions.size(); ++at) {
      pt::instruction const& i = what_.instructions[at];
      instruction_row row = describe(i);
      row.taken_in = tasks.is_taken_in(at);
      if (row.taken_in) row.what += ", in another one's launch";
      if (pt::on_cuda::chain_finder::chain const* const c = tasks.chain_at(at))
        row.what += pt::words({", last of a chain of ", c->count});
      else if (tasks.takes_in(at)) row.what += ", with what follows it";
      const auto found = known.find(row.what);
      if (found != known.end()) {
        ++all[found->second].count;
        tasks.put(at, stream_.get());
        continue;
      }
      row.count = 1;
      if (!row.taken_in) row.seconds = seconds_of([&] { tasks.put(at, stream_.get()); });
      if (pt::on_cuda::product const* const p = tasks.only_product(at)) {
        row.is_product = true;
        row.makes_more = tasks.takes_in(at);
        if (direct) row.direct = seconds_of(direct(*p, stream_.get()));
      }
      known.emplace(row.what, all.size());
      all.push_back(std::move(row));
    }
    pt::on_cuda::check<Api>(Api::synchronize(stream_.get()), "the program");
    return all;
  }
  instruction_row describe(pt::instruction const& i) const {
    instruction_row row;
    row.first = &i;
    if (i.kind == pt::instruction_kind::compute) {
      pt::compute_call const& c = what_.computes[static_cast<std::size_t>(i.payload)];
      pt::op_info const& f = *traced_.graph->ops[c.op].info;
      row.call = &c;
      row.what = pt::words({f.kind, " ", pt::name_of(f.output_count > 0 ? f.outputs[0].type : pt::f32), " "});
      for (int d = 0; d < f.dim_count; ++d) row.what += pt::words({d > 0 ? "x" : "", c.extents[d]});
      if (c.accumulate) row.what += " +=";
      row.work = pt::work_of(f, c.extents, c.input_count, c.accumulate);
      return row;
    }
    double bytes = 0;
    for (int k = 0; k < i.box_count; ++k) {
      pt::box_copy const& b = what_.boxes[static_cast<std::size_t>(i.first_box + k)];
      double n = static_cast<double>(pt::size_of(i.type));
      for (int d = 0; d < b.rank; ++d) n *= static_cast<double>(b.extents[d]);
      bytes += n * (b.combine ? 3 : 2);
    }
    if (i.kind == pt::instruction_kind::fill)
      bytes = static_cast<double>(what_.fills[static_cast<std::size_t>(i.payload)].elements * pt::size_of(i.type));
    row.work = {0, bytes, i.type};
    row.what = pt::words({i.kind == pt::instruction_kind::fill   ? "fill "
                          : i.kind == pt::instruction_kind::copy ? "copy "
                                                                 : "other ",
                          pt::name_of(i.type), " ", bytes, " B"});
    return row;
  }

  double whole_step() {
    pt::nccl_world world(1, what_.groups, {0});
    pt::one_process together;
    const pt::list<int> here{0};
    const pt::list<pt::unique_id_bytes> ids = pt::make_unique_ids<Library>(world, here, together);
    pt::nccl_communicator<Library> comm(world, ids, 0);
    pt::on_cuda::products<Api> products;
    pt::on_cuda::device_executor<Api, pt::nccl_communicator<Library>> executor(
        what_, *traced_.graph, traced_, keys_, state_.data(), arena_.data(), comm, products, true, {.capture = true});
    std::vector<double> steps;
    for (int step = 0; step < how_.steps + 3; ++step) {
      give_inputs();
      const auto begin = clock_type::now();
      executor.run({1e-4, step, 1, true});
      if (step >= 3) steps.push_back(seconds_since(begin));
    }
    return median(steps);
  }

  pt::on_cuda::traced_training const& traced_;
  pt::program const& what_;
  timing_options how_;
  std::int32_t vocabulary_;
  pt::list<std::uint64_t> keys_;
  pt::on_cuda::device_memory<Api> state_, arena_, numbers_;
  pt::on_cuda::stream<Api> stream_;
};

// What was measured, as costs that a simulation reads: one device, whose ops take what they took alone.
inline pt::costs costs_of(pt::graph_data const& g, program_times const& measured, double copied_bytes_per_second) {
  pt::profile p;
  p.format = "partita profile";
  p.version = pt::profile_file_version;
  p.devices = p.threads = 1;
  // Of instructions of one op and one size that some products take in and others do not, the mean.
  struct taken {
    double seconds = 0;
    int count = 0;
  };
  std::map<std::string, std::map<std::vector<int>, taken>> by_op;
  for (instruction_row const& r : measured.rows) {
    if (r.call == nullptr) continue;
    pt::op_info const& f = *g.ops[r.call->op].info;
    if (f.variadic) continue;
    std::vector<int> extents;
    for (int d = 0; d < f.dim_count; ++d) extents.push_back(static_cast<int>(r.call->extents[d]));
    taken& of = by_op[pt::op_key(f, r.call->accumulate)][extents];
    of.seconds += r.count * r.seconds;
    of.count += r.count;
  }
  for (auto const& [key, samples] : by_op) {
    pt::op_profile of;
    of.op = key;
    for (auto const& [extents, t] : samples) {
      pt::op_sample s;
      s.extents = extents;
      s.seconds = t.seconds / t.count;
      of.samples.push_back(std::move(s));
    }
    p.ops.push_back(std::move(of));
  }
  pt::device_kind gpu{};
  gpu.name = "this GPU";
  gpu.flops = {{"f32", 1e14}};
  gpu.memory = 1e12;
  gpu.memory_bandwidth = copied_bytes_per_second;
  gpu.source = "measured here";
  pt::link_level none{};
  none.name = "none";
  none.devices = 1;
  none.seconds_per_byte = 1 / copied_bytes_per_second;
  pt::cluster c{};
  c.format = "partita cluster";
  c.version = pt::cluster_file_version;
  c.name = "one GPU";
  c.kinds = {gpu};
  c.devices = {{gpu.name, 1}};
  c.links = {none};
  return pt::costs(c, p);
}

}  // namespace benchmark_cuda
