// Maxima between devices: on GPUs, whose library drops what is not a number, they are those of the CPU's ranks.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include <partita/device/cuda/keys.hpp>
#include <partita/train/cuda_devices.hpp>
#include <partita/train/thread_devices.hpp>

#include "../support/buffer.hpp"
#include "../support/pretend/cuda.hpp"
#include "../support/pretend/nccl.hpp"
#include "hand_made.hpp"

namespace pt = partita;
using namespace pt::testing;
using partita_test::program_maker;
using kind = pt::instruction_kind;

namespace {
constexpr double nan_value = std::numeric_limits<double>::quiet_NaN(), infinite = std::numeric_limits<double>::infinity();

// Three ranks; each has 9 numbers, of which the largest of all go to all, and uneven parts of them to each.
const std::vector<std::size_t> parts{4, 3, 2};
std::vector<std::vector<double>> given() {
  return {{1, -2, nan_value, -infinite, 0, 1e30, nan_value, -1.5, 3},
          {-1, -3, 2, -infinite, -0.0, infinite, nan_value, -1.25, -4},
          {0.5, -2.5, 7, -1e-30, -1, nan_value, nan_value, -8, 5}};
}
pt::program program_of(int rank, pt::dtype type) {
  program_maker m(rank, {{0, 1, 2}});
  const int all = m.buffer(9, type, 0), part = m.buffer(parts[static_cast<std::size_t>(rank)], type, 1),
            sent = m.buffer(9, type, 2);
  for (int b : {all, sent}) {
    m.at(b).from_start = true;
    m.made.inputs.push_back(m.seen(b, 0));
  }
  m.all_reduce(0, all, pt::reduction::max);
  m.collective(kind::reduce_scatter, 0, sent, part, {4, 3, 2}, pt::reduction::max);
  for (int b : {all, part, sent}) {
    m.at(b).to_end = true;
    m.made.outputs.push_back(m.seen(b, 0));
  }
  pt::plan_memory(m.made);
  return m.made;
}
// What every rank has at the end: all, its part, and what it sent, which is as it was.
std::vector<std::vector<double>> results(pt::local_devices& devices, pt::dtype type) {
  for (int rank = 0; rank < 3; ++rank) {
    buffer whole(type, 9);
    for (std::size_t i = 0; i < 9; ++i) whole.set(i, given()[static_cast<std::size_t>(rank)][i]);
    for (pt::outside const& o : devices.what(0, rank).inputs) devices.write(0, rank, o, type, whole.data());
  }
  devices.run(0, {});
  std::vector<std::vector<double>> all;
  for (int rank = 0; rank < 3; ++rank)
    for (pt::outside const& o : devices.what(0, rank).outputs) {
      buffer whole(type, o.extents[0]);
      devices.read(0, rank, o, type, whole.data());
      all.push_back(whole.values());
    }
  return all;
}
bool same(std::vector<double> const& a, std::vector<double> const& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i)
    if (!(a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i])))) return false;
  return true;
}
template <class T> void check_order(std::vector<T> const& ascending) {
  for (std::size_t i = 0; i + 1 < ascending.size(); ++i)
    CHECK(pt::on_cuda::key_of(ascending[i]) < pt::on_cuda::key_of(ascending[i + 1]));
  for (T x : ascending)
    CHECK(std::memcmp(&x, std::vector<T>{pt::on_cuda::of_key<T>(pt::on_cuda::key_of(x))}.data(), sizeof x) == 0);
  const T none = T(std::numeric_limits<float>::quiet_NaN());
  CHECK(pt::on_cuda::key_of(none) > pt::on_cuda::key_of(ascending.back()));
  CHECK(pt::on_cuda::key_of(T(-std::numeric_limits<float>::quiet_NaN())) == pt::on_cuda::key_of(none));
  const T back = pt::on_cuda::of_key<T>(pt::on_cuda::key_of(none));
  CHECK(back != back);
}
}  // namespace

TEST_CASE("keys are integers in the order of their numbers; that of what is not a number is the largest") {
  check_order<float>({-INFINITY, -3e38f, -1, -1e-40f, -0.0f, 0, 1e-45f, 1e-3f, 1, 3e38f, INFINITY});
  check_order<double>({-infinite, -1e300, -1, -5e-324, -0.0, 0, 5e-324, 1, 1e300, infinite});
  std::vector<pt::bfloat16> narrow;
  for (float x : {-INFINITY, -256.0f, -1.0f, -0.0f, 0.0f, 0.5f, 1.0f, INFINITY}) narrow.push_back(pt::bfloat16(x));
  check_order<pt::bfloat16>(narrow);
}

TEST_CASE("maxima between pretended GPUs are those between threads, where one has what is not a number, too") {
  for (pt::dtype type : {pt::f32, pt::f64, pt::bf16}) {
    CAPTURE(name_of(type));
    pt::graph_data graph;
    const pt::list<pt::program> programs{program_of(0, type), program_of(1, type), program_of(2, type)};
    pt::on_cpu::thread_devices threads({.devices = 3, .threads = 1, .lanes = 1}, graph, {}, {}, {programs});
    const pretend::machine machine({.devices = 3});
    pt::one_process alone;
    pt::on_cuda::cuda_devices<pretend::cuda, pretend::nccl> gpus(
        {.timeout_seconds = 20}, graph, {{}, &pretend::launch::run_box, {}}, {}, {programs}, {0, 1, 2}, 3, alone);
    const auto wanted = results(threads, type), have = results(gpus, type);
    REQUIRE(wanted.size() == 9);
    CHECK(std::isnan(wanted[0][2]));
    CHECK(wanted[0][3] == doctest::Approx(-1e-30).epsilon(0.01));
    CHECK(std::isnan(wanted[1][2]));  // element 2 is rank 0's
    for (std::size_t k = 0; k < wanted.size(); ++k) {
      CAPTURE(k);
      CHECK(same(wanted[k], have[k]));
    }
  }
}
