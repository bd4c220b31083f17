// A run-time extent for an axis that has one in its type.
#include <partita/core/axis.hpp>

namespace pt = partita;

struct hidden : pt::axis<"hidden", 768> {};
struct sample : pt::axis<"sample"> {};

#if MISTAKE == 1
auto bound = pt::bind<hidden>(32);  // expect 1: this axis has its extent in its type
#else
auto bound = pt::bind<sample>(32);
#endif
