#include <doctest/doctest.h>
#include <partita/core/axis.hpp>

namespace pt = partita;

namespace {

struct hidden : pt::axis<"hidden", 768> {};
struct sample : pt::axis<"sample"> {};
using hidden_alias = pt::axis<"hidden", 768>;

}  // namespace

TEST_CASE("an axis is known by its name alone") {
  static_assert(pt::axis_of<hidden>::info.id == pt::axis_of<hidden_alias>::info.id);
  static_assert(pt::axis_of<hidden>::info.id == pt::axis_of<pt::axis<"hidden", 12>>::info.id);
  static_assert(pt::axis_of<hidden>::info.id != pt::axis_of<sample>::info.id);
  CHECK(pt::axis_of<hidden>::info.name == "hidden");
}

TEST_CASE("an extent is static, or unbound until it is bound") {
  static_assert(pt::axis_of<hidden>::info.extent == 768);
  static_assert(pt::axis_of<sample>::info.extent == pt::unbound);
  constexpr auto bound = pt::bind<sample>(32);
  static_assert(bound.axis == &pt::axis_of<sample>::info && bound.extent == 32);
  CHECK(bound.axis->name == "sample");
}
