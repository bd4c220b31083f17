// Opens a part of a header whose code runs once per op, plan, instruction or message, never once per element: g++ then
// optimises it less, which makes a program with a trainer compile faster (docs/compile-time.md). Closed by
// end_planning_code.hpp. No include guard: it is included once per part.
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__) && defined(__OPTIMIZE__)
#pragma GCC push_options
#pragma GCC optimize("O1")
#endif
