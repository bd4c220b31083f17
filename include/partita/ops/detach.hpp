// y = x, through which no gradient flows: for forwards without backward, targets computed by the model itself, stored
// statistics.
#pragma once
#include <partita/model/apply.hpp>

namespace partita {

struct detach_op {
  static constexpr std::string_view name = "detach", annotation = "... -> ...";
  static constexpr bool is_view = true, stops_gradient = true;
  static constexpr double flops_per_point = 0;
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* x = call.template input<0>();
    auto* y = call.template output<0>();
    call.each(call.size(), [=](std::size_t i) { y[i] = x[i]; });
  }
};
namespace ops {
template <handle X> constexpr auto detach(X x) { return apply<detach_op>(x); }
}  // namespace ops
using namespace ops;

}  // namespace partita
