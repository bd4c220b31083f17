// A communicator whose ranks are devices of several processes, each with a pretended machine of its own. What a rank brings to a
// collective, and what one sends another, is a file in a folder that all see: slow, and enough for a few steps.
#pragma once
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include <partita/core/words.hpp>

#include "shared_comm.hpp"

namespace partita::testing::pretend {

class comm_over_files final : public shared_comm {
 public:
  comm_over_files(int ranks, std::string const& folder, std::uint64_t id)
      : shared_comm(ranks), begin_(words({folder, "/", id, "."})) {}

  bool join(int rank) override {
    write(words({"join.", rank}), {});
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    for (int r = 0; r < ranks_; ++r)
      while (!has(words({"join.", r}))) {
        if (std::chrono::steady_clock::now() > end) return false;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
    return true;
  }
  void arrive(std::uint64_t number, int rank, nccl_call const& c) override {
    write(words({number, ".", rank}), file_of(c, bytes_brought(c, rank)));
    const std::scoped_lock lock(mutex_);
    open_[{number, rank}] = c;
  }
  bool has_ended(std::uint64_t number, int rank) override {
    const std::scoped_lock lock(mutex_);
    const auto mine = open_.find({number, rank});
    if (mine == open_.end()) return true;
    for (int r = 0; r < ranks_; ++r)
      if (!has(words({number, ".", r}))) return later();
    std::vector<std::string> files;
    std::vector<std::vector<std::byte>> results;
    std::vector<std::optional<nccl_call>> all;
    for (int r = 0; r < ranks_; ++r) {
      files.push_back(read(words({number, ".", r})));
      all.push_back(call_of(files.back()));
      if (!agrees(*all.back(), mine->second)) return false;
      all.back()->from = files.back().data() + sizeof(nccl_call);
      results.emplace_back(bytes_taken(mine->second));
      all.back()->to = r == rank ? mine->second.to : results.back().data();
    }
    run(all);
    open_.erase(mine);
    return true;
  }
  void arrive(int from, int to, std::uint64_t number, nccl_call const& c) override {
    const std::string name = name_of(from, to, number);
    if (c.kind == call_kind::send) return write(name, file_of(c, c.count));
    const std::scoped_lock lock(mutex_);
    receives_[name] = c;
  }
  bool has_ended(int from, int to, std::uint64_t number, bool sends) override {
    const std::string name = name_of(from, to, number);
    if (sends) return has(name + ".taken") || later();
    const std::scoped_lock lock(mutex_);
    const auto mine = receives_.find(name);
    if (mine == receives_.end()) return true;
    if (!has(name)) return later();
    const std::string file = read(name);
    if (!fit(call_of(file), mine->second)) return false;
    std::memcpy(mine->second.to, file.data() + sizeof(nccl_call), mine->second.count);
    receives_.erase(mine);
    write(name + ".taken", {});
    return true;
  }

 private:
  static std::string name_of(int from, int to, std::uint64_t number) { return words({"from.", from, ".", to, ".", number}); }
  std::size_t bytes_brought(nccl_call const& c, int rank) const {
    if (c.kind == call_kind::broadcast && rank != c.peer) return 0;
    return c.count * size_of(c.type) * (c.kind == call_kind::reduce_scatter ? static_cast<std::size_t>(ranks_) : 1);
  }
  std::size_t bytes_taken(nccl_call const& c) const {
    return c.count * size_of(c.type) * (c.kind == call_kind::all_gather ? static_cast<std::size_t>(ranks_) : 1);
  }
  static std::string file_of(nccl_call const& c, std::size_t bytes) {
    std::string file(reinterpret_cast<char const*>(&c), sizeof c);
    if (bytes > 0) file.append(static_cast<char const*>(c.from), bytes);
    return file;
  }
  static nccl_call call_of(std::string const& file) {
    nccl_call c;
    file.copy(reinterpret_cast<char*>(&c), sizeof c);
    return c;
  }
  // Who asks again and again leaves the core to those it waits for.
  static bool later() {
    std::this_thread::sleep_for(std::chrono::microseconds(200));
    return false;
  }
  bool has(std::string const& name) const { return std::filesystem::exists(begin_ + name); }
  // Whole or not at all.
  void write(std::string const& name, std::string const& bytes) const {
    const std::string path = begin_ + name;
    std::ofstream(path + ".new", std::ios::binary) << bytes;
    std::filesystem::rename(path + ".new", path);
  }
  std::string read(std::string const& name) const {
    std::ifstream in(begin_ + name, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  std::string begin_;  // of the names of all files
  std::map<std::pair<std::uint64_t, int>, nccl_call> open_;
  std::map<std::string, nccl_call> receives_;
};

}  // namespace partita::testing::pretend
