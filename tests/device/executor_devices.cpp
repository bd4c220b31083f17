// What devices are beside running: training that agrees with one device, state shared by two sets of programs, times,
// memory.
#include <doctest/doctest.h>

#include <algorithm>

#include <cstdint>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include <partita/train/thread_devices.hpp>

#include "hand_made.hpp"

namespace pt = partita;
using namespace partita_test;
using pt::lane;

namespace {

constexpr std::size_t width = 5000;
constexpr int layers = 6;

// g = w + x; w' = w - rate g. In whole numbers, so that any order of additions gives the same.
void gradient(pt::on_cpu::launch_arguments const& a) {
  auto const* w = static_cast<float const*>(a.inputs[0]);
  auto const* x = static_cast<float const*>(a.inputs[1]);
  for (std::size_t i = 0; i < a.extents[0]; ++i) static_cast<float*>(a.outputs[0])[i] = w[i] + x[i];
}
void update(pt::on_cpu::launch_arguments const& a) {
  auto const* w = static_cast<float const*>(a.inputs[0]);
  auto const* g = static_cast<float const*>(a.inputs[1]);
  auto* out = static_cast<float*>(a.outputs[0]);
  for (std::size_t i = 0; i < a.extents[0]; ++i) out[i] = w[i] - static_cast<float>(a.step->learning_rate) * g[i];
}
void scale(pt::on_cpu::launch_arguments const& a) {
  auto const* w = static_cast<float const*>(a.inputs[0]);
  for (std::size_t i = 0; i < a.extents[0]; ++i) static_cast<float*>(a.outputs[0])[i] = 2 * w[i];
}

struct small_graph : hand_made_graph {
  int gradient_op = op("fc1", &gradient, pt::f32, pt::pass::backward), update_op = op("fc1", &update, pt::f32, pt::pass::update),
      scale_op = op("scale", &scale, pt::f32);
};

struct data_parallel {
  pt::list<pt::program> training, forward;

  data_parallel(small_graph const& graph, int ranks) {
    pt::list<int> everybody;
    for (int r = 0; r < ranks; ++r) everybody.push_back(r);
    for (int r = 0; r < ranks; ++r) {
      program_maker t(r, {everybody}), f(r, {everybody});
      std::vector<int> weights;
      for (int l = 0; l < layers; ++l) {
        weights.push_back(t.buffer(width, pt::f32, 0, pt::region::state));
        t.made.stored.push_back(t.seen(weights.back(), 0));
        f.buffer(width, pt::f32, 0, pt::region::state);
      }
      const int x = t.buffer(width, pt::f32, 1);
      t.at(x).from_start = true;
      t.made.inputs.push_back(t.seen(x, 1));
      std::vector<int> gradients;
      for (int l = 0; l < layers; ++l) {
        gradients.push_back(t.buffer(width, pt::f32, 2));
        t.compute(graph.gradient_op, {weights[static_cast<std::size_t>(l)], x}, gradients.back());
        t.all_reduce(0, gradients.back());
      }
      for (std::size_t l = 0; l < layers; ++l) t.compute(graph.update_op, {weights[l], gradients[l]}, weights[l]);
      const int out = f.buffer(width, pt::f32, 3);
      f.at(out).to_end = true;
      f.compute(graph.scale_op, {2}, out);
      f.made.outputs.push_back(f.seen(out, 3));
      pt::plan_memory(t.made);
      pt::plan_memory(f.made);
      training.push_back(t.made);
      forward.push_back(f.made);
    }
  }
};

std::vector<float> train(small_graph const& graph, pt::cpu how, int steps) {
  data_parallel programs(graph, how.devices);
  pt::on_cpu::thread_devices devices(how, graph.data, graph.launchers, graph.keys, {programs.training, programs.forward});
  std::vector<float> x(width);
  pt::step_context step;
  step.learning_rate = how.devices == 4 ? 0.25 : how.devices == 2 ? 0.5 : 1;  // the gradient is a sum over devices
  for (; step.step < steps; ++step.step) {
    for (std::size_t i = 0; i < width; ++i) x[i] = static_cast<float>(step.step + static_cast<std::int64_t>(i % 7));
    devices.on_each([&](int rank) {
      pt::outside const& o = devices.what(0, rank).inputs[0];
      pt::on_cpu::copy_in(o, pt::f32, x.data(), devices.address(rank, 0, o.at));
    });
    devices.run(0, step);
  }
  devices.run(1, step);
  std::vector<float> doubled(width), weight(width);
  for (int rank = 0; rank < how.devices; ++rank) {
    pt::program const& f = devices.what(1, rank);
    pt::on_cpu::copy_out(f.outputs[0], pt::f32, devices.address(rank, 1, f.outputs[0].at), doubled.data());
    pt::outside const& w = devices.what(0, rank).stored[2];
    pt::on_cpu::copy_out(w, pt::f32, devices.address(rank, 0, w.at), weight.data());
    bool same = true;
    for (std::size_t i = 0; i < width; ++i) same = same && doubled[i] == 2 * weight[i];
    CHECK(same);

    const pt::on_cpu::device_memory m = devices.memory_of(rank);
    // What is planned is counted in whole pages, as what is resident is.
    const std::size_t state = devices.what(0, rank).state_bytes;
    const std::size_t arenas = std::max(devices.what(0, rank).arena_bytes, devices.what(1, rank).arena_bytes);
    CHECK(m.planned_state >= state);
    CHECK(m.planned_state < state + 4096);
    CHECK(m.planned_arena >= arenas);
    CHECK(m.planned_arena < arenas + 2 * 4096);
    CHECK(m.resident_state > m.planned_state / 2);
    CHECK(m.resident_state <= m.planned_state);
    CHECK(m.resident_arena > m.planned_arena / 2);
    CHECK(m.resident_arena <= m.planned_arena);
    if (how.devices > 1)
      CHECK(devices.traffic(rank, 0).calls_of(pt::communication::all_reduce) == static_cast<std::uint64_t>(layers * steps));
    if (how.record_times) {
      const auto times = devices.times(rank, 0);
      REQUIRE(times.size() == devices.what(0, rank).instructions.size());
      for (std::size_t i = 0; i < times.size(); ++i) {
        CHECK(times[i].begin >= 0);
        CHECK(times[i].end >= times[i].begin);
        CHECK(times[i].end < 60);
      }
      CHECK(times[0].end <= times[1].begin);  // the all-reduce of what the first makes
    } else CHECK(devices.times(rank, 0).empty());
  }
  return weight;
}

}  // namespace

TEST_CASE("any number of devices, lanes and threads trains to the same weights") {
  small_graph graph;
  const std::vector<float> one = train(graph, {.devices = 1, .threads = 1}, 20);
  CHECK(train(graph, {.devices = 1, .threads = 2, .lanes = 2, .record_times = true}, 20) == one);
  for (int devices : {2, 4})
    for (int lanes : {0, 1, 2}) {
      CHECK(train(graph, {.devices = devices, .threads = 1, .lanes = lanes}, 20) == one);
      CHECK(train(graph, {.devices = devices, .threads = 2, .lanes = lanes, .record_times = true}, 20) == one);
      CHECK(train(graph, {.devices = devices, .threads = 0, .lanes = lanes}, 20) == one);
    }
}

TEST_CASE("memory comes when it is touched") {
  for (std::size_t bytes : {std::size_t{1}, std::size_t{100'000}, std::size_t{9} << 20}) {
    pt::on_cpu::memory m(bytes);
    CHECK(m.size() == bytes);
    CHECK(reinterpret_cast<std::uintptr_t>(m.data()) % (bytes >= pt::on_cpu::memory::huge ? pt::on_cpu::memory::huge : 64) == 0);
    CHECK(m.resident() == 0);
    bool zero = true;
    for (std::size_t i = 0; i < bytes; ++i) zero = zero && m.data()[i] == std::byte{0};
    CHECK(zero);
    for (std::byte& b : m.bytes()) b = std::byte{1};
    CHECK(m.resident() >= bytes);
    CHECK(m.resident() < bytes + 4096);
    const pt::on_cpu::memory moved = std::move(m);
    CHECK(moved.data()[bytes - 1] == std::byte{1});
    CHECK(m.data() == nullptr);
  }
  CHECK(pt::on_cpu::memory(0).resident() == 0);
}

namespace {
// A communicator that makes one call at a time.
class one_by_one {
 public:
  explicit one_by_one(pt::thread_communicator of) : of_(of) {}
  int rank() const { return of_.rank(); }
  void all_reduce(std::size_t group, void* buffer, std::size_t count, pt::dtype type, pt::reduction how) {
    of_.all_reduce(group, buffer, count, type, how);
  }
  void all_gather(std::size_t group, void const* mine, void* all, std::span<const std::size_t> counts, pt::dtype type) {
    of_.all_gather(group, mine, all, counts, type);
  }
  void reduce_scatter(std::size_t group, void const* all, void* mine, std::span<const std::size_t> counts, pt::dtype type,
                      pt::reduction how) {
    of_.reduce_scatter(group, all, mine, counts, type, how);
  }
  void all_to_all(std::size_t group, void const* send, std::span<const std::size_t> counts, void* receive,
                  std::span<const std::size_t> receives, pt::dtype type) {
    of_.all_to_all(group, send, counts, receive, receives, type);
  }
  void exchange(std::span<const pt::message> sends, std::span<const pt::message> receives) { of_.exchange(sends, receives); }

 private:
  pt::thread_communicator of_;
};

// Three calls of every kind as one, on whole numbers. What the ranks hold after, and how often rank 0 called.
template <class Communicator> std::pair<std::vector<std::vector<float>>, std::uint64_t> run_joined() {
  const pt::list<int> both{0, 1};
  pt::thread_world world(2, {both});
  std::vector<std::vector<float>> held(2);
  auto run_rank = [&](int r) {
    program_maker m(r, {both});
    const std::vector<pt::list<std::size_t>> counts{{3, 5}, {40, 0}, {16, 16}};
    auto join = [&](pt::instruction_kind kind) {
      for (auto const& c : counts) {
        const std::size_t mine = c[static_cast<std::size_t>(r)], all = c[0] + c[1];
        const bool scatters = kind == pt::instruction_kind::reduce_scatter, in_place = kind == pt::instruction_kind::all_reduce;
        const int from = in_place ? -1 : m.buffer(scatters ? all : mine, pt::f32, -1, pt::region::state),
                  to = m.buffer(scatters ? mine : all, pt::f32, -1, pt::region::state);
        m.collective(kind, 0, from, to, in_place ? pt::list<std::size_t>{all} : c);
      }
      m.made.instructions.resize(m.made.instructions.size() - counts.size() + 1);
      m.made.instructions.back().call_count = static_cast<int>(counts.size());
    };
    join(pt::instruction_kind::all_reduce);
    join(pt::instruction_kind::all_gather);
    join(pt::instruction_kind::reduce_scatter);
    pt::plan_memory(m.made);
    held[static_cast<std::size_t>(r)].resize(m.made.state_bytes / sizeof(float));
    std::vector<float>& state = held[static_cast<std::size_t>(r)];
    for (std::size_t i = 0; i < state.size(); ++i) state[i] = static_cast<float>(100 * r) + static_cast<float>(i % 97);
    const small_graph graph;
    pt::on_cpu::workers team(1);
    Communicator comm(world.communicator(r));
    const pt::on_cpu::instruction_runner<Communicator> runner(m.made, graph.data, graph.launchers, graph.keys,
                                                              std::as_writable_bytes(std::span(state)), {}, comm, team);
    for (pt::instruction const& i : m.made.instructions) runner.run(i, {}, true);
  };
  std::thread other(run_rank, 1);
  run_rank(0);
  other.join();
  std::uint64_t calls = 0;
  for (std::uint64_t n : world.traffic(0).calls) calls += n;
  return {held, calls};
}
}  // namespace

TEST_CASE("calls that are one are made one by one where a communicator cannot do otherwise") {
  const auto [joined, once] = run_joined<pt::thread_communicator>();
  const auto [apart, each] = run_joined<one_by_one>();
  CHECK(once == 3);
  CHECK(each == 9);
  CHECK(joined == apart);
}
