// A step allocates nothing, on any thread.
#include <doctest/doctest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include <partita/train/thread_devices.hpp>

#include "hand_made.hpp"

namespace {
std::atomic<std::size_t> allocations{0};
}  // namespace

#if !defined(PARTITA_SANITIZED)  // a sanitizer has its own: the steps then run uncounted
namespace {

void* counted(std::size_t bytes) {
  ++allocations;
  if (void* at = std::malloc(bytes == 0 ? 1 : bytes)) return at;
  throw std::bad_alloc();
}
}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes); }
void* operator new[](std::size_t bytes) { return counted(bytes); }
void operator delete(void* at) noexcept { std::free(at); }
void operator delete[](void* at) noexcept { std::free(at); }
void operator delete(void* at, std::size_t) noexcept { std::free(at); }
void operator delete[](void* at, std::size_t) noexcept { std::free(at); }
#endif

namespace {

namespace pt = partita;
using namespace partita_test;

void add_up(pt::on_cpu::launch_arguments const& a) {
  auto* out = static_cast<float*>(a.outputs[0]);
  auto add = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      out[i] = 1;
      for (int k = 0; k < a.input_count; ++k) out[i] += static_cast<float const*>(a.inputs[k])[i];
    }
  };
  if (a.team != nullptr) a.team->parallel(a.extents[0], 1, add);
  else add(0, a.extents[0]);
}

}  // namespace

TEST_CASE("a step allocates nothing") {
  hand_made_graph graph;
  const int op = graph.op("add", &add_up, pt::f32);
  for (int lanes : {1, 2})
    for (bool record : {false, true}) {
      pt::list<pt::program> programs;
      for (int r = 0; r < 3; ++r) {
        program_maker m(r, {{0, 1, 2}});
        std::vector<int> b;
        for (int k = 0; k < 6; ++k) b.push_back(m.buffer(k == 5 ? 60'000 : 20'000, pt::f32, 0));
        m.compute(op, {}, b[0]);
        m.fill(b[1], 2);
        m.all_reduce(0, b[0]);
        m.compute(op, {b[0], b[1]}, b[2]);
        m.exchange({{(r + 1) % 3, b[2]}}, {{(r + 2) % 3, b[3]}}, 1);
        m.collective(pt::instruction_kind::all_gather, 0, b[3], b[5], {20'000, 20'000, 20'000});
        m.collective(pt::instruction_kind::reduce_scatter, 0, b[5], b[4], {20'000, 20'000, 20'000});
        m.copy(b[4], 0, b[0], 10, 10'000, true);
        m.compute(op, {b[0], b[4]}, b[1]);
        pt::plan_memory(m.made);
        programs.push_back(m.made);
      }
      pt::on_cpu::thread_devices devices({.devices = 3, .threads = 2, .lanes = lanes, .record_times = record}, graph.data,
                                         graph.launchers, graph.keys, {programs});
      devices.run(0, {});
      const std::size_t before = allocations;
      for (int step = 0; step < 20; ++step) devices.run(0, {});
      CHECK(allocations == before);
    }
}
