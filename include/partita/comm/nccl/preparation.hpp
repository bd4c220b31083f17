// What a process does before the first communicator of NCCL: variables are set that NCCL reads, versions are compared.
#pragma once
#include <cstdlib>
#include <string>

#include <partita/core/words.hpp>

namespace partita {

// NCCL reads these in every process, when its first communicator is made; what the user has set stays. Several communicators of
// one device, whose launches keep the program's order. Calls in a CUDA graph go as those outside, and need no more than the first
// step has connected: NCCL would tell other ranks of their buffers, and may take other algorithms then.
inline void set_nccl_variables() {
  (void)setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
  (void)setenv("NCCL_GRAPH_REGISTER", "0", 0);
}

// As NCCL_VERSION in nccl.h numbers them: 22809 is 2.28.9, and up to 2.8 2804 is 2.8.4.
inline int major_of_nccl(int version) { return version < 10000 ? version / 1000 : version / 10000; }
inline std::string words_of_nccl(int version) {
  return words({major_of_nccl(version), ".", version < 10000 ? version / 100 % 10 : version / 100 % 100, ".", version % 100});
}
// Throws error where the library that was loaded is older than the headers, or has another interface. A newer one does what
// the headers promise.
inline void check_nccl_version(int loaded, int headers) {
  if (loaded >= headers && major_of_nccl(loaded) == major_of_nccl(headers)) return;
  throw_error({"NCCL ", words_of_nccl(loaded), " is loaded, the program was built with the headers of ", words_of_nccl(headers),
               ": let it load a ", major_of_nccl(headers), ".x that is not older (LD_LIBRARY_PATH), or build it with the NCCL ",
               "that the machine has"});
}

// Of all that calls NCCL, first; as often as one likes.
template <class Library> void prepare_nccl() {
  set_nccl_variables();
  int loaded = 0;
  if (const auto answer = Library::loaded_version(loaded); answer != Library::success)
    throw_error({"ncclGetVersion: ", Library::text(answer)});
  check_nccl_version(loaded, Library::headers_version);
}

}  // namespace partita
