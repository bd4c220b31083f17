// Closes what begin_planning_code.hpp opens.
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__) && defined(__OPTIMIZE__)
#pragma GCC pop_options
#endif
