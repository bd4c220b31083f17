// A machine with GPUs that does not exist: device memory is the host's, streams are queues that are worked off late and in
// an order that a seed draws, kernels run block by block in a shuffled order. What on a GPU would go wrong at times is an
// error here, always: two streams that use the same memory without an event between them, memory used after it was freed,
// streams that wait in a circle; in a capture, work in a stream that has not joined it or does not come back, and events that
// are both the graph's own and asked for by the host.
#pragma once
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <partita/core/words.hpp>
#include <partita/device/cuda/tasks.hpp>

namespace partita::testing::pretend {

using range = on_cuda::memory_range;
using vector_clock = std::vector<std::uint64_t>;  // by stream of the device

struct stream_state;
struct event_state {
  std::uint64_t recorded = 0, completed = 0;  // how often
  vector_clock clock;                         // what came before the last record
  vector_clock captured_clock;                // the same, in a capture
  bool is_of_graph = false;                   // last recorded in a capture, for its streams alone
};
struct stream_state {
  int number = 0;
  std::deque<std::function<bool()>> queue;  // each says whether it has ended
  vector_clock clock;
  vector_clock captured_clock;  // counts what a capture takes
};
struct captured_graph {
  std::vector<std::function<void()>> work;
  std::set<void const*> used;  // communicators whose calls are in it
  stream_state* origin = nullptr;
  bool lives = true;
};

inline void merge(vector_clock& into, vector_clock const& other) {
  into.resize(std::max(into.size(), other.size()));
  for (std::size_t s = 0; s < other.size(); ++s) into[s] = std::max(into[s], other[s]);
}

struct machine_options {
  int devices = 1;
  unsigned seed = 1;
  std::size_t memory_bytes = std::size_t{1} << 30;  // of a device
  int failing_allocation = -1;                      // the number, from 0, of the allocation of device 0 that fails
  int failing_launch = -1;                          // of device 0
  int refused_launch = -1;                          // of device 0, which then goes on
  int failing_collective = -1;                      // of device 0: told when it begins
  int late_failing_collective = -1;                 // of device 0: told to it alone, when it has ended
  int refused_call = -1;                            // of device 0: NCCL does not take it
  int endless_launch = -1;                          // of device 0: never ends
  int failing_kernel = -1;                          // of device 0: fails when it runs, after its launch was taken
  int failing_product = -1;                         // of device 0: cuBLASLt does not make it ready
  int failing_multiplication = -1;                  // of device 0: cuBLASLt does not put it into a stream
  int failing_communicator = -1;                    // of device 0
  int absent_device = -1;                           // waits for ever where it makes a communicator, so that others wait for it
  int endless_group = -1;                           // of NCCL's calls of device 0: its end does not return
  int endless_abort = -1;                           // of NCCL's communicators of device 0: its end does not return
  int driver = 13000;                               // the CUDA that the driver is for; 0: no driver
  int nccl_version = 22809;                         // of the library that is loaded
};

class device {
 public:
  device(int number, machine_options const& options)
      : number_(number), options_(options), random_(options.seed * 977 + static_cast<unsigned>(number)) {}

  std::string const& error() const { return error_; }
  bool broken() const { return !error_.empty(); }
  void breaks(std::string why) {
    if (error_.empty()) error_ = std::move(why);
  }

  // --- memory
  void* allocate(std::size_t bytes) {
    if (number_ == 0 && allocations_made_++ == options_.failing_allocation) return nullptr;
    if (used_ + bytes > options_.memory_bytes) return nullptr;
    auto made = std::make_unique<allocation>();
    made->words.assign((bytes + sizeof(block) - 1) / sizeof(block), block{});
    std::memset(made->words.data(), 0xff, made->words.size() * sizeof(block));  // what is read before it is written shows
    made->bytes = bytes;
    void* const at = made->words.data();
    used_ += bytes;
    memory_[reinterpret_cast<std::byte*>(at)] = std::move(made);
    return at;
  }
  void release(void* at) {
    const auto found = memory_.find(static_cast<std::byte*>(at));
    if (found == memory_.end() || found->second->freed) return breaks("memory was freed that is not held");
    found->second->freed = true;  // kept, so that a late use reads poison and not somebody else's numbers
    std::memset(at, 0xff, found->second->words.size() * sizeof(block));
    used_ -= found->second->bytes;
  }
  // As a mistake would: what is done with any of it afterwards is one.
  void release_all() {
    for (auto& each : memory_) each.second->freed = true;
  }
  std::size_t used() const { return used_; }
  std::size_t free_bytes() const { return options_.memory_bytes - used_; }
  void check_live(range const& r) {
    if (r.bytes == 0) return;
    auto after = memory_.upper_bound(const_cast<std::byte*>(r.begin));
    if (after != memory_.begin()) {
      auto const& [at, held] = *--after;
      if (r.begin + r.bytes <= at + held->bytes) {
        if (held->freed) breaks("memory is used after it was freed");
        return;
      }
    }
    breaks("memory is used that was never allocated on this device");
  }

  // --- streams
  stream_state* create_stream() {
    streams_.push_back(std::make_unique<stream_state>());
    streams_.back()->number = static_cast<int>(streams_.size()) - 1;
    return streams_.back().get();
  }
  event_state* create_event() {
    events_.push_back(std::make_unique<event_state>());
    return events_.back().get();
  }

  // Does it now, or writes it down while a capture runs.
  void issue(stream_state* s, std::function<void()> what) {
    if (capturing_ == nullptr) return what();
    if (!has_joined(s)) breaks("work goes into a stream that has not joined the capture");
    tick(s->captured_clock, s);
    graph_.work.push_back(std::move(what));
  }
  void record(event_state* e, stream_state* s) {
    e->is_of_graph = capturing_ != nullptr && has_joined(s);
    put_record(e, s);
    if (e->is_of_graph) captured_events_.push_back(e);
    e->captured_clock = s->captured_clock;
  }
  // A node of a graph, which the host may ask for.
  void record_for_host(event_state* e, stream_state* s) {
    if (capturing_ == nullptr) return breaks("an event is recorded as a node of a graph outside of a capture");
    std::erase(captured_events_, e);
    e->is_of_graph = false;
    put_record(e, s);
  }
  bool has_completed(event_state const* e) {
    if (e->is_of_graph) breaks("the host asks for an event that is a graph's own");
    return e->completed == e->recorded;
  }
  void put_record(event_state* e, stream_state* s) {
    issue(s, [=] {
      tick(s);
      e->clock = s->clock;
      const std::uint64_t mine = ++e->recorded;
      s->queue.push_back([=] {
        e->completed = std::max(e->completed, mine);
        return true;
      });
    });
  }
  void wait(stream_state* s, event_state* e) {
    if (capturing_ != nullptr) {
      if (std::find(captured_events_.begin(), captured_events_.end(), e) == captured_events_.end())
        breaks("a capture waits for an event from outside it");
      else if (!has_joined(s)) joined_.push_back(s);
      merge(s->captured_clock, e->captured_clock);
    } else if (e->is_of_graph) {
      breaks("a stream waits for an event that is a graph's own");
    }
    issue(s, [=] {
      merge(s->clock, e->clock);
      const std::uint64_t wanted = e->recorded;
      s->queue.push_back([=] { return e->completed >= wanted; });
    });
  }
  void put(stream_state* s, std::function<bool()> what) {
    put_anew(s, [=] { return what; });
  }
  // `make` gives what is done: for each launch of a graph another.
  void put_anew(stream_state* s, std::function<std::function<bool()>()> make) {
    issue(s, [=] {
      tick(s);
      s->queue.push_back(make());
    });
  }
  // What is put next into the stream reads and writes these: ordered after all that others do with them?
  void touches(stream_state* s, std::vector<range> const& reads, std::vector<range> const& writes) {
    issue(s, [=, this] {
      tick(s);
      for (range const& r : reads) access(s, r, false);
      for (range const& r : writes) access(s, r, true);
      s->queue.push_back([=, this] {
        for (range const& r : reads) check_live(r);
        for (range const& r : writes) check_live(r);
        return true;
      });
    });
  }

  // --- capture
  void begin_capture(stream_state* s) {
    if (capturing_ != nullptr) return breaks("a capture begins in another");
    capturing_ = s;
    joined_ = {s};
    captured_events_.clear();
    graph_ = {};
    for (auto const& each : streams_) each->captured_clock.clear();
  }
  // None where something has gone wrong.
  captured_graph* end_capture(stream_state* s) {
    if (capturing_ != s) breaks("a capture ends that has not begun");
    for (stream_state* each : joined_)
      if (at(s->captured_clock, each->number) < at(each->captured_clock, each->number))
        breaks("a capture ends before all of its streams have come back");
    abandon_capture();
    if (broken()) return nullptr;
    graphs_.push_back(std::make_unique<captured_graph>(std::exchange(graph_, {})));
    graphs_.back()->origin = s;
    return graphs_.back().get();
  }
  void abandon_capture() { capturing_ = nullptr; }
  bool capturing() const { return capturing_ != nullptr; }
  void captures_call_of(void const* communicator) {
    if (capturing()) graph_.used.insert(communicator);
  }
  bool is_in_graph(void const* communicator) const {
    return std::any_of(graphs_.begin(), graphs_.end(),
                       [&](auto const& each) { return each->lives && each->used.contains(communicator); });
  }
  void launch(captured_graph const* g, stream_state* s) {
    if (g == nullptr || !g->lives) return breaks("a graph is launched that was destroyed");
    if (g->origin != s) return breaks("a graph is launched into another stream than it was captured in");
    ++graphs_launched_;
    for (auto const& each : g->work) each();
  }
  int graphs_launched() const { return graphs_launched_; }

  // --- ranges: those that are open, and every one that was, with those around it
  void begin_range(std::string const& name) {
    ranges_.push_back(ranges_.empty() ? name : ranges_.back() + "/" + name);
    ranges_seen_.insert(ranges_.back());
  }
  void end_range() {
    if (ranges_.empty()) return breaks("a range ends that has not begun");
    ranges_.pop_back();
  }
  std::size_t open_ranges() const { return ranges_.size(); }
  std::set<std::string> const& ranges_seen() const { return ranges_seen_; }

  // --- the passing of time
  // A few turns of a stream that is drawn. Says whether all of `s` has ended.
  bool query(stream_state* s, int turns = 16) {
    if (capturing()) breaks("a host asks a stream while a capture runs");
    while (turns-- > 0 && !s->queue.empty() && !broken()) turn();
    if (!s->queue.empty()) return false;
    merge(host_, s->clock);
    std::erase_if(history_, [&](access_record const& r) { return r.time <= at(host_, r.stream); });
    for (auto const& each : streams_) merge(each->clock, host_);
    return true;
  }
  // Works until the stream has ended.
  void synchronize(stream_state* s) {
    const auto begin = std::chrono::steady_clock::now();
    while (!broken() && !query(s)) {
      if (std::chrono::steady_clock::now() - begin > std::chrono::seconds(20))
        breaks("a stream never ends: streams wait in a circle");
      std::this_thread::yield();
    }
  }
  std::mt19937& random() { return random_; }
  bool fails_collective() { return number_ == 0 && collectives_failed_++ == options_.failing_collective; }
  bool fails_collective_late() { return number_ == 0 && collectives_failed_late_++ == options_.late_failing_collective; }
  bool refuses_call() { return number_ == 0 && calls_made_++ == options_.refused_call; }
  int calls_made() const { return calls_made_; }
  int kernels_begun() const { return endless_launches_; }
  bool never_ends_launch() { return number_ == 0 && endless_launches_++ == options_.endless_launch; }
  bool fails_kernel() { return number_ == 0 && kernels_failed_++ == options_.failing_kernel; }
  bool fails_product() { return number_ == 0 && products_failed_++ == options_.failing_product; }
  bool fails_multiplication() { return number_ == 0 && multiplications_failed_++ == options_.failing_multiplication; }
  bool fails_communicator() { return number_ == 0 && communicators_failed_++ == options_.failing_communicator; }
  bool never_ends_group() { return number_ == 0 && endless_groups_++ == options_.endless_group; }
  bool never_ends_abort() { return number_ == 0 && endless_aborts_++ == options_.endless_abort; }
  bool is_absent() const { return number_ == options_.absent_device; }
  int launches_made() const { return launches_made_; }
  bool refuses_launch() const { return number_ == 0 && launches_made_ - 1 == options_.refused_launch; }
  bool fails_launch() { return number_ == 0 && launches_made_++ == options_.failing_launch; }

 private:
  struct alignas(256) block {
    std::byte bytes[256];
  };
  struct allocation {
    std::vector<block> words;
    std::size_t bytes = 0;
    bool freed = false;
  };
  struct access_record {
    range where;
    int stream;
    std::uint64_t time;
    bool write;
  };
  static std::uint64_t at(vector_clock const& c, int stream) {
    return static_cast<std::size_t>(stream) < c.size() ? c[static_cast<std::size_t>(stream)] : 0;
  }
  bool has_joined(stream_state const* s) const { return std::find(joined_.begin(), joined_.end(), s) != joined_.end(); }
  static void tick(stream_state* s) { tick(s->clock, s); }
  static void tick(vector_clock& clock, stream_state const* s) {
    clock.resize(std::max(clock.size(), static_cast<std::size_t>(s->number) + 1));
    ++clock[static_cast<std::size_t>(s->number)];
  }
  void access(stream_state* s, range const& r, bool write) {
    if (r.bytes == 0) return;
    check_live(r);
    for (access_record const& before : history_) {
      if (before.stream == s->number || (!write && !before.write) || before.time <= at(s->clock, before.stream)) continue;
      if (before.where.begin < r.begin + r.bytes && r.begin < before.where.begin + before.where.bytes)
        breaks(words({"stream ", s->number, write ? " writes" : " reads", " what stream ", before.stream,
                      before.write ? " writes" : " reads", ", and waits for no event between"}));
    }
    history_.push_back({r, s->number, at(s->clock, s->number), write});
  }
  void turn() {
    std::vector<stream_state*> waiting;
    for (auto const& s : streams_)
      if (!s->queue.empty()) waiting.push_back(s.get());
    if (waiting.empty()) return;
    stream_state* const s = waiting[random_() % waiting.size()];
    if (s->queue.front()()) s->queue.pop_front();
  }

  int number_;
  machine_options options_;
  std::mt19937 random_;
  std::string error_;
  std::map<std::byte*, std::unique_ptr<allocation>> memory_;
  std::size_t used_ = 0;
  int allocations_made_ = 0, launches_made_ = 0, collectives_failed_ = 0, collectives_failed_late_ = 0;
  int endless_launches_ = 0, kernels_failed_ = 0, calls_made_ = 0;
  int products_failed_ = 0, multiplications_failed_ = 0, communicators_failed_ = 0, endless_groups_ = 0;
  int endless_aborts_ = 0;
  std::vector<std::unique_ptr<stream_state>> streams_;
  std::vector<std::unique_ptr<event_state>> events_;
  std::vector<access_record> history_;
  std::vector<std::string> ranges_;
  std::set<std::string> ranges_seen_;
  vector_clock host_;  // what the host knows to have ended
  stream_state* capturing_ = nullptr;
  std::vector<stream_state*> joined_;
  std::vector<event_state*> captured_events_;
  captured_graph graph_;
  std::vector<std::unique_ptr<captured_graph>> graphs_;
  int graphs_launched_ = 0;
};

// One at a time: what the pretended libraries, which are static functions as the real ones are, work on.
class machine {
 public:
  explicit machine(machine_options const& options = {}) : options_(options) {
    for (int d = 0; d < options.devices; ++d) devices_.push_back(std::make_unique<device>(d, options));
    present = this;
  }
  machine(machine const&) = delete;
  machine& operator=(machine const&) = delete;
  ~machine() { present = nullptr; }

  int size() const { return options_.devices; }
  device& at(int d) { return *devices_[static_cast<std::size_t>(d)]; }
  machine_options const& options() const { return options_; }

  // As if the process ended: what waits for ever comes back. With what it said last.
  void end_process(std::string const& why) {
    const std::scoped_lock lock(mutex_);
    if (last_words_.empty()) last_words_ = why;
    changed_.notify_all();
  }
  std::string last_words() const {
    const std::scoped_lock lock(mutex_);
    return last_words_;
  }
  void wait_for_end() const {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::seconds(20), [&] { return !last_words_.empty(); });
  }

  inline static machine* present = nullptr;
  inline static thread_local int current = 0;
  static device& here() { return present->at(current); }

 private:
  machine_options options_;
  std::vector<std::unique_ptr<device>> devices_;
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  std::string last_words_;
};

}  // namespace partita::testing::pretend
