// What is wrong with a plan, as a value: a policy records its first mistake and goes on, so that evaluation stays
// constant; `verify` turns it into types, or at run time into the words of an exception.
#pragma once
#include <string>

#include <partita/core/axis.hpp>
#include <partita/core/text.hpp>
#include <partita/core/words.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

enum class wrong : std::uint8_t {
  nothing,
  model_is_rejected,
  no_gradient_rule,
  two_parameters_of_one_name,
  no_parameter_matches,
  no_such_axis,
  no_op_matches,
  op_lacks_the_axis,
  axis_names_two_letters,
  whole_axis,
  too_many_pieces,
  sizes_do_not_sum,
  skewed_in_space,
  skewed_over_nothing,
  mode_used_twice,
  pieces_differ_from_the_grid,
  dimension_assigned_twice,
  not_assigned,
  device_out_of_range,
  device_twice,
  devices_differ_from_the_grid,
  too_many_cuts,
  cyclic_order,
  order_names_nothing,
  nothing_is_cut_over_the_dimension,
  node_is_not_there,
  node_is_cut_in_time,
  sum_is_cut_where_its_pieces_are,
  flow_differs,
  bad_arguments
};

// Lines of ready-made policies are told from those of a user's policy: they are numbered from here on, header by header.
// What a plan is told at a line of any other file keeps that line's number.
inline constexpr int lines_of_a_header = 100'000;
inline constexpr std::string_view ready_made_policies[]{"coshard",
                                                        "context_parallel",
                                                        "data_parallel",
                                                        "expert_parallel",
                                                        "interlaced_order",
                                                        "interlaced_pipeline",
                                                        "narrow_sums",
                                                        "pipeline",
                                                        "recompute",
                                                        "schedule",
                                                        "sequence_parallel",
                                                        "stages",
                                                        "tensor_parallel",
                                                        "weight_gradients",
                                                        "zero",
                                                        "compose",
                                                        "letters"};
constexpr int line_of(int line, char const* file) {
  constexpr std::string_view room = "partita/policy/", ending = ".hpp";
  const std::string_view path(file);
  if (!path.ends_with(ending)) return line;
  const std::size_t slash = path.rfind('/');
  if (slash == path.npos || !path.substr(0, slash + 1).ends_with(room)) return line;
  const std::string_view name = path.substr(slash + 1, path.size() - slash - 1 - ending.size());
  int number = 1;
  for (std::string_view known : ready_made_policies) {
    if (known == name) return number * lines_of_a_header + line;
    ++number;
  }
  return line < lines_of_a_header ? line : lines_of_a_header - 1;
}

struct finding {
  wrong what = wrong::nothing;
  text<96> op{};     // the op's name, or the pattern that matched nothing
  text<96> other{};  // a second op, a mode, a cycle, or the name that is nearest to the pattern
  axis_info const* axis = nullptr;
  char letter = 0;
  long have = 0, allowed = 0;
  int line = 0;  // of the policy; use line_in_file() where it may be a ready-made one
  constexpr int line_in_file() const { return line % lines_of_a_header; }
  constexpr std::string_view ready_made() const {  // the policy whose header it is a line of; empty: the user's own
    return line < lines_of_a_header ? std::string_view{} : ready_made_policies[line / lines_of_a_header - 1];
  }
  constexpr explicit operator bool() const { return what != wrong::nothing; }
};

[[gnu::cold]] inline std::string describe(finding const& f) {
  const std::string_view op = f.op.view(), other = f.other.view(), axis = f.axis == nullptr ? "" : f.axis->name;
  const std::string where = f.line <= 0 ? ""
                            : f.ready_made().empty()
                                ? words({" (policy, line ", f.line, ")"})
                                : words({" (partita/policy/", f.ready_made(), ".hpp, line ", f.line_in_file(), ")"}),
                    letter = f.letter == 0 ? "" : words({" under letter '", f.letter, "'"});
  switch (f.what) {
    case wrong::nothing: return "";
    case wrong::model_is_rejected: return "the model was rejected when it was compiled";
    case wrong::no_gradient_rule:
      return words(
          {"op ", op, " stands between a parameter and the loss and has no gradient rule; add one, or pt::detach its input"});
    case wrong::two_parameters_of_one_name: return words({"two parameters are named ", op, "; give each its own name or scope"});
    case wrong::no_such_axis: return words({"no op of the model has axis ", axis, letter, where});
    case wrong::no_parameter_matches:
      return words({"no parameter matches \"", op, "\" of frozen or no_decay", other.empty() ? "" : "; the nearest is ", other});
    case wrong::no_op_matches:
      return words({"no op matches \"", op, "\"", other.empty() ? "" : "; the nearest is ", other, where});
    case wrong::op_lacks_the_axis: return words({"op ", op, " has no axis ", axis, ", so it cannot be cut there", where});
    case wrong::axis_names_two_letters:
      return words({"op ", op, ": axis ", axis, " is bound to two letters; name one: pt::split<", axis, ", 'a'>", where});
    case wrong::whole_axis: return words({"op ", op, ": axis ", axis, " is whole ('^') and may not be cut", where});
    case wrong::too_many_pieces:
      return words({"op ", op, ": axis ", axis, " of extent ", f.allowed, " is cut into ", f.have,
                    " pieces in space, which leaves some empty; use fewer pieces", where});
    case wrong::sizes_do_not_sum:
      return words({"op ", op, ": the given sizes of axis ", axis, " sum to ", f.have, ", its extent is ", f.allowed, where});
    case wrong::skewed_in_space:
      return words(
          {"op ", op, ": the cut of axis ", axis, " is skewed and laid out in space; only a cut in time is skewed", where});
    case wrong::skewed_over_nothing:
      return words({"op ", op, ": the cut of axis ", axis, " is skewed by a dimension on which the op does not stand", where});
    case wrong::mode_used_twice: return words({"op ", op, " is cut twice under the mode name \"", other, "\"", where});
    case wrong::pieces_differ_from_the_grid:
      return words({"op ", op, " is cut into ", f.have, " pieces under the mode \"", other,
                    "\", and its grid has a dimension of that name of ", f.allowed, where});
    case wrong::dimension_assigned_twice: return words({"op ", op, " is assigned twice to the dimension \"", other, "\"", where});
    case wrong::not_assigned: return words({"op ", op, " is not assigned to any device; call op_assign"});
    case wrong::device_out_of_range:
      if (f.allowed < 1)
        return words({"op ", op, " is on a dimension \"", other, "\" of ", f.allowed, " devices; give it one at least", where});
      return words({"op ", op, " is at coordinate ", f.have, " of the dimension \"", other, "\", which has ", f.allowed,
                    " (0 to ", f.allowed - 1, ")", where});
    case wrong::device_twice: return words({"op ", op, ": device ", f.have, " stands twice in its list of devices", where});
    case wrong::devices_differ_from_the_grid:
      return words({"op ", op, ": its list has ", f.have, " devices, its grid ", f.allowed, " places", where});
    case wrong::too_many_cuts: return words({"op ", op, " has more than ", f.allowed, " cuts or grid dimensions", where});
    case wrong::cyclic_order:
      return words({"the wished order has a cycle: ", op, " must come both before and after ", other, where});
    case wrong::order_names_nothing: return words({"op_order names a moment that no op has: ", op, where});
    case wrong::nothing_is_cut_over_the_dimension:
      return words(
          {"nothing is cut under the name of the grid's dimension \"", op, "\", so that its ", f.have, " devices do the same",
           axis.empty() ? std::string()
                        : words({"; axis ", axis, " of extent ", f.allowed, " is too short for ", f.have, " pieces"}),
           other.empty() ? std::string() : words({"; the mode \"", other, "\" is on no dimension: is it the one that is meant?"}),
           axis.empty() && other.empty() ? "; use fewer devices, or pt::replicate where copies are wanted" : "", where});
    case wrong::node_is_not_there:
      return words({"the plan says how what op ", op, " makes is ", other,
                    ", but nothing of it is; name several with '*' to leave out those that are not there", where});
    case wrong::node_is_cut_in_time:
      return words({"what op ", op, " makes is cut along ", axis,
                    " on its way, under a mode that is no dimension of the devices it is on; a move or a sum is cut in space",
                    where});
    case wrong::sum_is_cut_where_its_pieces_are:
      return words({"the sum over time of what op ", op, " makes cannot be kept cut along ", axis,
                    ": its terms are pieces in time of that axis", where});
    case wrong::flow_differs: return words({"op ", op, ": input ", f.have, " arrives in another layout than it is read in"});
    case wrong::bad_arguments: return words({op, where});
  }
  return "";
}

// Of `plan.advice()`, which is of an axis.
[[gnu::cold]] inline std::string advice_text(finding const& f) {
  if (!f) return "";
  return words(
      {"axis ", f.axis->name, " of extent ", f.allowed, " is too short for ", f.have, " pieces and stays whole on each device"});
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
