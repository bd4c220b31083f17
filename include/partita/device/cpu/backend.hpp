// The kernels of a recorded graph: beside every op stands a launcher, the address of its kernel for these dtypes.
#pragma once
#include <partita/core/mistake.hpp>
#include <partita/device/cpu/widened.hpp>

namespace partita::mistake {
template <class...> struct op_has_no_kernel;
}

namespace partita::on_cpu {

struct backend {
  using launcher = on_cpu::launcher;
  template <class Op, dtype... In> static constexpr launcher launch() {
    if constexpr (!requires(call<Op, detail::widened_type(In)...> & c) { Op::kernel(c); }) {
      (void)reject<mistake::op_has_no_kernel<Op, found_dtype<In>...>>::value;
      return {};
    } else if constexpr (detail::typed_op<Op, In...>::is_widened())
      return {&widened<Op, In...>::run, &widened<Op, In...>::workspace};
    else return {&detail::run<Op, In...>, &workspace<Op, In...>};
  }
};

}  // namespace partita::on_cpu
