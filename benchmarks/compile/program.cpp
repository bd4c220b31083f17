// One program, of several sizes: what -DKIND leaves of it is what is compiled.
//   1 the header of planning alone     2 a trace in constant evaluation     3 a plan 2x2x2 verified while compiling
//   4 a trainer whose plan is made and verified when it runs                5 both: 3 and 4
//   6 the header of everything alone               7 the kernels for GPUs, which nvcc compiles: a user's .cu
//   8 the .cpp beside that .cu: 4 with the devices of partita/cuda.hpp in place of the CPU's
#if KIND == 1
#include <partita/planning.hpp>
#elif KIND == 6
#include <partita/partita.hpp>
#elif KIND == 7
#include <partita/device/cuda/kernels.hpp>
#include "gpt.hpp"
template struct pt::cuda_kernels<training>;
#else
#if KIND == 8
#include <partita/cuda.hpp>
#endif
#if KIND >= 4
#include <partita/partita.hpp>
#endif
#include "gpt.hpp"
#if KIND == 2
constexpr int count_ops() {
  pt::recorder<pt::planning_only, training> g;
  pt::trace(g, training{});
  return g.ops.size;
}
static_assert(count_ops() > LAYERS);
#endif
#if KIND == 3 || KIND == 5
static_assert(pt::verify<training, plan_2x2x2>());
#endif
#if KIND >= 4
#include <cstdio>
#include <vector>
#if KIND == 8
const pt::cuda devices{};
#else
const pt::cpu devices{.devices = 8};
#endif
int main() {
  constexpr int samples = 8;
  pt::trainer<training> trainer{training{}, plan_2x2x2{}, devices, pt::bind<sample>(samples)};
  std::vector<int> tokens(samples * 64, 1), targets(samples * 64, 2);
  for (int step = 0; step < 10; ++step)
    std::printf("step %d, loss %.4f\n", step, static_cast<double>(trainer.step({{"tokens", tokens}, {"targets", targets}})));
}
#endif
#endif
