// What is wrong with a plan, as a value: a policy records its first mistake and goes on, so that evaluation stays
// constant; `verify` turns it into types, or at run time into the words of an exception.
#pragma once
#include <string>

#include <partita/core/axis.hpp>
#include <partita/core/text.hpp>

namespace partita {

enum class wrong : std::uint8_t {
  nothing,
  model_is_rejected,
  no_gradient_rule,
  two_parameters_of_one_name,
  axis_without_extent,
  extents_differ,
  no_such_axis,
  no_op_matches,
  op_lacks_the_axis,
  axis_names_two_letters,
  whole_axis,
  too_many_pieces,
  sizes_do_not_sum,
  mode_used_twice,
  pieces_differ_from_the_grid,
  dimension_assigned_twice,
  not_assigned,
  device_out_of_range,
  too_many_cuts,
  cyclic_order,
  order_names_nothing,
  flow_differs,
  bad_arguments
};

struct finding {
  wrong what = wrong::nothing;
  text<96> op{};       // the op's name, or the pattern that matched nothing
  text<96> other{};    // a second op or a cycle
  axis_info const* axis = nullptr;
  char letter = 0;
  long have = 0, allowed = 0;
  int line = 0;        // of the policy
  constexpr explicit operator bool() const { return what != wrong::nothing; }
};

inline std::string describe(finding const& f) {
  const std::string op = "op " + std::string(f.op.view()), axis = f.axis == nullptr ? "" : std::string(f.axis->name),
                    where = f.line > 0 ? " (policy, line " + std::to_string(f.line) + ")" : "",
                    have = std::to_string(f.have), allowed = std::to_string(f.allowed);
  switch (f.what) {
    case wrong::nothing: return "";
    case wrong::model_is_rejected: return "the model was rejected when it was compiled";
    case wrong::no_gradient_rule:
      return op + " stands between a parameter and the loss and has no gradient rule; add one or detach its input";
    case wrong::two_parameters_of_one_name:
      return "two parameters are named " + std::string(f.op.view()) + "; give each its own name or scope";
    case wrong::axis_without_extent: return "axis " + axis + " has no extent: pass pt::bind<" + axis + ">(n)";
    case wrong::extents_differ:
      return op + ": axis " + axis + " is " + have + " long where " + allowed + " elements are to be held";
    case wrong::no_such_axis:
      return "no op of the model has axis " + axis + (f.letter == 0 ? "" : std::string(" under letter '") + f.letter + "'") +
             where;
    case wrong::no_op_matches: return "no op matches \"" + std::string(f.op.view()) + "\"" + where;
    case wrong::op_lacks_the_axis: return op + " has no axis " + axis + ", so it cannot be cut there" + where;
    case wrong::axis_names_two_letters:
      return op + ": axis " + axis + " is bound to two letters; name one: pt::split<" + axis + ", 'a'>" + where;
    case wrong::whole_axis: return op + ": axis " + axis + " is whole ('^') and may not be cut" + where;
    case wrong::too_many_pieces:
      return op + ": axis " + axis + " of extent " + allowed + " is cut into " + have +
             " pieces in space, which leaves some empty; use fewer pieces" + where;
    case wrong::sizes_do_not_sum:
      return op + ": the given sizes of axis " + axis + " sum to " + have + ", its extent is " + allowed + where;
    case wrong::mode_used_twice:
      return op + " is cut twice under the mode name \"" + std::string(f.other.view()) + "\"" + where;
    case wrong::pieces_differ_from_the_grid:
      return op + ": " + have + " pieces on a grid dimension of " + allowed + where;
    case wrong::dimension_assigned_twice:
      return op + " is assigned twice to the dimension \"" + std::string(f.other.view()) + "\"" + where;
    case wrong::not_assigned: return op + " is not assigned to any device; call op_assign";
    case wrong::device_out_of_range:
      return op + " is placed on device " + have + ", there are " + allowed + " devices (0 to " +
             std::to_string(f.allowed - 1) + ")" + where;
    case wrong::too_many_cuts: return op + " has more than " + allowed + " cuts or grid dimensions" + where;
    case wrong::cyclic_order:
      return "the wished order has a cycle: " + std::string(f.op.view()) + " must come both before and after " +
             std::string(f.other.view()) + where;
    case wrong::order_names_nothing: return "op_order names a moment that no op has: " + std::string(f.op.view()) + where;
    case wrong::flow_differs:
      return op + ": input " + have + " arrives in another layout than it is read in";
    case wrong::bad_arguments: return std::string(f.op.view()) + where;
  }
  return "";
}

}  // namespace partita
