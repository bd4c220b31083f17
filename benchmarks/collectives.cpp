// Rates of the threads communicator, beside what one thread's memcpy reaches in the same run.
//
// Arguments: ranks (one thread each), bytes. What counts as bytes per second is the size that the user names, per
// rank: the buffer of an all_reduce, the gathered buffer of an all_gather, the whole input of a reduce_scatter, the
// message that each rank sends to its neighbour in an exchange. Without spinning the waits are kernel sleeps, as with
// more ranks than cores.
#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <vector>

#include <partita/comm/threads/world.hpp>

namespace {

std::unique_ptr<partita::thread_world> world;

void make_world(benchmark::State const& state) {
  partita::list<int> all;
  for (int rank = 0; rank < state.threads(); ++rank) all.push_back(rank);
  world = std::make_unique<partita::thread_world>(state.threads(), partita::list<partita::list<int>>{all});
}
void end_world(benchmark::State const&) { world.reset(); }

// The column Time is divided by the number of threads; `call` is what one call takes.
void report(benchmark::State& state, std::int64_t bytes) {
  using counter = benchmark::Counter;
  state.counters["call"] = counter(static_cast<double>(state.iterations()),
                                   static_cast<counter::Flags>(counter::kIsRate | counter::kAvgThreads | counter::kInvert));
  state.SetBytesProcessed(bytes * state.iterations() / state.threads());
}

template <class Call> void measure(benchmark::State& state, Call call) {
  partita::thread_communicator comm = world->communicator(state.thread_index());
  auto const bytes = static_cast<std::size_t>(state.range(0)), count = bytes / 4;
  std::vector<float> whole(count, 1.0f), other(count, 1.0f);
  const std::vector<std::size_t> pieces(static_cast<std::size_t>(state.threads()),
                                        count / static_cast<std::size_t>(state.threads()));
  for (auto _ : state) call(comm, whole, other, pieces);
  report(state, static_cast<std::int64_t>(bytes));
}

void all_reduce(benchmark::State& state) {
  measure(state, [](auto& comm, auto& whole, auto&, auto&) {
    comm.all_reduce(0, whole.data(), whole.size(), partita::f32, partita::reduction::sum);
  });
}
void all_gather(benchmark::State& state) {
  measure(state, [](auto& comm, auto& whole, auto& other, auto& pieces) {
    comm.all_gather(0, other.data(), whole.data(), pieces, partita::f32);
  });
}
void reduce_scatter(benchmark::State& state) {
  measure(state, [](auto& comm, auto& whole, auto& other, auto& pieces) {
    comm.reduce_scatter(0, whole.data(), other.data(), pieces, partita::f32, partita::reduction::sum);
  });
}
void exchange(benchmark::State& state) {
  measure(state, [](auto& comm, auto& whole, auto& other, auto&) {
    const int size = comm.size(), rank = comm.rank();
    const partita::message send{(rank + 1) % size, whole.data(), whole.size() * 4, 0};
    const partita::message receive{(rank + size - 1) % size, other.data(), other.size() * 4, 0};
    comm.exchange({&send, 1}, {&receive, 1});
  });
}
void barrier(benchmark::State& state) {
  partita::thread_communicator comm = world->communicator(state.thread_index());
  for (auto _ : state) comm.barrier(0);
  report(state, 0);
}
void copy(benchmark::State& state) {  // per thread, each with its own buffers
  std::vector<char> from(static_cast<std::size_t>(state.range(0)), 1), to(from.size());
  for (auto _ : state) {
    std::memcpy(to.data(), from.data(), from.size());
    benchmark::ClobberMemory();
  }
  report(state, state.range(0));
}

void sizes(benchmark::internal::Benchmark* each) {
  for (int threads : {2, 4}) each->Threads(threads);
  each->RangeMultiplier(16)->Range(1 << 10, 64 << 20)->UseRealTime()->Setup(make_world)->Teardown(end_world);
}

}  // namespace

BENCHMARK(copy)->Threads(1)->Threads(2)->RangeMultiplier(16)->Range(1 << 10, 64 << 20)->UseRealTime();
BENCHMARK(all_reduce)->Apply(sizes);
BENCHMARK(all_gather)->Apply(sizes);
BENCHMARK(reduce_scatter)->Apply(sizes);
BENCHMARK(exchange)->Apply(sizes);
BENCHMARK(barrier)->Threads(2)->Threads(4)->UseRealTime()->Setup(make_world)->Teardown(end_world);
