// NCCL as communicators call it: the `Library` of nccl_communicator. A test's has the same functions.
#pragma once
#include <cuda_runtime.h>
#include <nccl.h>

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <partita/comm/nccl/world.hpp>
#include <partita/core/words.hpp>

namespace partita::on_cuda {

static_assert(sizeof(ncclUniqueId) == sizeof(unique_id_bytes));

struct nccl_library {
  using result = ncclResult_t;
  using comm_type = ncclComm_t;
  using stream_type = cudaStream_t;
  static constexpr result success = ncclSuccess;
  static constexpr int headers_version = NCCL_VERSION_CODE;

  // With what NCCL itself last had to say.
  static std::string text(result r) {
    char const* const more = ncclGetLastError(nullptr);
    return more != nullptr && *more != '\0' ? words({ncclGetErrorString(r), " (", more, ")"})
                                            : std::string(ncclGetErrorString(r));
  }

  static result loaded_version(int& version) { return ncclGetVersion(&version); }
  // Where a call will never return.
  [[noreturn]] static void end_process(std::string const& why) {
    (void)std::fprintf(stderr, "%s\n", why.c_str());
    (void)std::fflush(stderr);
    std::_Exit(1);
  }

  static result make_unique_id(unique_id_bytes& id) {
    ncclUniqueId made;
    const result answer = ncclGetUniqueId(&made);
    std::memcpy(id.data(), &made, sizeof made);
    return answer;
  }
  static result create(comm_type& made, int ranks, unique_id_bytes const& id, int rank) {
    ncclUniqueId given;
    std::memcpy(&given, id.data(), sizeof given);
    return ncclCommInitRank(&made, ranks, given, rank);
  }
  static void destroy(comm_type c) { (void)ncclCommDestroy(c); }
  static void abort(comm_type c) { (void)ncclCommAbort(c); }
  static result asynchronous_error(comm_type c) {
    result found = ncclSuccess;
    const result answer = ncclCommGetAsyncError(c, &found);
    return answer != ncclSuccess ? answer : found == ncclInProgress ? ncclSuccess : found;
  }

  static result group_start() { return ncclGroupStart(); }
  static result group_end() { return ncclGroupEnd(); }
  static result all_reduce(void const* from, void* to, std::size_t n, dtype type, reduction how, comm_type c, stream_type s) {
    return ncclAllReduce(from, to, n, type_of(type, how), how_of(how), c, s);
  }
  static result all_gather(void const* from, void* to, std::size_t n, dtype type, comm_type c, stream_type s) {
    return ncclAllGather(from, to, n, type_of(type), c, s);
  }
  static result reduce_scatter(void const* from, void* to, std::size_t n, dtype type, reduction how, comm_type c, stream_type s) {
    return ncclReduceScatter(from, to, n, type_of(type, how), how_of(how), c, s);
  }
  static result broadcast(void const* from, void* to, std::size_t n, dtype type, int root, comm_type c, stream_type s) {
    return ncclBroadcast(from, to, n, type_of(type), root, c, s);
  }
  static result reduce(void const* from, void* to, std::size_t n, dtype type, reduction how, int root, comm_type c,
                       stream_type s) {
    return ncclReduce(from, to, n, type_of(type, how), how_of(how), root, c, s);
  }
  static result send(void const* from, std::size_t bytes, int peer, comm_type c, stream_type s) {
    return ncclSend(from, bytes, ncclInt8, peer, c, s);
  }
  static result receive(void* to, std::size_t bytes, int peer, comm_type c, stream_type s) {
    return ncclRecv(to, bytes, ncclInt8, peer, c, s);
  }

 private:
  static ncclDataType_t type_of(dtype type) {
    switch (type) {
      case dtype::f64: return ncclFloat64;
      case dtype::bf16: return ncclBfloat16;
      case dtype::f16: return ncclFloat16;
      case dtype::i32: return ncclInt32;
      default: return ncclFloat32;
    }
  }
  // A maximum is one of keys.
  static ncclDataType_t type_of(dtype type, reduction how) {
    return how == reduction::sum ? type_of(type) : type == dtype::f64 ? ncclInt64 : ncclInt32;
  }
  static ncclRedOp_t how_of(reduction how) { return how == reduction::sum ? ncclSum : ncclMax; }
};

}  // namespace partita::on_cuda
