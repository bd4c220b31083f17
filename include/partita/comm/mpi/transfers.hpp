// Data between ranks, as sends and receives that progress together.
#pragma once
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <thread>

#include <partita/comm/mpi/state.hpp>
#include <partita/core/list.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail::comm {

struct transfer_limits {
  // Of one message, in bytes: MPI counts in int. The parts of a longer one keep their order.
  std::size_t message = std::size_t{1} << 30;
  // Of what a rank receives at a time to add it up, in bytes, from all members together.
  std::size_t reduction = std::size_t{1} << 20;
};

// Everything with mpi_state::calls held.
class transfers {
 public:
  transfers(MPI_Comm over, transfer_limits limits) : over_(over), limits_(limits) {}

  void send(int to, void const* data, std::size_t bytes, int tag) {
    each_part(bytes, [&](std::size_t at, int length) {
      check_mpi(MPI_Isend(static_cast<std::byte const*>(data) + at, length, MPI_BYTE, to, tag, over_, sends_.begin(to)),
                "MPI_Isend");
    });
  }
  void receive(int from, void* data, std::size_t bytes, int tag) {
    each_part(bytes, [&](std::size_t at, int length) {
      check_mpi(MPI_Irecv(static_cast<std::byte*>(data) + at, length, MPI_BYTE, from, tag, over_, receives_.begin(from)),
                "MPI_Irecv");
    });
  }
  bool done() { return receives_.done() && sends_.done(); }
  // Whether something that was begun with it has not ended.
  bool waits_for(int other) const { return receives_.open_with(other) || sends_.open_with(other); }

  // Ends what was begun, so that nobody touches the buffers any more: a receive is taken back where its sender has not
  // come, and a send that nobody takes is read by nobody.
  void leave() {
    for (MPI_Request& each : receives_.all)
      if (each != MPI_REQUEST_NULL) MPI_Cancel(&each);
    const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
    while (!done() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(std::chrono::microseconds(100));
    receives_ = {};
    sends_ = {};
  }

 private:
  template <class F> void each_part(std::size_t bytes, F f) const {
    for (std::size_t at = 0; at < bytes; at += limits_.message) f(at, static_cast<int>(std::min(limits_.message, bytes - at)));
  }
  struct requests {
    list<MPI_Request> all;
    list<int> ranks;  // that each is with

    MPI_Request* begin(int other) {
      ranks.push_back(other);
      all.push_back(MPI_REQUEST_NULL);
      return &all.back();
    }
    bool done() {
      if (all.empty()) return true;
      int ended = 0;
      check_mpi(MPI_Testall(static_cast<int>(all.size()), all.data(), &ended, MPI_STATUSES_IGNORE), "MPI_Testall");
      if (ended != 0) all.clear(), ranks.clear();
      return ended != 0;
    }
    bool open_with(int other) const {
      for (std::size_t i = 0; i < all.size(); ++i) {
        int ended = 0;
        if (ranks[i] == other) check_mpi(MPI_Request_get_status(all[i], &ended, MPI_STATUS_IGNORE), "MPI_Request_get_status");
        if (ranks[i] == other && ended == 0) return true;
      }
      return false;
    }
  };
  MPI_Comm over_;
  transfer_limits limits_;
  requests sends_, receives_;
};

}  // namespace partita::detail::comm

#include <partita/core/end_planning_code.hpp>
