// What -ffast-math says of itself is refused: loops that look for NaN would be compiled away.
#if MISTAKE == 1
#undef __FINITE_MATH_ONLY__
#define __FINITE_MATH_ONLY__ 1  // expect 1: partita looks for numbers that are not finite: compile without -ffast-math
#endif
#include <partita/core/math.hpp>
