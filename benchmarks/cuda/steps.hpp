// Whole steps of a trainer on GPUs, and collectives between them. `Api` and `Library` as in instruction_times.hpp.
#pragma once
#include <algorithm>
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <partita/train/cuda_devices.hpp>
#include <partita/train/engine.hpp>

#include "instruction_times.hpp"

namespace benchmark_cuda {

struct step_times {
  double seconds = 0;  // the median of a step, with the batch's way to the device and the loss's way back
  double flops = 0;    // of the model, all devices together
  std::size_t parameters = 0;
  std::size_t planned = 0, held_after = 0;  // bytes of rank 0's device: by the plan, and what steps have left of it
  pt::on_cuda::held_memory held;            // when it was ready
};

// Knows the devices that it makes.
template <class Api, class Library> struct watched_source : pt::on_cuda::cuda_source<Api, Library> {
  using base = pt::on_cuda::cuda_source<Api, Library>;
  pt::on_cuda::cuda_devices<Api, Library>** made;
  watched_source(pt::on_cuda::kernels_of_training const& kernels, pt::on_cuda::cuda_devices<Api, Library>** to)
      : base(pt::on_cuda::cuda_options{}, kernels), made(to) {}
  std::unique_ptr<pt::local_devices> make(pt::graph_data const& graph, std::span<std::uint64_t const> keys,
                                          pt::list<pt::list<pt::program>> sets) override {
    auto devices = base::make(graph, keys, std::move(sets));
    *made = static_cast<pt::on_cuda::cuda_devices<Api, Library>*>(devices.get());
    return devices;
  }
};

// A trainer of `traced` takes steps on random tokens, for `least_seconds` and `how.steps` at least.
template <class Api, class Library, class Policy> step_times time_steps(pt::on_cuda::traced_training const& traced,
                                                                        Policy const& policy, std::int32_t vocabulary,
                                                                        std::size_t tokens, int steps, double least_seconds = 2) {
  pt::plan_base plan(*traced.graph);
  policy(plan);
  std::size_t before = 0, all = 0, after = 0;
  pt::on_cuda::check<Api>(Api::set_device(0), "the first device");
  pt::on_cuda::check<Api>(Api::memory(before, all), "its memory");
  pt::on_cuda::cuda_devices<Api, Library>* devices = nullptr;
  pt::detail::engine engine(*traced.graph, traced.losses, std::move(plan),
                            std::make_unique<watched_source<Api, Library>>(traced, &devices), {.keep_gradients = false});
  std::mt19937 random(1);
  std::vector<std::int32_t> x(tokens), y(tokens);
  for (auto* each : {&x, &y})
    for (std::int32_t& t : *each) t = static_cast<std::int32_t>(random() % static_cast<unsigned>(vocabulary));
  const std::vector<pt::feed> batch{{"tokens", x}, {"targets", y}};
  for (int warm = 0; warm < 3; ++warm) engine.step(batch);
  std::vector<double> times;
  for (const auto begin = clock_type::now(); static_cast<int>(times.size()) < steps || seconds_since(begin) < least_seconds;) {
    const auto start = clock_type::now();
    engine.step(batch);
    times.push_back(seconds_since(start));
  }
  pt::on_cuda::check<Api>(Api::memory(after, all), "its memory");
  const pt::memory_use memory = engine.memory()[0];
  return {median(times),   engine.step_flops(), engine.parameter_count(), memory.planned, before - std::min(before, after),
          devices->held(0)};
}

struct collective_times {
  std::string what;
  std::size_t bytes = 0;  // of the whole: what all_reduce reduces, all_gather makes, reduce_scatter takes
  double seconds = 0;     // of the slowest rank
  double bus = 0;         // bytes per second, as nccl-tests counts them: comparable with a link's bandwidth
};

// Between all of `devices`, in f32, a thread driving each.
template <class Api, class Library>
std::vector<collective_times> time_collectives(int devices, std::vector<std::size_t> const& sizes, int repeats) {
  const std::size_t n = static_cast<std::size_t>(devices);
  pt::list<int> ranks(n);
  std::iota(ranks.begin(), ranks.end(), 0);
  pt::nccl_world world(devices, pt::list<pt::list<int>>{ranks}, ranks);
  pt::one_process together;
  const pt::list<pt::unique_id_bytes> ids = pt::make_unique_ids<Library>(world, ranks, together);
  std::size_t most = 0;
  for (std::size_t bytes : sizes) most = std::max(most, bytes);
  std::vector<collective_times> all;
  for (std::size_t bytes : sizes)
    for (char const* what : {"all_reduce", "all_gather", "reduce_scatter"}) {
      const std::size_t whole = bytes / (n * sizeof(float)) * n;
      all.push_back({what, whole * sizeof(float)});
    }
  std::vector<std::vector<double>> seconds(n, std::vector<double>(all.size()));
  std::vector<std::string> failures(n);
  std::barrier meet(static_cast<std::ptrdiff_t>(devices));
  auto of_rank = [&](std::size_t rank) {
    pt::on_cuda::check<Api>(Api::set_device(static_cast<int>(rank)), "its device");
    const pt::on_cuda::device_memory<Api> from(most, "what is sent"), to(most, "what is received");
    pt::on_cuda::stream<Api> stream;
    pt::nccl_communicator<Library> comm(world, ids, static_cast<int>(rank));
    for (std::size_t k = 0; k < all.size(); ++k) {
      const std::size_t whole = all[k].bytes / sizeof(float);
      const std::vector<std::size_t> one{whole}, shares(n, whole / n);
      auto put = [&] {
        const pt::joined_call call{from.data(), to.data(), all[k].what == "all_reduce" ? one : shares};
        const std::span<pt::joined_call const> calls(&call, 1);
        if (all[k].what == "all_reduce") comm.all_reduce(0, calls, pt::f32, pt::reduction::sum, stream.get());
        else if (all[k].what == "all_gather") comm.all_gather(0, calls, pt::f32, stream.get());
        else comm.reduce_scatter(0, calls, pt::f32, pt::reduction::sum, stream.get());
      };
      auto settle = [&] {
        while (Api::query(stream.get()) == Api::not_ready) {
          comm.look();
          std::this_thread::yield();
        }
        pt::on_cuda::check<Api>(Api::query(stream.get()), "a collective");
      };
      for (int warm = 0; warm < 2; ++warm) put();
      settle();
      meet.arrive_and_wait();
      const auto begin = clock_type::now();
      for (int turn = 0; turn < repeats; ++turn) put();
      settle();
      seconds[rank][k] = seconds_since(begin) / repeats;
      meet.arrive_and_wait();
    }
  };
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < n; ++rank)
    threads.emplace_back([&, rank] {
      try {
        of_rank(rank);
      } catch (std::exception const& e) {  // the others wait for this one no more
        failures[rank] = e.what();
        world.abort(e.what());
        meet.arrive_and_drop();
      }
    });
  for (std::thread& t : threads) t.join();
  for (std::string const& failure : failures)
    if (!failure.empty()) throw pt::error(failure);
  for (std::size_t k = 0; k < all.size(); ++k) {
    for (std::size_t rank = 0; rank < n; ++rank) all[k].seconds = std::max(all[k].seconds, seconds[rank][k]);
    const double crosses = static_cast<double>(n - 1) / static_cast<double>(n) * (all[k].what == "all_reduce" ? 2 : 1);
    all[k].bus = crosses * static_cast<double>(all[k].bytes) / all[k].seconds;
  }
  return all;
}

}  // namespace benchmark_cuda
