// A CUDA graph of what is put into a stream, and into those that join it, between begin and finish.
#pragma once
#include <utility>

#include <partita/device/cuda/checked.hpp>

namespace partita::on_cuda {

// Made and ended on its device's thread. `into` outlives it.
template <class Api> class captured_graph {
 public:
  explicit captured_graph(stream<Api> const& into) : into_(&into) {}
  captured_graph(captured_graph const&) = delete;
  captured_graph& operator=(captured_graph const&) = delete;
  ~captured_graph() { end(); }

  bool is_made() const { return is_made_; }
  bool is_open() const { return open_; }

  void begin() {
    check<Api>(Api::begin_capture(into_->get()), "capturing a step");
    open_ = true;
  }
  void finish() {
    open_ = false;
    check<Api>(Api::end_capture(into_->get(), made_), "capturing a step");
    is_made_ = true;
  }
  void launch() { check<Api>(Api::launch_graph(made_, into_->get()), "launching a step"); }
  // Also where something has failed between begin and finish, after which the stream would take no other work. A graph that
  // runs goes on, and is freed when it has ended.
  void end() {
    if (std::exchange(open_, false)) Api::abandon_capture(into_->get());
    if (std::exchange(is_made_, false)) Api::destroy_graph(made_);
  }

 private:
  stream<Api> const* into_;
  bool open_ = false, is_made_ = false;
  typename Api::graph_type made_{};
};

}  // namespace partita::on_cuda
