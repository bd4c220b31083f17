// Cards: the small messages by which ranks say what they call, and on which small data travel at once.
//
// All cards of a communicator arrive in one posted receive, whoever sends them, and are sorted here. So a rank learns
// what others want before it takes their data, whatever their order, and an MPI tag need not hold our tags of 64 bits.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>

#include <partita/comm/mpi/state.hpp>
#include <partita/core/list.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::detail::comm {

struct alignas(64) card {
  enum class purpose : std::uint32_t { call, message };
  struct header {
    purpose what = purpose::call;
    std::uint32_t group = 0;    // call
    std::uint64_t turn = 0;     // call: of the group; message: of the pair of ranks
    std::uint64_t digest = 0;   // call: of everything that members must agree on
    std::uint64_t words = 0;    // call: how long its full description is
    std::uint64_t tag = 0;      // message
    std::uint64_t bytes = 0;    // message: of its data
    std::uint32_t carried = 0;  // bytes of data on the card
    int source = -1;            // set where it arrives
  };
  // With the header less than what MPI sends without asking first (4 KiB within a machine by Open MPI's defaults).
  static constexpr std::size_t room = 3072;

  header head;
  alignas(64) std::byte data[room];

  std::size_t sent_bytes() const {
    return static_cast<std::size_t>(data - reinterpret_cast<std::byte const*>(this)) + head.carried;
  }
};

// The receiving side. Everything with mpi_state::calls held.
class card_box {
 public:
  card_box(mpi_state& state, MPI_Comm over) : state_(state), over_(over) {
    if (state.size() > 1) post();
  }
  ~card_box() {  // of a communicator that could not be made, too: no card may arrive in memory that is given back
    const std::scoped_lock lock(state_.calls());
    close();
  }
  card_box(card_box const&) = delete;
  card_box& operator=(card_box const&) = delete;

  // Calls sort(card*) for each that has arrived; it is the callee's until `give_back`.
  template <class Sort> void take(Sort sort) {
    if (posted_ == MPI_REQUEST_NULL) return;
    for (;;) {
      int arrived = 0;
      MPI_Status status;
      check_mpi(MPI_Test(&posted_, &arrived, &status), "MPI_Test");
      if (!arrived) return;
      card* const mine = next_;
      mine->head.source = status.MPI_SOURCE;
      post();
      sort(mine);
    }
  }
  void give_back(card* used) { free_.push_back(used); }
  void close() {
    if (posted_ == MPI_REQUEST_NULL) return;
    MPI_Cancel(&posted_);
    MPI_Wait(&posted_, MPI_STATUS_IGNORE);
  }

 private:
  void post() {
    if (free_.empty()) {
      all_.push_back(std::make_unique<card>());
      free_.reserve(all_.size());
      free_.push_back(all_.back().get());
    }
    next_ = free_.back();
    free_.pop_back();
    check_mpi(MPI_Irecv(next_, static_cast<int>(sizeof(card)), MPI_BYTE, MPI_ANY_SOURCE, 0, over_, &posted_), "MPI_Irecv");
  }
  mpi_state& state_;
  MPI_Comm over_;
  MPI_Request posted_ = MPI_REQUEST_NULL;
  card* next_ = nullptr;
  list<std::unique_ptr<card>> all_;
  list<card*> free_;
};

}  // namespace partita::detail::comm

#include <partita/core/end_planning_code.hpp>
