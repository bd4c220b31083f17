// What captured steps ask of CUDA: of events that are nodes of a graph, of a graph that is destroyed while it runs, of a capture
// that is given up. `Api` is CUDA's on a machine with a GPU, or the pretended machine's.
#pragma once
#include <cstddef>
#include <cstring>
#include <string>

#include <partita/core/words.hpp>
#include <partita/device/cuda/captured_graph.hpp>
#include <partita/device/cuda/checked.hpp>
#include <partita/device/cuda/memory.hpp>

namespace partita::testing {

// Empty if all is as it is to be. The copy of so many bytes takes longer than the host to ask.
template <class Api> std::string fault_of_graph_events(std::size_t bytes) {
  using on_cuda::check;
  on_cuda::stream<Api> stream;
  on_cuda::event<Api> before, after;
  const on_cuda::device_memory<Api> from(bytes, "what is copied");
  const on_cuda::host_memory<Api> to(bytes);
  on_cuda::captured_graph<Api> graph(stream);
  auto copy = [&] { check<Api>(Api::copy_to_host(to.data(), from.data(), bytes, stream.get()), "a copy"); };
  auto has_come = [&](on_cuda::event<Api> const& e) {
    const auto answer = Api::query_event(e.get());
    if (answer != Api::not_ready) check<Api>(answer, "an event");
    return answer == Api::success;
  };

  std::memset(to.data(), 0, bytes);
  check<Api>(Api::copy_to_device(from.data(), to.data(), bytes, stream.get()), "a copy");
  graph.begin();
  copy();
  graph.end();  // given up
  copy();
  check<Api>(Api::synchronize(stream.get()), "a stream whose capture was given up");

  graph.begin();
  check<Api>(Api::record_for_host(before.get(), stream.get()), "an event of a graph");
  copy();
  check<Api>(Api::record_for_host(after.get(), stream.get()), "an event of a graph");
  graph.finish();
  for (int launch = 1; launch <= 3; ++launch) {
    graph.launch();
    if (has_come(after)) return words({"launch ", launch, " of a graph: its last event is said to have come before it has"});
    if (launch == 3) graph.end();  // while it runs
    if (launch == 3 && has_come(after)) return "the end of a graph waits for what runs";
    check<Api>(Api::synchronize(stream.get()), "a graph");
    if (!has_come(before) || !has_come(after)) return words({"launch ", launch, " of a graph: an event has not come"});
  }
  return {};
}

}  // namespace partita::testing
