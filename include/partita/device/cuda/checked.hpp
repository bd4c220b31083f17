// What the calls of CUDA's libraries answer, as exceptions.
#pragma once
#include <string_view>
#include <utility>

#include <partita/core/words.hpp>

namespace partita::on_cuda {

// Throws error where a call did not succeed; `what` is what was wanted.
template <class Api> void check(typename Api::result answer, std::string_view what) {
  if (answer != Api::success) throw_error({what, ": ", Api::text(answer)});
}

// The devices of this machine: none where it has no driver or no device. Throws error where its driver is too old for the
// program, which says both versions.
template <class Api> int count_devices() {
  int count = 0;
  const auto answer = Api::count_devices(count);
  if (answer == Api::success) return count;
  if (answer == Api::no_device) return 0;
  if (answer != Api::old_driver) check<Api>(answer, "looking for CUDA devices");
  int driver = 0, toolkit = 0;
  check<Api>(Api::versions(driver, toolkit), "looking for CUDA's driver");
  if (driver == 0) return 0;
  auto version = [](int n) { return words({n / 1000, ".", n / 10 % 100}); };
  throw_error({"the machine's driver is for CUDA ", version(driver), ", the program was built with CUDA ", version(toolkit),
               ": install a driver for that or a newer one, or build the program with an older toolkit"});
}

// Something that an api makes and destroys: a stream, an event. Made and ended on its device's thread.
template <class Api> class stream {
 public:
  stream() { check<Api>(Api::create_stream(made_), "a stream"); }
  stream(stream const&) = delete;
  stream& operator=(stream const&) = delete;
  ~stream() { Api::destroy_stream(made_); }
  typename Api::stream_type get() const { return made_; }

 private:
  typename Api::stream_type made_{};
};
template <class Api> class event {
 public:
  event() { check<Api>(Api::create_event(made_), "an event"); }
  event(event&& other) noexcept : made_(std::exchange(other.made_, {})), owned_(std::exchange(other.owned_, false)) {}
  event& operator=(event&&) = delete;
  ~event() {
    if (owned_) Api::destroy_event(made_);
  }
  typename Api::event_type get() const { return made_; }

 private:
  typename Api::event_type made_{};
  bool owned_ = true;
};

}  // namespace partita::on_cuda
