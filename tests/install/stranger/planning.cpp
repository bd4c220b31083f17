#include <boost/hana.hpp>
#include <partita/core/axis.hpp>

namespace pt = partita;

struct hidden : pt::axis<"hidden", 768> {};
static_assert(pt::axis_of<hidden>::info.extent == 768);

int main() {}
