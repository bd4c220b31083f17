// CUDA's runtime and cuBLASLt as far as devices call them, on a pretended machine. As device/cuda/runtime.hpp.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include <partita/device/cpu/team.hpp>
#include <partita/device/cuda/launcher.hpp>
#include <partita/device/cuda/products.hpp>
#include <partita/ops/gelu.hpp>

#include "machine.hpp"

namespace partita::testing::pretend {

struct cuda {
  enum result { success, not_ready, no_memory, unsupported, no_device, old_driver, failed };
  using stream_type = stream_state*;
  using event_type = event_state*;
  using graph_type = captured_graph*;
  using product_type = on_cuda::product_shape;

  static std::string text(result r) {
    if (r == no_memory) return "out of memory";
    return machine::here().broken() ? machine::here().error() : "failed";
  }
  static result answer() { return machine::here().broken() ? failed : success; }

  static result count_devices(int& n) {
    n = machine::present->size();
    return machine::present->options().driver < toolkit_version ? old_driver : n == 0 ? no_device : success;
  }
  static result versions(int& driver, int& toolkit) {
    driver = machine::present->options().driver;
    toolkit = toolkit_version;
    return success;
  }
  static result set_device(int d) {
    if (d < 0 || d >= machine::present->size()) return failed;
    machine::current = d;
    return success;
  }
  static result allocate(void*& at, std::size_t bytes) {
    if (machine::here().capturing()) machine::here().breaks("memory is allocated while a capture runs");
    at = machine::here().allocate(bytes);
    return at == nullptr ? no_memory : answer();
  }
  static void release(void* at) { machine::here().release(at); }
  static result memory(std::size_t& free, std::size_t& all) {
    free = machine::here().free_bytes();
    all = free + machine::here().used();
    return success;
  }
  static result allocate_host(void*& at, std::size_t bytes) {
    at = ::operator new(bytes);
    std::memset(at, 0xff, bytes);
    return success;
  }
  static void release_host(void* at) { ::operator delete(at); }

  static result create_stream(stream_type& s) {
    s = machine::here().create_stream();
    return success;
  }
  // What it had still to do after a failure is not done: its memory goes next, and who comes after has streams of his own.
  static void destroy_stream(stream_type s) {
    if (s != nullptr) s->queue.clear();
  }
  static result create_event(event_type& e) {
    e = machine::here().create_event();
    return success;
  }
  static void destroy_event(event_type) {}
  static result record(event_type e, stream_type s) {
    machine::here().record(e, s);
    return answer();
  }
  static result record_for_host(event_type e, stream_type s) {
    machine::here().record_for_host(e, s);
    return answer();
  }
  static result wait(stream_type s, event_type e) {
    machine::here().wait(s, e);
    return answer();
  }
  static result query(stream_type s) {
    const bool ended = machine::here().query(s);
    return answer() != success ? failed : ended ? success : not_ready;
  }
  static result query_event(event_type e) {
    const bool completed = machine::here().has_completed(e);
    return answer() != success ? failed : completed ? success : not_ready;
  }
  static result synchronize(stream_type s) {
    machine::here().synchronize(s);
    return answer();
  }

  static result copy_to_device(void* to, void const* from, std::size_t bytes, stream_type s) {
    machine::here().touches(s, {}, {{static_cast<std::byte*>(to), bytes}});
    machine::here().put(s, [=] {
      std::memcpy(to, from, bytes);
      return true;
    });
    return answer();
  }
  static result copy_to_host(void* to, void const* from, std::size_t bytes, stream_type s) {
    machine::here().touches(s, {{static_cast<std::byte const*>(from), bytes}}, {});
    machine::here().put(s, [=] {
      std::memcpy(to, from, bytes);
      return true;
    });
    return answer();
  }
  static result copy_now(void* to, void const* from, std::size_t bytes) {
    machine::here().check_live({static_cast<std::byte*>(to), bytes});
    if (answer() == success) std::memcpy(to, from, bytes);
    return answer();
  }

  static result begin_capture(stream_type s) {
    machine::here().begin_capture(s);
    return answer();
  }
  static result end_capture(stream_type s, graph_type& made) {
    made = machine::here().end_capture(s);
    return answer();
  }
  static void abandon_capture(stream_type) { machine::here().abandon_capture(); }
  static result launch_graph(graph_type g, stream_type s) {
    machine::here().launch(g, s);
    return answer();
  }
  static void destroy_graph(graph_type g) { g->lives = false; }

  struct multiplier_type {};
  static result create_multiplier(multiplier_type&) { return answer(); }
  static void destroy_multiplier(multiplier_type) {}
  static result create_product(multiplier_type, product_type& made, on_cuda::product_shape const& shape, std::size_t) {
    made = shape;
    if (machine::here().fails_product()) machine::here().breaks("no algorithm was found, as it was told to");
    if (!shape.is_plain() && !shape.has_possible_epilogue()) return unsupported;
    if ((shape.adds_bias && (shape.gelu_gradient || shape.sums_rows)) || (shape.sums_rows && !shape.gelu_gradient))
      machine::here().breaks("an epilogue that cuBLASLt does not have");
    return answer();
  }
  static void destroy_product(product_type const&) {}
  static result run_product(multiplier_type, product_type const& ready, on_cuda::product const& p, void*, std::size_t,
                            stream_type s) {
    if (machine::here().fails_multiplication()) machine::here().breaks("a product failed, as it was told to");
    const auto lies = [](void const* at, std::size_t promised) { return reinterpret_cast<std::uintptr_t>(at) % promised == 0; };
    if (!lies(p.bias, ready.aligned_vector) || !lies(p.row_sums, ready.aligned_vector) ||
        !lies(p.before_gelu, ready.aligned_gelu) || !lies(p.gelu_of, ready.aligned_gelu))
      machine::here().breaks("a vector of a product, or what gelu is applied to, is less aligned than was promised");
    else if (shape_of(p) != ready) machine::here().breaks("a product of another shape than it was made ready for");
    machine::here().put(s, [=] {
      if (ready.type == f64) multiply<double>(ready, p);
      else if (ready.type == bf16) multiply<bfloat16>(ready, p);
      else if (ready.type == f16) multiply<float16>(ready, p);
      else multiply<float>(ready, p);
      return true;
    });
    return answer();
  }

  static void begin_range(char const* name) { machine::here().begin_range(name); }
  static void end_range() { machine::here().end_range(); }

  static void* handle(stream_type s) { return s; }
  static result launched() {
    if (machine::here().fails_launch()) machine::here().breaks("a launch failed, as it was told to");
    return machine::here().refuses_launch() ? failed : answer();
  }
  static void touches(stream_type s, std::span<range const> reads, std::span<range const> writes) {
    machine::here().touches(s, {reads.begin(), reads.end()}, {writes.begin(), writes.end()});
  }

 private:
  static constexpr int toolkit_version = 13000;
  // Column-major, as cuBLAS is: c [m, n] = alpha op(b of p) op(a of p) + beta c.
  template <class T> static void multiply(on_cuda::product_shape const& s, on_cuda::product const& p) {
    for (std::size_t i = 0; i < s.batch; ++i)
      multiply(s, p, static_cast<T const*>(p.b) + i * s.next_a, static_cast<T const*>(p.a) + i * s.next_b,
               static_cast<T*>(p.c) + i * s.next_c);
  }
  template <class T>
  static void multiply(on_cuda::product_shape const& s, on_cuda::product const& p, T const* a, T const* b, T* c) {
    using sum = std::conditional_t<std::is_same_v<T, double>, double, float>;
    std::vector<sum> row_sums(s.m);
    for (std::size_t j = 0; j < s.n; ++j)
      for (std::size_t i = 0; i < s.m; ++i) {
        sum total = 0;
        for (std::size_t k = 0; k < s.k; ++k)
          total += a[s.transpose_a ? i * s.lda + k : k * s.lda + i] * b[s.transpose_b ? k * s.ldb + j : j * s.ldb + k];
        T& out = c[j * s.ldc + i];
        total *= static_cast<decltype(total)>(p.alpha);
        total += p.accumulate ? static_cast<decltype(total)>(out) : 0;
        if (p.addend != nullptr) total += static_cast<decltype(total)>(static_cast<T const*>(p.addend)[j * s.ldc + i]);
        if (p.bias != nullptr) total += static_cast<decltype(total)>(static_cast<T const*>(p.bias)[i]);
        if (p.before_gelu != nullptr) {
          static_cast<T*>(p.before_gelu)[j * s.ldc + i] = static_cast<T>(total);
          total = gelu_op::point(total);
        }
        if (p.gelu_of != nullptr)
          total = gelu_gradient_op::point(total, static_cast<sum>(static_cast<T const*>(p.gelu_of)[j * s.ldc + i]));
        out = static_cast<T>(total);
        row_sums[i] += total;
      }
    if (p.row_sums != nullptr)
      for (std::size_t i = 0; i < s.m; ++i) static_cast<T*>(p.row_sums)[i] = static_cast<T>(row_sums[i]);
  }
};

// A block's team on the host: one thread and its vector registers.
struct host_block : on_cpu::team {
  static constexpr bool packs = true;
  template <class T, std::size_t N, int Which> T* shared() const {
    alignas(16) static thread_local T elements[N];
    return elements;
  }
  // As many bytes as were asked for, so that a sanitizer sees what lies beyond; with what the last team left in them.
  std::byte* memory(std::size_t bytes) const {
    struct alignas(128) line {
      std::byte bytes[128];
    };
    static thread_local std::vector<line> lines;
    const std::size_t count = (bytes + sizeof(line) - 1) / sizeof(line);
    if (lines.size() != count) {
      lines = std::vector<line>(count);
      std::memset(static_cast<void*>(lines.data()), 0xff, count * sizeof(line));
    }
    return reinterpret_cast<std::byte*>(lines.data());
  }
  template <bool TurnA, bool TurnB, class T> void multiply_tiles(std::size_t m, std::size_t n, std::size_t k, T const* a,
                                                                 std::size_t lda, T const* b, std::size_t ldb, float* c,
                                                                 std::size_t ldc, bool add) const {
    if (m % 16 != 0 || n % 16 != 0 || k % 16 != 0 || lda % 8 != 0 || ldb % 8 != 0 || ldc % 4 != 0 ||
        reinterpret_cast<std::uintptr_t>(a) % 32 != 0 || reinterpret_cast<std::uintptr_t>(b) % 32 != 0 ||
        reinterpret_cast<std::uintptr_t>(c) % 32 != 0)
      machine::here().breaks("tiles that matrix units do not take");
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < n; ++j) {
        float sum = add ? c[i * ldc + j] : 0.f;
        for (std::size_t e = 0; e < k; ++e)
          sum += static_cast<float>(TurnA ? a[e * lda + i] : a[i * lda + e]) *
                 static_cast<float>(TurnB ? b[j * ldb + e] : b[e * ldb + j]);
        c[i * ldc + j] = sum;
      }
  }
};
static_assert(partita::team<host_block>);

struct launch {
  template <class Op, dtype... In>
  static void run(on_cuda::kernel_arguments const& a, int step, on_cuda::launch_size const& s, void* stream) {
    if (s.memory > (std::size_t{99} << 10)) machine::here().breaks("a block asks for more memory than every device has");
    const unsigned blocks = s.blocks;
    put(stream, blocks, s.threads, [=](std::size_t block) { on_cuda::run_block<Op, host_block, In...>(a, step, block, blocks); });
  }
  template <std::size_t Width, class... Links>
  static void run_chain(on_cuda::chain_arguments const& a, unsigned blocks, unsigned threads, void* stream) {
    put(stream, blocks, threads, [=](std::size_t block) { on_cuda::run_chain<Width, host_block, Links...>(a, block, blocks); });
  }
  static void run_box(on_cuda::box_arguments const& a, unsigned blocks, unsigned threads, void* stream) {
    put(stream, blocks, threads, [=](std::size_t block) { on_cuda::run_box<host_block>(a, block, blocks); });
  }

 private:
  static void put(void* stream, unsigned blocks, unsigned threads, std::function<void(std::size_t)> run_block) {
    device& here = machine::here();
    if (blocks == 0 || threads == 0 || threads > 1024 || threads % 32 != 0)
      here.breaks("a launch of no blocks, or of no whole warps");
    here.put_anew(static_cast<stream_state*>(stream), [=, &here] {
      const bool endless = here.never_ends_launch(), fails = here.fails_kernel();
      return [=, &here] {
        if (endless) return false;
        if (fails) {
          here.breaks("a kernel failed, as it was told to");
          return false;
        }
        std::vector<std::size_t> order(blocks);
        std::iota(order.begin(), order.end(), std::size_t{0});
        std::shuffle(order.begin(), order.end(), here.random());
        for (std::size_t block : order) run_block(block);
        return true;
      };
    });
  }
};

using backend = on_cuda::backend<launch>;

}  // namespace partita::testing::pretend
