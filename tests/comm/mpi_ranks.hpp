// Ranks that are processes: what ranks.hpp has for threads.
#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <partita/comm/mpi/world.hpp>

namespace partita_test {

using communicator = partita::mpi_communicator;
inline constexpr bool senders_learn = false;
inline partita::mpi* processes = nullptr;  // set by mpi/main.cpp
inline int most_ranks() { return processes->size(); }

// The first `ranks` processes. Every second one cuts its messages into small parts.
class test_world {
 public:
  test_world(int ranks, partita::list<partita::list<int>> const& groups, partita::thread_world_options = {})
      : size_(ranks), groups_(groups.size()) {
    static int worlds = 0;
    partita::detail::comm::transfer_limits limits;
    if (++worlds % 2 == 0) limits = {.message = 5000, .reduction = 3000};
    comm_ = processes->communicator(groups, limits);
  }
  int size() const { return size_; }
  std::size_t groups() const { return groups_; }
  communicator& mine() { return *comm_; }

 private:
  int size_;
  std::size_t groups_;
  std::unique_ptr<communicator> comm_;
};

template <class Body> std::vector<ending> on_every_rank(test_world& world, Body body, bool = true) {
  std::string what;
  char how = 0;
  if (processes->rank() < world.size()) {
    try {
      body(world.mine());
    } catch (const partita::aborted& stopped) { what = stopped.what(), how = 1; } catch (const std::exception& failure) {
      what = failure.what(), how = 2;
    }
  }
  const partita::list<char> hows = gather(*processes, how);
  const auto whats = gather_lists(*processes, partita::list<char>(what.data(), what.data() + what.size()));
  std::vector<ending> endings;
  for (std::size_t r = 0; r < static_cast<std::size_t>(world.size()); ++r)
    endings.push_back({std::string(whats[r].begin(), whats[r].end()), hows[r] == 1, hows[r] == 2});
  return endings;
}

}  // namespace partita_test
