// The machine that tests of CUDA devices run on: each of its checks fires on what it is for, and on nothing else.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "../support/graph_events.hpp"
#include "../support/pretend/cuda.hpp"
#include "../support/pretend/nccl.hpp"

namespace pt = partita;
using namespace partita::testing::pretend;
using range_list = std::vector<range>;

namespace {
struct two_streams {
  machine all;
  stream_state *one = nullptr, *two = nullptr;
  event_state* between = nullptr;
  std::byte* memory = nullptr;
  explicit two_streams(unsigned seed = 1) : all({.seed = seed}) {
    cuda::create_stream(one);
    cuda::create_stream(two);
    cuda::create_event(between);
    void* at = nullptr;
    cuda::allocate(at, 1024);
    memory = static_cast<std::byte*>(at);
  }
  std::string error() { return all.at(0).error(); }
  void use(stream_state* s, std::size_t begin, std::size_t bytes, bool write) {
    const range_list r{{memory + begin, bytes}};
    cuda::touches(s, write ? range_list{} : r, write ? r : range_list{});
  }
};
pt::on_cuda::box_arguments fill(void* to, float value) { return pt::on_cuda::fill_of(to, pt::f32, 64, value); }
}  // namespace

TEST_CASE("two streams that use the same memory, one writing, need an event between") {
  for (auto const& [first_writes, second_writes] :
       {std::pair{true, false}, std::pair{false, true}, std::pair{true, true}, std::pair{false, false}}) {
    const bool conflict = first_writes || second_writes;
    two_streams t;
    t.use(t.one, 0, 512, first_writes);
    t.use(t.two, 508, 8, second_writes);
    CHECK((t.error().find("waits for no event between") != std::string::npos) == conflict);
    two_streams apart;
    apart.use(apart.one, 0, 512, first_writes);
    apart.use(apart.two, 512, 8, second_writes);
    CHECK(apart.error().empty());
    two_streams ordered;
    ordered.use(ordered.one, 0, 512, first_writes);
    cuda::record(ordered.between, ordered.one);
    cuda::wait(ordered.two, ordered.between);
    ordered.use(ordered.two, 508, 8, second_writes);
    CHECK(ordered.error().empty());
    two_streams early;  // an event of what came before the use orders nothing
    cuda::record(early.between, early.one);
    early.use(early.one, 0, 512, first_writes);
    cuda::wait(early.two, early.between);
    early.use(early.two, 508, 8, second_writes);
    CHECK(early.error().empty() == !conflict);
    two_streams by_host;
    by_host.use(by_host.one, 0, 512, first_writes);
    cuda::synchronize(by_host.one);
    by_host.use(by_host.two, 508, 8, second_writes);
    CHECK(by_host.error().empty());
  }
}

TEST_CASE("a stream keeps its order, and what waits for an event comes after it, whatever the order of streams") {
  for (unsigned seed = 1; seed < 20; ++seed) {
    two_streams t(seed);
    float* const numbers = reinterpret_cast<float*>(t.memory);
    for (int i = 1; i <= 3; ++i) launch::run_box(fill(numbers, static_cast<float>(i)), 1, 32, t.one);
    cuda::record(t.between, t.one);
    CHECK(cuda::query_event(t.between) == cuda::not_ready);
    cuda::wait(t.two, t.between);
    float seen[64]{};
    cuda::copy_to_host(seen, numbers, sizeof seen, t.two);
    CHECK(seen[63] == 0);  // nothing runs before the host waits
    cuda::synchronize(t.two);
    CHECK(seen[0] == 3);
    CHECK(seen[63] == 3);
    CHECK(cuda::query_event(t.between) == cuda::success);
  }
}

TEST_CASE("memory that is not held") {
  two_streams freed;
  cuda::release(freed.memory);
  freed.use(freed.one, 0, 8, false);
  CHECK(freed.error() == "memory is used after it was freed");
  two_streams late;
  late.use(late.one, 0, 8, false);
  CHECK(late.error().empty());
  cuda::release(late.memory);  // while the use still waits in the stream
  CHECK(cuda::synchronize(late.one) == cuda::failed);
  CHECK(late.error() == "memory is used after it was freed");
  two_streams beyond;
  beyond.use(beyond.one, 1020, 8, true);
  CHECK(beyond.error() == "memory is used that was never allocated on this device");
  two_streams twice;
  cuda::release(twice.memory);
  cuda::release(twice.memory);
  CHECK(twice.error() == "memory was freed that is not held");
  two_streams fresh;
  CHECK(fresh.memory[100] == std::byte{0xff});
  void* more = nullptr;
  CHECK(cuda::allocate(more, std::size_t{2} << 30) == cuda::no_memory);
}

TEST_CASE("a capture holds what is put into its streams, and is launched any number of times") {
  two_streams t;
  float* const numbers = reinterpret_cast<float*>(t.memory);
  event_state* back = nullptr;
  cuda::create_event(back);
  float seen[64]{};
  cuda::begin_capture(t.one);
  launch::run_box(fill(numbers, 5), 1, 32, t.one);
  cuda::record(t.between, t.one);
  cuda::wait(t.two, t.between);
  cuda::copy_to_host(seen, numbers, sizeof seen, t.two);
  cuda::record(back, t.two);
  cuda::wait(t.one, back);
  captured_graph* made = nullptr;
  CHECK(cuda::end_capture(t.one, made) == cuda::success);
  CHECK(cuda::synchronize(t.one) == cuda::success);
  CHECK(seen[0] == 0);
  for (int turn = 0; turn < 2; ++turn) {
    seen[0] = 0;
    cuda::launch_graph(made, t.one);
    CHECK(cuda::synchronize(t.one) == cuda::success);
    CHECK(seen[0] == 5);
  }
}

TEST_CASE("what a capture forbids") {
  auto captured = [](auto what) {
    two_streams t;
    cuda::record(t.between, t.two);
    cuda::begin_capture(t.one);
    what(t);
    captured_graph* made = nullptr;
    cuda::end_capture(t.one, made);
    return t.error();
  };
  CHECK(captured([](auto& t) { t.use(t.two, 0, 8, true); }) == "work goes into a stream that has not joined the capture");
  CHECK(captured([](auto& t) { cuda::wait(t.one, t.between); }) == "a capture waits for an event from outside it");
  CHECK(captured([](auto& t) { (void)cuda::query(t.one); }) == "a host asks a stream while a capture runs");
  CHECK(captured([](auto&) {
          void* at = nullptr;
          cuda::allocate(at, 8);
        }) == "memory is allocated while a capture runs");
  CHECK(captured([](auto& t) {
          cuda::record(t.between, t.one);
          cuda::wait(t.two, t.between);
        }) == "a capture ends before all of its streams have come back");
  CHECK(captured([](auto& t) {
          cuda::record(t.between, t.one);
          (void)cuda::query_event(t.between);
        }) == "the host asks for an event that is a graph's own");
  CHECK(captured([](auto& t) {
          cuda::record_for_host(t.between, t.one);
          cuda::wait(t.one, t.between);
        }) == "a capture waits for an event from outside it");
  CHECK(captured([](auto& t) { cuda::begin_capture(t.two); }) == "a capture begins in another");
}

TEST_CASE("an event that the host asks for is recorded anew by each launch of a graph") {
  two_streams t;
  cuda::begin_capture(t.one);
  launch::run_box(fill(t.memory, 5), 1, 32, t.one);
  cuda::record_for_host(t.between, t.one);
  captured_graph* made = nullptr;
  CHECK(cuda::end_capture(t.one, made) == cuda::success);
  for (int turn = 0; turn < 2; ++turn) {
    cuda::launch_graph(made, t.one);
    CHECK(cuda::query_event(t.between) == cuda::not_ready);
    cuda::synchronize(t.one);
    CHECK(cuda::query_event(t.between) == cuda::success);
  }
  cuda::destroy_graph(made);
  cuda::launch_graph(made, t.one);
  CHECK(t.error() == "a graph is launched that was destroyed");
  two_streams outside;
  cuda::record_for_host(outside.between, outside.one);
  CHECK(outside.error() == "an event is recorded as a node of a graph outside of a capture");
}

TEST_CASE("graphs do what captured steps need") {
  const machine all;
  CHECK(pt::testing::fault_of_graph_events<cuda>(1024) == "");
  CHECK(machine::here().error() == "");
}

TEST_CASE("a capture that is given up leaves nothing") {
  two_streams t;
  float* const numbers = reinterpret_cast<float*>(t.memory);
  cuda::begin_capture(t.one);
  launch::run_box(fill(numbers, 5), 1, 32, t.one);
  cuda::abandon_capture(t.one);
  launch::run_box(fill(numbers + 64, 6), 1, 32, t.one);
  CHECK(cuda::synchronize(t.one) == cuda::success);
  CHECK(numbers[0] != 5);
  CHECK(numbers[64] == 6);
}

TEST_CASE("launches and products that cannot be") {
  two_streams t;
  launch::run_box(fill(t.memory, 1), 1, 33, t.one);
  CHECK(t.error() == "a launch of no blocks, or of no whole warps");
  two_streams other;
  pt::on_cuda::product p;
  p.m = p.n = p.k = p.lda = p.ldb = p.ldc = 2;
  cuda::run_product({}, {}, p, nullptr, 0, other.one);
  CHECK(other.error() == "a product of another shape than it was made ready for");
}

namespace {
// Two ranks, each with a communicator of both and a second one; what each does, and what becomes of it.
struct outcome {
  std::string error[2];
  bool ended[2];
};
template <class F> outcome between_two(F f) {
  machine all({.devices = 2});
  pt::unique_id_bytes first{}, second{};
  pt::prepare_nccl<nccl>();
  nccl::make_unique_id(first);
  nccl::make_unique_id(second);
  outcome r;
  auto rank = [&](int me) {
    cuda::set_device(me);
    stream_state* s = nullptr;
    cuda::create_stream(s);
    rank_comm *one = nullptr, *two = nullptr;
    nccl::create(one, 2, first, me);
    nccl::create(two, 2, second, me);
    void* at = nullptr;
    cuda::allocate(at, 1024);
    std::fill_n(static_cast<float*>(at), 256, static_cast<float>(me + 1));
    f(me, one, two, static_cast<float*>(at), s);
    for (int turn = 0; turn < 20000 && cuda::query(s) == cuda::not_ready && one->shared->error().empty(); ++turn)
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    r.ended[me] = cuda::query(s) == cuda::success;
    r.error[me] = one->shared->error();
    for (rank_comm* each : {one, two})
      if (!each->ended) nccl::destroy(each);
  };
  std::thread other(rank, 1);
  rank(0);
  other.join();
  cuda::set_device(0);
  return r;
}
}  // namespace

TEST_CASE("collectives of two ranks") {
  const outcome good = between_two([](int me, rank_comm* one, rank_comm* two, float* x, stream_state* s) {
    nccl::all_reduce(x, x, 8, pt::f32, pt::reduction::sum, one, s);
    nccl::all_gather(x + 8, x + 16, 8, pt::f32, two, s);
    nccl::group_start();
    nccl::send(x, 16, 1 - me, one, s);
    nccl::receive(x + 64, 16, 1 - me, one, s);
    nccl::group_end();
    cuda::synchronize(s);
    CHECK(x[0] == 3);
    CHECK(x[16] == 1);
    CHECK(x[24] == 2);
    CHECK(x[64] == 3);
  });
  CHECK((good.ended[0] && good.ended[1] && good.error[0].empty()));

  const outcome counts = between_two([](int me, rank_comm* one, rank_comm*, float* x, stream_state* s) {
    nccl::all_reduce(x, x, me == 0 ? 8 : 9, pt::f32, pt::reduction::sum, one, s);
  });
  CHECK(counts.error[0] == "members of one collective make different calls");
  CHECK(!counts.ended[0]);

  const outcome kinds = between_two([](int me, rank_comm* one, rank_comm*, float* x, stream_state* s) {
    if (me == 0) nccl::all_reduce(x, x, 8, pt::f32, pt::reduction::sum, one, s);
    else nccl::broadcast(x, x, 8, pt::f32, 0, one, s);
  });
  CHECK(kinds.error[1] == "members of one collective make different calls");

  const outcome bytes = between_two([](int me, rank_comm* one, rank_comm*, float* x, stream_state* s) {
    if (me == 0) nccl::send(x, 16, 1, one, s);
    else nccl::receive(x, 12, 0, one, s);
  });
  CHECK(bytes.error[0] == "a receive takes another number of bytes than its send gives");

  // Two communicators in opposite orders never end, as two sends that are not grouped.
  const outcome orders = between_two([](int me, rank_comm* one, rank_comm* two, float* x, stream_state* s) {
    nccl::all_reduce(x, x, 8, pt::f32, pt::reduction::sum, me == 0 ? one : two, s);
    nccl::all_reduce(x, x, 8, pt::f32, pt::reduction::sum, me == 0 ? two : one, s);
  });
  CHECK((!orders.ended[0] && !orders.ended[1]));
  const outcome apart = between_two([](int me, rank_comm* one, rank_comm*, float* x, stream_state* s) {
    nccl::send(x, 16, 1 - me, one, s);
    nccl::receive(x, 16, 1 - me, one, s);
  });
  CHECK((!apart.ended[0] && !apart.ended[1]));
}

TEST_CASE("members of which some capture a call") {
  const auto captured_by_one = [](auto put) {
    return between_two([&](int me, rank_comm* one, rank_comm*, float* x, stream_state* s) {
             captured_graph* made = nullptr;
             if (me == 1) cuda::begin_capture(s);
             put(me, one, x, s);
             if (me == 1) cuda::end_capture(s, made);
             if (me == 1) cuda::launch_graph(made, s);
           })
        .error[0];
  };
  CHECK(captured_by_one([](int, rank_comm* one, float* x, stream_state* s) {
          nccl::all_reduce(x, x, 8, pt::f32, pt::reduction::sum, one, s);
        }) == "some members of a collective have captured it and others not");
  CHECK(captured_by_one([](int me, rank_comm* one, float* x, stream_state* s) {
          me == 0 ? nccl::send(x, 16, 1, one, s) : nccl::receive(x, 16, 0, one, s);
        }) == "one side of a transfer was captured and the other not");
}

TEST_CASE("a communicator that would never end") {
  // What device 0 says where both its communicators have a call that waits for device 1.
  const auto with_both_waiting = [](bool captured, auto end) {
    std::string said;
    between_two([&](int me, rank_comm* one, rank_comm* two, float* x, stream_state* s) {
      if (me == 1) return;
      captured_graph* made = nullptr;
      if (captured) cuda::begin_capture(s);
      for (rank_comm* each : {one, two}) nccl::all_reduce(x, x, 8, pt::f32, pt::reduction::sum, each, s);
      if (captured) cuda::end_capture(s, made);
      if (captured) cuda::launch_graph(made, s);
      end(one, two, made);
      said = machine::here().error();
    });
    return said;
  };
  const auto abort_both = [](rank_comm* one, rank_comm* two, captured_graph*) {
    nccl::group_start();
    nccl::abort(one);
    nccl::abort(two);
    nccl::group_end();
  };
  CHECK(with_both_waiting(false, abort_both) == "");
  CHECK(with_both_waiting(false, [](rank_comm* one, rank_comm*, captured_graph*) { nccl::abort(one); }) ==
        "a communicator is aborted while calls of another one are under way");
  CHECK(with_both_waiting(true, abort_both) == "a communicator is aborted while a graph has calls of it");
  CHECK(with_both_waiting(true, [&](rank_comm* one, rank_comm* two, captured_graph* made) {
          cuda::destroy_graph(made);
          abort_both(one, two, made);
        }) == "");
  CHECK(with_both_waiting(true, [](rank_comm* one, rank_comm*, captured_graph*) { nccl::destroy(one); }) ==
        "a communicator is destroyed while a graph has calls of it");
}

namespace {
// Rows of a box, 7 apart or next to each other, beginning `skew` elements after a multiple of 16 bytes: summed, the larger
// taken, filled.
template <class T> void check_boxes(pt::dtype type, std::size_t columns, std::size_t apart, std::size_t skew) {
  constexpr std::size_t rows = 5, room = 400;
  alignas(16) T from[room], to[room];
  for (int kind = 0; kind < 3; ++kind) {
    std::vector<double> wanted(room);
    for (std::size_t i = 0; i < room; ++i) {
      from[i] = T(static_cast<float>(i * 5 % 13));
      to[i] = T(static_cast<float>(i * 3 % 17));
      wanted[i] = static_cast<double>(to[i]);
    }
    pt::box_copy b;
    b.rank = 2;
    b.extents[0] = rows;
    b.extents[1] = columns;
    b.from_strides[0] = columns;
    b.to_strides[0] = columns + apart;
    b.from_strides[1] = b.to_strides[1] = 1;
    b.combine = true;
    b.reduce = kind == 0 ? pt::reduction::sum : pt::reduction::max;
    pt::on_cuda::box_arguments a = pt::on_cuda::arguments_of(b, type, from + skew, to + skew);
    const bool whole = (columns * sizeof(T)) % 16 == 0 && (apart * sizeof(T)) % 16 == 0 && skew * sizeof(T) % 16 == 0;
    CHECK((a.width == 16) == whole);
    if (kind == 2) a = pt::on_cuda::fill_of(to + skew, type, rows * columns, 3);
    for (std::size_t r = 0; r < rows; ++r)
      for (std::size_t c = 0; c < columns; ++c) {
        const double x = static_cast<double>(from[skew + r * columns + c]);
        if (kind == 2) wanted[skew + r * columns + c] = 3;
        else if (double& y = wanted[skew + r * (columns + apart) + c]; kind == 0) y += x;
        else y = std::max(x, y);
      }
    for (std::size_t block : {1u, 0u}) pt::on_cuda::run_box<host_block>(a, block, 2);
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < room; ++i) wrong += static_cast<double>(to[i]) == wanted[i] ? 0 : 1;
    CHECK(wrong == 0);
  }
}
}  // namespace

TEST_CASE("boxes are combined and filled by packs of 16 bytes where rows begin and end with one") {
  for (std::size_t columns : {1u, 6u, 16u, 32u})
    for (std::size_t apart : {0u, 7u, 8u})
      for (std::size_t skew : {0u, 1u, 8u}) {
        check_boxes<float>(pt::f32, columns, apart, skew);
        check_boxes<double>(pt::f64, columns, apart, skew);
        check_boxes<pt::bfloat16>(pt::bf16, columns, apart, skew);
        check_boxes<pt::float16>(pt::f16, columns, apart, skew);
        check_boxes<std::int32_t>(pt::i32, columns, apart, skew);
      }
}
