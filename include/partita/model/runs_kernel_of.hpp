// For ops whose own type cannot name a kernel on a GPU, or which are many types with one kernel.
#pragma once

namespace partita {

// Base of an op that on a GPU runs the kernel of `Kernel`, which says as ops do how many operands there are and of what
// types. A kernel's symbol spells its op's type, where nvcc takes no strings, as the text of an einsum or an axis's name.
template <class Kernel> struct runs_kernel_of {};

}  // namespace partita
