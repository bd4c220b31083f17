// Planning is read by nvcc wherever a kernel's file includes its model; that it compiles is the test.
#if __has_include(<partita/planning.hpp>)
#include <partita/planning.hpp>
#else
#include <partita/core/axis.hpp>
#endif

namespace pt = partita;

struct hidden : pt::axis<"hidden", 768> {};
static_assert(pt::axis_of<hidden>::info.extent == 768);

// A named axis may stand in a kernel's name; the string in it may not.
template <class Axis> __global__ void extent_of(int* result) { *result = static_cast<int>(Axis::extent); }
template __global__ void extent_of<hidden>(int*);

int main() { return pt::axis_of<hidden>::info.name == "hidden" ? 0 : 1; }
