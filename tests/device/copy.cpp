#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include <partita/device/cpu/finite.hpp>
#include <partita/device/cpu/outside.hpp>

namespace pt = partita;

namespace {

struct random_box {
  pt::box_copy box;
  std::size_t from_size = 1, to_size = 1;  // elements

  random_box(std::mt19937& random, int rank, std::size_t most) {
    auto below = [&](std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random); };
    box.rank = rank;
    std::size_t from = 1, to = 1;
    for (int d = rank - 1; d >= 0; --d) {
      box.extents[d] = below(12) == 0 ? 0 : below(3) == 0 ? 1 : 1 + below(most);
      box.from_strides[d] = from;
      box.to_strides[d] = to;
      // the array that the box lies in is as wide, or wider
      from *= std::max<std::size_t>(1, box.extents[d] + (below(2) == 0 ? 0 : below(3)));
      to *= std::max<std::size_t>(1, box.extents[d] + (below(2) == 0 ? 0 : below(3)));
    }
    if (rank > 1 && below(6) == 0) {  // a transpose
      std::swap(box.to_strides[0], box.to_strides[rank - 1]);
      to *= most * most;
    }
    from_size = from;
    to_size = to + to;
  }
};

template <class T> void check_boxes(pt::dtype type) {
  std::mt19937 random(3);
  pt::on_cpu::workers two(2);
  for (int round = 0; round < 600; ++round) {
    const bool large = round % 20 == 0;
    random_box r(random, round % 5, large ? 60 : 6);
    std::vector<T> from(r.from_size), to(r.to_size);
    for (T& x : from) x = static_cast<T>(static_cast<int>(random() % 2001) - 1000);
    for (T& x : to) x = static_cast<T>(static_cast<int>(random() % 2001) - 1000);
    r.box.combine = round % 3 != 0;
    r.box.reduce = round % 3 == 1 ? pt::reduction::sum : pt::reduction::max;
    std::vector<T> expected = to;
    std::size_t at[pt::max_rank]{};
    std::size_t count = 1;
    for (int d = 0; d < r.box.rank; ++d) count *= r.box.extents[d];
    for (std::size_t k = 0; k < count; ++k) {
      std::size_t source = 0, target = 0;
      for (int d = 0; d < r.box.rank; ++d) source += at[d] * r.box.from_strides[d], target += at[d] * r.box.to_strides[d];
      T& x = expected[target];
      const T y = from[source];
      if (!r.box.combine) x = y;
      else x = r.box.reduce == pt::reduction::sum ? T(x + y) : std::max(x, y);
      for (int d = r.box.rank - 1; d >= 0; --d) {
        if (++at[d] < r.box.extents[d]) break;
        at[d] = 0;
      }
    }
    pt::on_cpu::copy_box(r.box, type, from.data(), to.data(), round % 2 == 0 ? &two : nullptr);
    INFO(pt::name_of(type), ", round ", round);
    REQUIRE(to == expected);
  }
}

}  // namespace

TEST_CASE("boxes are copied and combined") {
  check_boxes<float>(pt::f32);
  check_boxes<double>(pt::f64);
  check_boxes<std::int32_t>(pt::i32);
  check_boxes<pt::bfloat16>(pt::bf16);
  check_boxes<pt::float16>(pt::f16);
}

TEST_CASE("a long row is shared out among workers, whole or combined") {
  pt::on_cpu::workers three(3);
  std::vector<float> from(300'001), to(300'001, 1.f);
  std::iota(from.begin(), from.end(), 0.f);
  pt::box_copy b;
  b.rank = 1;
  b.extents[0] = from.size();
  b.from_strides[0] = b.to_strides[0] = 1;
  b.combine = true;
  pt::on_cpu::copy_box(b, pt::f32, from.data(), to.data(), &three);
  bool right = true;
  for (std::size_t i = 0; i < from.size(); ++i) right = right && to[i] == from[i] + 1.f;
  CHECK(right);
  b.combine = false;
  pt::on_cpu::copy_box(b, pt::f32, from.data(), to.data(), &three);
  CHECK(to == from);
  pt::on_cpu::fill_elements(pt::f32, to.data(), to.size(), -2, &three);
  CHECK(to == std::vector<float>(to.size(), -2.f));
}

TEST_CASE("a maximum keeps a NaN of either side") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> from{1, nan, 3, nan}, to{nan, 2, 1, nan};
  pt::box_copy b;
  b.rank = 1;
  b.extents[0] = 4;
  b.from_strides[0] = b.to_strides[0] = 1;
  b.combine = true;
  b.reduce = pt::reduction::max;
  pt::on_cpu::copy_box(b, pt::f32, from.data(), to.data());
  CHECK((std::isnan(to[0]) && std::isnan(to[1]) && to[2] == 3.f && std::isnan(to[3])));
  CHECK(!pt::on_cpu::box_finite(b, pt::f32, to.data(), true));
  b.extents[0] = 1;
  CHECK(pt::on_cpu::box_finite(b, pt::f32, to.data() + 2, true));
}

TEST_CASE("pieces of a tensor go out and come back") {
  constexpr std::size_t whole[3] = {5, 4, 6};
  std::vector<double> tensor(120), back(120, -1.);
  std::iota(tensor.begin(), tensor.end(), 0.);
  for (std::size_t a = 0; a < 2; ++a)  // cut into 3 + 2, 4, 2 + 4
    for (std::size_t c = 0; c < 2; ++c) {
      pt::outside o;
      o.rank = 3;
      const std::size_t begins[3] = {a * 3, 0, c * 2}, extents[3] = {a == 0 ? 3u : 2u, 4, c == 0 ? 2u : 4u};
      for (int d = 0; d < 3; ++d) o.begin[d] = begins[d], o.extents[d] = extents[d], o.whole[d] = whole[d];
      std::vector<double> piece(extents[0] * extents[1] * extents[2]);
      pt::on_cpu::copy_in(o, pt::f64, tensor.data(), piece.data());
      CHECK(piece[0] == static_cast<double>(begins[0] * 24 + begins[2]));
      CHECK(piece.back() == static_cast<double>((begins[0] + extents[0] - 1) * 24 + 18 + begins[2] + extents[2] - 1));
      pt::on_cpu::copy_out(o, pt::f64, piece.data(), back.data());
    }
  CHECK(back == tensor);
  const pt::outside scalar;
  double one = 0;
  pt::on_cpu::copy_in(scalar, pt::f64, &tensor[7], &one);
  CHECK(one == 7.);
}
