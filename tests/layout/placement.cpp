// Coordinates and devices of a grid are each other's inverse, however the dimensions are strided.
#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <set>

#include <partita/layout/layout.hpp>

namespace pt = partita;

TEST_CASE("coordinates_of finds a device's coordinates, and nothing for others") {
  std::mt19937 random(1);
  int nested = 0, others = 0;
  for (int trial = 0; trial < 400; ++trial) {
    pt::placement w;
    w.rank = static_cast<int>(random() % 4);
    w.base = static_cast<int>(random() % 5);
    int stride = 1;
    for (int l = w.rank - 1; l >= 0; --l) {
      w.extents[l] = 1 + static_cast<int>(random() % 4);
      w.strides[l] = trial % 3 == 0 ? 1 + static_cast<int>(random() % 7) : stride;
      stride *= w.extents[l] + static_cast<int>(random() % 2);
    }
    if (trial % 3 == 1 && w.rank > 1) {  // an inner dimension with the larger stride
      std::swap(w.extents[0], w.extents[w.rank - 1]);
      std::swap(w.strides[0], w.strides[w.rank - 1]);
    }
    std::set<int> devices;
    for (int i = 0; i < w.size(); ++i) devices.insert(w.device_at(i));
    if (static_cast<int>(devices.size()) < w.size()) continue;  // two coordinates on one device: not a grid
    (trial % 3 == 0 ? others : nested) += 1;
    for (int d = 0; d <= *devices.rbegin() + 2; ++d) {
      int at[pt::max_levels]{};
      CHECK(w.coordinates_of(d, at) == (devices.count(d) > 0));
      if (devices.count(d)) CHECK(w.device(at) == d);
    }
  }
  CHECK(nested > 100);
  CHECK(others > 20);
}
