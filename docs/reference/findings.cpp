// The words of docs/reference/errors.md for what is wrong with a plan at run time.
#include <cstdio>
#include <partita/plan/finding.hpp>

namespace pt = partita;

struct ffn : pt::axis<"ffn", 512> {};

int main() {
  for (int what = 1; what <= static_cast<int>(pt::wrong::bad_arguments); ++what) {
    pt::finding f{static_cast<pt::wrong>(what)};
    f.op.put("fc1");
    f.other.put("fc2");
    f.axis = &pt::axis_of<ffn>::info;
    f.have = 3;
    f.allowed = 2;
    f.line = 14;
    if (f.what == pt::wrong::no_op_matches || f.what == pt::wrong::no_parameter_matches) f.op = pt::text<96>("fx*");
    if (f.what == pt::wrong::nothing_is_cut_over_the_dimension) {
      f.op = pt::text<96>("tensro");
      f.other = pt::text<96>("tensor");
      f.axis = nullptr;
    }
    if (f.what == pt::wrong::order_names_nothing) f.op = pt::text<96>("stage at index 8 of micro");
    if (f.what == pt::wrong::bad_arguments) f.op = pt::text<96>("a cut needs at least one piece");
    if (f.what == pt::wrong::node_is_not_there) f.other = pt::text<96>("moved");
    if (f.what == pt::wrong::mode_used_twice || f.what == pt::wrong::dimension_assigned_twice ||
        f.what == pt::wrong::pieces_differ_from_the_grid || f.what == pt::wrong::device_out_of_range)
      f.other = pt::text<96>("data");
    std::printf("%s\n", pt::describe(f).c_str());
  }
}
