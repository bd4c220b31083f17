// NCCL as far as communicators call it, between the devices of a pretended machine, or of those of several processes, where
// PRETENDED_NCCL names a folder that they share.
#pragma once
#include <unistd.h>

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <partita/comm/nccl/world.hpp>

#include "comm_over_files.hpp"
#include "machine.hpp"
#include "shared_comm.hpp"

namespace partita::testing::pretend {

struct rank_comm {
  std::shared_ptr<shared_comm> shared;
  int rank = 0;
  std::uint64_t collectives = 0;
  std::map<std::pair<int, int>, std::uint64_t> transfers;
  std::string own_error;  // told to this rank alone
  int under_way = 0;      // groups of calls that have not ended on the device
  bool ended = false;     // by destroy or abort
};

struct nccl {
  enum result { success, failed };
  using stream_type = stream_state*;
  using comm_type = rank_comm*;

  static constexpr int headers_version = 22809;

  static std::string text(result) { return last_error.empty() ? "failed" : last_error; }

  static result loaded_version(int& version) {
    version = machine::present->options().nccl_version;
    return success;
  }
  static void end_process(std::string const& why) { machine::present->end_process(why); }
  static result make_unique_id(unique_id_bytes& id) {
    const std::scoped_lock lock(registry_mutex);
    const std::uint64_t number = static_cast<std::uint64_t>(getpid()) << 32 | ++ids_made;
    std::memcpy(id.data(), &number, sizeof number);
    return success;
  }
  static result create(comm_type& made, int ranks, unique_id_bytes const& id, int rank) {
    if (std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT") == nullptr) return refuse("a communicator whose launches have no order");
    if (machine::here().is_absent()) {
      machine::present->wait_for_end();
      return refuse("it never came, as it was told to");
    }
    std::uint64_t number = 0;
    std::memcpy(&number, id.data(), sizeof number);
    made = new rank_comm;
    made->rank = rank;
    {
      const std::scoped_lock lock(registry_mutex);
      auto& shared = registry[number];
      if (char const* const folder = std::getenv("PRETENDED_NCCL"); !shared && folder != nullptr)
        shared = std::make_shared<comm_over_files>(ranks, folder, number);
      if (!shared) shared = std::make_shared<comm_in_memory>(ranks);
      made->shared = shared;
    }
    const bool all_came = made->shared->join(rank);
    if (all_came && !machine::here().fails_communicator()) {
      living.push_back(made);
      return success;
    }
    delete std::exchange(made, nullptr);
    return refuse(all_came ? "a communicator failed, as it was told to" : "not all ranks have come");
  }
  static void destroy(comm_type c) {
    check_that_it_ends(c, "destroyed");
    end(c);
  }
  // In a group, all of whose communicators are told to stop before the first of them is waited for.
  static void abort(comm_type c) {
    if (depth == 0) check_that_it_ends(c, "aborted");
    else aborted.push_back(c);
    end(c);
  }
  static void end(comm_type c) {
    std::erase(living, c);
    c->ended = true;  // its tasks end without doing anything; it stays, as they point to it
    c->shared->leave(c->rank);
    const std::scoped_lock lock(registry_mutex);
    ended.emplace_back(c);
  }
  static result asynchronous_error(comm_type c) {
    last_error = c->own_error.empty() ? c->shared->error() : c->own_error;
    return last_error.empty() ? success : failed;
  }

  static result group_start() {
    ++depth;
    return success;
  }
  static result group_end() {
    if (--depth > 0) return success;
    for (comm_type each : std::exchange(aborted, {})) {
      check_that_it_ends(each, "aborted");
      if (machine::here().never_ends_abort()) machine::present->wait_for_end();
    }
    if (machine::here().never_ends_group()) {
      machine::present->wait_for_end();
      waiting.clear();
      return refuse("its end did not return, as it was told to");
    }
    std::vector<posted> all = std::exchange(waiting, {});
    std::vector<stream_type> streams;
    for (posted const& p : all) machine::here().captures_call_of(p.comm);
    for (posted const& p : all)
      if (std::find(streams.begin(), streams.end(), p.stream) == streams.end()) streams.push_back(p.stream);
    for (stream_type s : streams) {
      std::vector<posted> mine;
      for (posted const& p : all)
        if (p.stream == s) mine.push_back(p);
      machine::here().issue(s, [mine, s] { put(mine, s); });
    }
    return success;
  }

  static result all_reduce(void const* from, void* to, std::size_t n, dtype type, reduction how, comm_type c, stream_type s) {
    return post({call_kind::all_reduce, from, to, n, type, how}, c, s);
  }
  static result all_gather(void const* from, void* to, std::size_t n, dtype type, comm_type c, stream_type s) {
    return post({call_kind::all_gather, from, to, n, type}, c, s);
  }
  static result reduce_scatter(void const* from, void* to, std::size_t n, dtype type, reduction how, comm_type c, stream_type s) {
    return post({call_kind::reduce_scatter, from, to, n, type, how}, c, s);
  }
  static result broadcast(void const* from, void* to, std::size_t n, dtype type, int root, comm_type c, stream_type s) {
    return post({call_kind::broadcast, from, to, n, type, reduction::sum, root}, c, s);
  }
  static result reduce(void const* from, void* to, std::size_t n, dtype type, reduction how, int root, comm_type c,
                       stream_type s) {
    return post({call_kind::reduce, from, to, n, type, how, root}, c, s);
  }
  static result send(void const* from, std::size_t bytes, int peer, comm_type c, stream_type s) {
    return post({call_kind::send, from, nullptr, bytes, f32, reduction::sum, peer}, c, s);
  }
  static result receive(void* to, std::size_t bytes, int peer, comm_type c, stream_type s) {
    return post({call_kind::receive, nullptr, to, bytes, f32, reduction::sum, peer}, c, s);
  }

 private:
  // Where NCCL would wait for ever: its end waits for graphs that have calls of the communicator, and for all that is on the
  // device, also calls of other communicators.
  static void check_that_it_ends(comm_type c, char const* how) {
    if (machine::here().is_in_graph(c))
      machine::here().breaks(words({"a communicator is ", how, " while a graph has calls of it"}));
    for (comm_type other : living)
      if (other != c && other->under_way > 0)
        machine::here().breaks(words({"a communicator is ", how, " while calls of another one are under way"}));
  }
  static result refuse(std::string why) {
    last_error = std::move(why);
    return failed;
  }
  struct posted {
    nccl_call what;
    comm_type comm;
    stream_type stream;
  };

  static result post(nccl_call const& what, comm_type c, stream_type s) {
    if (machine::here().refuses_call()) return refuse("a call was refused, as it was told to");
    const bool alone = depth == 0;
    if (alone) ++depth;
    waiting.push_back({what, c, s});
    waiting.back().what.is_captured = machine::here().capturing();
    return alone ? group_end() : success;
  }
  // One task, which comes to all calls of the group at once and ends when all have. Numbers are given in the order of calls.
  static void put(std::vector<posted> const& group, stream_type s) {
    std::vector<std::uint64_t> numbers;
    for (posted const& p : group) {
      if (p.what.kind == call_kind::send) numbers.push_back(p.comm->transfers[{p.comm->rank, p.what.peer}]++);
      else if (p.what.kind == call_kind::receive) numbers.push_back(p.comm->transfers[{p.what.peer, ~p.comm->rank}]++);
      else numbers.push_back(p.comm->collectives++);
    }
    constexpr char const* why = "a collective failed, as it was told to";
    const bool fails = machine::here().fails_collective(), fails_late = machine::here().fails_collective_late();
    for (posted const& p : group) ++p.comm->under_way;
    machine::here().put(s, [group, numbers, fails, fails_late, arrived = false]() mutable {
      if (fails) group[0].comm->shared->breaks(why);
      bool all = true;
      for (std::size_t k = 0; k < group.size(); ++k) {
        auto const& [what, comm, stream] = group[k];
        if (comm->ended) continue;
        const bool sends = what.kind == call_kind::send, moves = sends || what.kind == call_kind::receive;
        const int from = sends ? comm->rank : what.peer, to = sends ? what.peer : comm->rank;
        if (!arrived && !moves) comm->shared->arrive(numbers[k], comm->rank, what);
        if (!arrived && moves) comm->shared->arrive(from, to, numbers[k], what);
        all = all &&
              (moves ? comm->shared->has_ended(from, to, numbers[k], sends) : comm->shared->has_ended(numbers[k], comm->rank));
      }
      arrived = true;
      if (all)
        for (posted const& p : group) --p.comm->under_way;
      if (all && fails_late) group[0].comm->own_error = why;
      return all;
    });
  }

  inline static thread_local int depth = 0;
  inline static thread_local std::vector<posted> waiting;
  inline static thread_local std::vector<comm_type> living, aborted;  // of this thread's device; in a group
  inline static thread_local std::string last_error;
  inline static std::mutex registry_mutex;
  inline static std::uint64_t ids_made = 0;
  inline static std::map<std::uint64_t, std::shared_ptr<shared_comm>> registry;
  inline static std::vector<std::unique_ptr<rank_comm>> ended;
};

}  // namespace partita::testing::pretend
