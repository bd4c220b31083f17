// Every collective against its definition, bit by bit, over random groups, sizes, types and orders.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <span>

#include "ranks.hpp"

using namespace partita_test;
using partita::communication;
using partita::dtype;
using partita::reduction;
using counts_of_members = std::vector<std::size_t>;

namespace {

// Checks one operation from the view of one rank; `op` seeds the data, `size` bounds a piece.
template <class T> struct one {
  communicator& comm;
  std::size_t group;
  std::uint64_t op;
  dtype type;
  std::size_t size;

  std::span<int const> ranks = comm.members(group);
  std::size_t me = static_cast<std::size_t>(std::find(ranks.begin(), ranks.end(), comm.rank()) - ranks.begin());
  reduction how = mixed(op, 77) % 3 == 0 ? reduction::max : reduction::sum;

  std::vector<T> own(std::size_t count, std::uint64_t salt = 0) const {
    std::vector<T> values(count);
    for (std::size_t i = 0; i < count; ++i) values[i] = value_of<T>(op + salt, comm.rank(), i);
    return values;
  }
  counts_of_members pieces() const {  // uneven; zero now and then
    counts_of_members counts(ranks.size());
    for (std::size_t m = 0; m < counts.size(); ++m) counts[m] = mixed(op, m, 5) % 4 == 0 ? 0 : mixed(op, m, 6) % (size + 1);
    return counts;
  }

  bool all_reduce() {
    std::vector<T> buffer = own(size);
    comm.all_reduce(group, buffer.data(), size, type, how);
    for (std::size_t i = 0; i < size; ++i)
      if (!same_bits(buffer[i], reduced<T>(how, op, ranks, i))) return false;
    return true;
  }
  bool all_gather() {
    const counts_of_members counts = pieces();
    const std::size_t before = partita::detail::comm::sum(std::span(counts).first(me));
    std::vector<T> all(partita::detail::comm::sum(counts)), mine = own(counts[me]);
    bool const in_place = op % 2 == 0;
    if (in_place) std::copy(mine.begin(), mine.end(), all.begin() + static_cast<std::ptrdiff_t>(before));
    comm.all_gather(group, in_place ? all.data() + before : mine.data(), all.data(), counts, type);
    std::size_t at = 0;
    for (std::size_t m = 0; m < counts.size(); ++m)
      for (std::size_t i = 0; i < counts[m]; ++i)
        if (!same_bits(all[at++], value_of<T>(op, ranks[m], i))) return false;
    return true;
  }
  bool reduce_scatter() {
    const counts_of_members counts = pieces();
    const std::size_t before = partita::detail::comm::sum(std::span(counts).first(me));
    std::vector<T> all = own(partita::detail::comm::sum(counts)), separate(counts[me]);
    T* mine = op % 2 == 0 ? all.data() + before : separate.data();
    comm.reduce_scatter(group, all.data(), mine, counts, type, how);
    for (std::size_t i = 0; i < counts[me]; ++i)
      if (!same_bits(mine[i], reduced<T>(how, op, ranks, before + i))) return false;
    return true;
  }
  // Several calls as one, of which some are empty, against each of them alone.
  bool joined(communication kind) {
    const std::size_t calls = 1 + mixed(op, 11) % 5;
    std::vector<counts_of_members> counts(calls);
    std::vector<std::vector<T>> from(calls), to(calls), wanted(calls);
    std::vector<partita::joined_call> all;
    for (std::size_t k = 0; k < calls; ++k) {
      one part = *this;
      part.op += 7 * k;
      counts[k] = part.pieces();
      const std::size_t total = partita::detail::comm::sum(counts[k]);
      if (kind == communication::all_reduce) {
        counts[k] = {total};
        to[k] = wanted[k] = own(total, k);
        comm.all_reduce(group, wanted[k].data(), total, type, how);
      } else {
        bool const gathers = kind == communication::all_gather;
        from[k] = own(gathers ? counts[k][me] : total, k);
        to[k].resize(gathers ? total : counts[k][me]);
        wanted[k] = to[k];
        if (gathers) comm.all_gather(group, from[k].data(), wanted[k].data(), counts[k], type);
        else comm.reduce_scatter(group, from[k].data(), wanted[k].data(), counts[k], type, how);
      }
      all.push_back({from[k].data(), to[k].data(), counts[k]});
    }
    const partita::traffic_counts before = comm.traffic();
    if (kind == communication::all_reduce) comm.all_reduce(group, all, type, how);
    else if (kind == communication::all_gather) comm.all_gather(group, all, type);
    else comm.reduce_scatter(group, all, type, how);
    if ((comm.traffic() - before).calls_of(kind) != 1) return false;
    for (std::size_t k = 0; k < calls; ++k)
      for (std::size_t i = 0; i < wanted[k].size(); ++i)
        if (!same_bits(to[k][i], wanted[k][i])) return false;
    return true;
  }
  bool all_to_all() {
    auto between = [&](std::size_t from, std::size_t to) {
      return mixed(op, from, to) % 4 == 0 ? 0 : mixed(op, to, from) % (size + 1);
    };
    counts_of_members sends, receives;
    for (std::size_t m = 0; m < ranks.size(); ++m) sends.push_back(between(me, m)), receives.push_back(between(m, me));
    std::vector<T> send = own(partita::detail::comm::sum(sends)), receive(partita::detail::comm::sum(receives));
    comm.all_to_all(group, send.data(), sends, receive.data(), receives, type);
    std::size_t at = 0;
    for (std::size_t m = 0; m < ranks.size(); ++m) {
      std::size_t offset = 0;
      for (std::size_t to = 0; to < me; ++to) offset += between(m, to);
      for (std::size_t i = 0; i < receives[m]; ++i)
        if (!same_bits(receive[at++], value_of<T>(op, ranks[m], offset + i))) return false;
    }
    return true;
  }
  bool broadcast() {
    const std::size_t root = mixed(op, 8) % ranks.size();
    std::vector<T> buffer = own(size);
    comm.broadcast(group, buffer.data(), size, type, static_cast<int>(root));
    for (std::size_t i = 0; i < size; ++i)
      if (!same_bits(buffer[i], value_of<T>(op, ranks[root], i))) return false;
    return true;
  }
  bool exchange() {  // one message to every member, the caller included, and a second one of the same tag
    std::vector<std::vector<T>> sent, received;
    std::vector<partita::message> sends, receives;
    auto length = [&](int from, int to, std::uint64_t which) {
      return mixed(op + which, static_cast<std::uint64_t>(from), static_cast<std::uint64_t>(to)) % (size + 1);
    };
    sent.reserve(2 * ranks.size()), received.reserve(2 * ranks.size());
    for (std::uint64_t which = 0; which < 2; ++which)
      for (int peer : ranks) {
        sent.push_back(own(length(comm.rank(), peer, which), which));
        sends.push_back({peer, sent.back().data(), sent.back().size() * sizeof(T), op % 3});
        received.emplace_back(length(peer, comm.rank(), which));
        receives.push_back({peer, received.back().data(), received.back().size() * sizeof(T), op % 3});
      }
    comm.exchange(sends, receives);
    for (std::uint64_t which = 0; which < 2; ++which)
      for (std::size_t m = 0; m < ranks.size(); ++m) {
        std::vector<T> const& values = received[which * ranks.size() + m];
        for (std::size_t i = 0; i < values.size(); ++i)
          if (!same_bits(values[i], value_of<T>(op + which, ranks[m], i))) return false;
      }
    return true;
  }
  bool run(communication kind) {
    switch (kind) {
      case communication::all_reduce: return all_reduce();
      case communication::all_gather: return all_gather();
      case communication::reduce_scatter: return reduce_scatter();
      case communication::all_to_all: return all_to_all();
      case communication::broadcast: return broadcast();
      case communication::exchange: return exchange();
      case communication::barrier: comm.barrier(group); return true;
    }
    return false;
  }
};

bool run(communicator& comm, std::size_t group, communication kind, std::uint64_t op, std::size_t size) {
  switch (mixed(op, 3) % 5) {
    case 0: return one<float>{comm, group, op, dtype::f32, size}.run(kind);
    case 1: return one<double>{comm, group, op, dtype::f64, size}.run(kind);
    case 2: return one<partita::bfloat16>{comm, group, op, dtype::bf16, size}.run(kind);
    case 3: return one<partita::float16>{comm, group, op, dtype::f16, size}.run(kind);
    default: return one<std::int32_t>{comm, group, op, dtype::i32, size}.run(kind);
  }
}

// `length` random operations in one global order, of which every rank runs those of its groups.
void random_sequence(test_world& world, std::uint64_t seed, std::uint64_t length, std::size_t largest) {
  std::string failure;
  auto const endings = on_every_rank(world, [&](communicator& comm) {
    for (std::uint64_t step = 0; step < length; ++step) {
      const std::uint64_t op = seed * 100000 + step;
      const std::size_t group = mixed(op, 1) % world.groups();
      const auto kind = static_cast<communication>(mixed(op, 2) % partita::communication_kinds);
      const std::size_t small[] = {0, 1, 2, 15, 16, 17, 63, 257};
      const std::size_t size = mixed(op, 4) % 4 != 0 ? small[mixed(op, 9) % 8] : mixed(op, 10) % (largest + 1);
      const auto ranks = comm.members(group);
      if (!std::binary_search(ranks.begin(), ranks.end(), comm.rank())) continue;
      if (!run(comm, group, kind, op, size))
        throw partita::error("wrong result of " + std::string(name_of(kind)) + " of up to " + std::to_string(size) +
                             " elements, step " + std::to_string(step));
    }
  });
  bool const well = all_well(endings, failure);
  CHECK_MESSAGE(well, failure);
}

partita::list<int> first_ranks(int count) {
  partita::list<int> ranks;
  for (int rank = 0; rank < count; ++rank) ranks.push_back(rank);
  return ranks;
}

}  // namespace

TEST_CASE("every collective does what its definition says, for 1 to 8 members and many sizes") {
  for (int members = 1; members <= 8; ++members) {
    test_world world(members, {first_ranks(members)});
    std::string failure;
    auto const endings = on_every_rank(world, [&](communicator& comm) {
      std::uint64_t op = 0;
      for (std::size_t kind = 0; kind < partita::communication_kinds; ++kind)
        for (std::size_t size : {0, 1, 2, 3, 7, 64, 1000, 4099, 40001})
          for (int repeat = 0; repeat < 3 / one_of; ++repeat, ++op)
            if (!run(comm, 0, static_cast<communication>(kind), op, size))
              throw partita::error("wrong result of " + std::string(name_of(static_cast<communication>(kind))) + " of up to " +
                                   std::to_string(size) + " elements");
    });
    bool const well = all_well(endings, failure);
    CHECK_MESSAGE(well, failure);
  }
}

TEST_CASE("calls that are made as one do what each of them does") {
  for (int members : {1, 2, 3, 5, 8}) {
    test_world world(members, {first_ranks(members)});
    std::string failure;
    auto const endings = on_every_rank(world, [&](communicator& comm) {
      std::uint64_t op = 500;
      for (communication kind : {communication::all_reduce, communication::all_gather, communication::reduce_scatter})
        for (std::size_t size : {0, 1, 7, 1000, 4099, 40001})
          for (int repeat = 0; repeat < 6 / one_of; ++repeat, ++op) {
            bool const good = op % 2 == 0 ? one<float>{comm, 0, op, dtype::f32, size}.joined(kind)
                                          : one<double>{comm, 0, op, dtype::f64, size}.joined(kind);
            if (!good) throw partita::error("joined " + std::string(name_of(kind)) + " of up to " + std::to_string(size));
          }
    });
    bool const well = all_well(endings, failure);
    CHECK_MESSAGE(well, failure);
  }
}

TEST_CASE("members that make other calls as one are told") {
  test_world world(2, {{0, 1}});
  const std::size_t four[]{4}, three[]{3};
  auto const endings = on_every_rank(
      world,
      [&](communicator& comm) {
        std::vector<float> mine(8);
        const partita::joined_call calls[]{{nullptr, mine.data(), four},
                                           {nullptr, mine.data() + 4, comm.rank() == 0 ? four : three}};
        comm.all_reduce(0, calls, partita::f32, reduction::sum);
      },
      false);
  for (ending const& e : endings)
    CHECK(e.what.find("2 calls as one: all_reduce of 4 f32 by sum, all_reduce of 3 f32 by sum") != std::string::npos);
}

TEST_CASE("overlapping groups run random sequences side by side") {
  const partita::list<partita::list<int>> groups{first_ranks(8), {0, 1, 2, 3}, {2, 3, 4, 5}, {0, 2, 4, 6}, {7},
                                                 {1, 5, 7},      {0, 1, 2, 3}, {3, 6}};
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    test_world world(8, groups);
    random_sequence(world, seed, 150 / one_of, 60000);
  }
}

TEST_CASE("many more ranks than cores") {
  if (most_ranks() < 16) return;
  test_world world(16, {first_ranks(16), {0, 5, 10, 15}, {1, 2, 3, 4, 5, 6, 7, 8}});
  random_sequence(world, 9, 120 / one_of, 20000);
}

TEST_CASE("ranks that never spin, and ranks that always may") {
  for (unsigned threads : {1u, 1000u}) {
    test_world world(4, {first_ranks(4), {1, 3}}, {.threads = threads});
    random_sequence(world, 11, 200 / one_of, 30000);
  }
}

TEST_CASE("many hundreds of collectives in a row") {
  test_world world(4, {first_ranks(4), {0, 1}, {2, 3}, {1, 2}});
  random_sequence(world, 5, 2000 / one_of, 300);
}

TEST_CASE("all members receive the same bits, and again the same in a second run") {
  const std::size_t count = 100003;
  std::vector<std::vector<float>> results[2];
  for (auto& result : results) {
    result.resize(5);
    test_world world(5, {first_ranks(5)});
    on_every_rank(world, [&](communicator& comm) {
      auto& buffer = result[static_cast<std::size_t>(comm.rank())];
      for (std::size_t i = 0; i < count; ++i) buffer.push_back(value_of<float>(1, comm.rank(), i));
      comm.all_reduce(0, buffer.data(), count, dtype::f32, reduction::sum);
    });
  }
  std::vector<float> const* first = nullptr;  // of the ranks that this process has
  for (auto const& result : results)
    for (auto const& buffer : result) {
      if (buffer.empty()) continue;
      if (first == nullptr) first = &buffer;
      CHECK(std::memcmp(buffer.data(), first->data(), count * sizeof(float)) == 0);
    }
}

TEST_CASE("a maximum keeps NaN, from whichever member it comes") {
  for (std::size_t from = 0; from < 3; ++from) {
    test_world world(3, {first_ranks(3)});
    std::vector<float> values{1, 2, 3};
    values[from] = std::numeric_limits<float>::quiet_NaN();
    std::string failure;
    auto const endings = on_every_rank(world, [&](communicator& comm) {
      float& mine = values[static_cast<std::size_t>(comm.rank())];
      comm.all_reduce(0, &mine, 1, dtype::f32, reduction::max);
      if (!std::isnan(mine)) throw partita::error("the maximum is a number");
    });
    bool const well = all_well(endings, failure);
    CHECK_MESSAGE(well, failure);
  }
}

TEST_CASE("traffic counts what the ring algorithms send") {
  test_world world(4, {first_ranks(4), {0, 2}});
  const counts_of_members counts{10, 20, 30, 40}, sends{1, 2, 3, 4};
  auto const endings = on_every_rank(world, [&](communicator& comm) {
    const auto me = static_cast<std::size_t>(comm.rank());
    std::vector<float> a(100), b(100);
    comm.all_reduce(0, a.data(), 100, dtype::f32, reduction::sum);
    comm.all_gather(0, b.data(), a.data(), counts, dtype::f32);
    comm.reduce_scatter(0, a.data(), b.data(), counts, dtype::f32, reduction::sum);
    const counts_of_members receives(4, sends[me]);
    comm.all_to_all(0, a.data(), sends, b.data(), receives, dtype::f32);
    comm.broadcast(0, a.data(), 100, dtype::f32, 1);
    if (comm.rank() % 2 == 0) comm.barrier(1);
    const partita::message send{(comm.rank() + 1) % 4, a.data(), 12, 0}, receive{(comm.rank() + 3) % 4, b.data(), 12, 0};
    comm.exchange({&send, 1}, {&receive, 1});

    const partita::traffic_counts counted = comm.traffic();
    auto is = [](std::uint64_t have, std::uint64_t wanted) {
      if (have != wanted) throw partita::error("counted " + std::to_string(have) + ", not " + std::to_string(wanted));
    };
    is(counted.bytes_of(communication::all_reduce), 600);
    is(counted.bytes_of(communication::all_gather), 3 * counts[me] * 4);
    is(counted.bytes_of(communication::reduce_scatter), (100 - counts[me]) * 4);
    is(counted.bytes_of(communication::all_to_all), (10 - sends[me]) * 4);
    is(counted.bytes_of(communication::broadcast), me == 0 ? 0 : 400);
    is(counted.bytes_of(communication::exchange), 12);
    is(counted.calls_of(communication::barrier), me % 2 == 0 ? 1 : 0);
    is((counted - counted).total_bytes(), 0);
  });
  std::string failure;
  bool const well = all_well(endings, failure);
  CHECK_MESSAGE(well, failure);
}
