// What planning knows of an op applied to inputs of given axes: its dims (one per letter), how each operand lies over
// them, and which may be cut. One constant per (op, input types); every node of a graph points to one.
#pragma once
#include <cstdint>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>

#include <partita/core/axis.hpp>
#include <partita/model/annotation.hpp>

namespace partita {

enum class reduction : std::uint8_t { sum, max, merge };  // merge: the op's own, over all its outputs together

struct dim {
  axis_info const* axis = nullptr;
  char letter = 0;
  bool summed = false, whole = false;
  bool merged = false;  // may be cut in time all the same: the op adds a piece to what it has made of others (Op::merges)
};
struct operand {
  signed char rank = 0;
  dtype type = f32;
  reduction reduce = reduction::sum;  // how partial results of this output combine
  signed char dims[max_rank]{};
  signed char inner[max_rank]{-1, -1, -1, -1, -1, -1};  // the faster letter of a group, or -1
  axis_info const* axes[max_rank]{};
  constexpr int find(int d) const {  // the axis that letter d leads, or -1
    for (int a = 0; a < rank; ++a)
      if (dims[a] == d) return a;
    return -1;
  }
};
enum class source_kind : std::uint8_t { none, input, parameter, state, constant };
struct op_info {
  std::string_view kind;
  source_kind source = source_kind::none;
  bool whole_in_time = false;   // pieces in time would change its meaning (the count of all tokens)
  bool variadic = false;        // any number of inputs, all like the first
  bool accumulates = false;     // its kernel can add to its outputs instead of writing them
  bool is_output = false;       // a named result of the model
  bool keeps_name = false;      // an op on the output is named as one on the input
  bool is_view = false;         // the output is the input's bytes under other axes
  bool stops_gradient = false;  // what it makes is a constant to what reads it
  bool passes_partial = false;  // linear: sums of partial inputs are partial outputs
  double flops_per_point = 0;   // FLOPs = this x product of all dims
  signed char dim_count = 0, input_count = 0, output_count = 0;
  dim dims[max_dims]{};
  operand inputs[max_inputs]{};
  operand outputs[max_outputs]{};
  constexpr bool merges() const {
    bool any = false;
    for (int d = 0; d < dim_count; ++d) any = any || dims[d].merged;
    return any;
  }
  constexpr operand const& input(int i) const { return inputs[variadic ? 0 : i]; }
};

struct place {
  signed char input = -1, index = -1;  // input -1: the op itself names the axis
};
enum class verdict : std::uint8_t { good, annotation, dtypes, arity, rank, too_large, axis, extents, unknown_axis, type };
struct judged {
  op_info info;
  place first[max_outputs][max_rank]{};  // where an output's axis type comes from
  verdict what = verdict::good;
  int input = 0;
  char at = 0;
  axis_info const *one = nullptr, *other = nullptr;
};

// The whole check of an op's axes, by value: a letter is bound by the first operand that has it and compared in the
// others. By value, because every step of a template recursion would stand between the error and the user's line, and
// compilers cut the middle out of a long backtrace. `named[o][p]`: an output's axis that the op names itself.
template <std::size_t N> constexpr judged judge(signature const& s, int given, int const (&ranks)[N],
                                                axis_info const* const* const (&axes)[N],
                                                axis_info const* const (&named)[max_outputs][max_rank]) {
  judged r;
  auto fail = [&](verdict v, int input, char at, axis_info const* one, axis_info const* other) {
    if (r.what != verdict::good) return;
    r.what = v;
    r.input = input;
    r.at = at;
    r.one = one;
    r.other = other;
  };
  if (s.what != fault::none) {
    r.what = verdict::annotation;
    return r;
  }
  if (s.input_count != given) {
    r.what = verdict::arity;
    return r;
  }
  int rest = 0;
  for (int i = 0; i < s.input_count; ++i)
    if (s.inputs[i].rank > 0 && s.inputs[i].terms[0].letter == rest_letter) {
      rest = ranks[i] - s.inputs[i].rank + 1;
      break;
    }
  if (rest < 0) rest = 0;
  // No operand, nor the op, may have more axes than the tables hold.
  bool letters[128]{};
  auto too_large = [&](pattern const& p) {
    int rank = 0;
    for (int t = 0; t < p.rank; ++t) {
      rank += p.terms[t].letter == rest_letter ? rest : 1;
      letters[static_cast<int>(p.terms[t].letter)] = letters[static_cast<int>(p.terms[t].inner)] = true;
    }
    return rank > max_rank;
  };
  for (int i = 0; i < s.input_count; ++i)
    if (too_large(s.inputs[i]) && r.what == verdict::good) fail(verdict::rank, i, 0, nullptr, nullptr);
  for (int o = 0; o < s.output_count; ++o)
    if (too_large(s.outputs[o])) fail(verdict::too_large, 0, 0, nullptr, nullptr);
  int dims = letters[static_cast<int>(rest_letter)] ? rest : 0;
  for (char c = 'a'; c <= 'z'; ++c) dims += letters[static_cast<int>(c)] ? 1 : 0;
  if (dims > max_dims) fail(verdict::too_large, 0, 0, nullptr, nullptr);
  if (r.what != verdict::good) return r;
  char key[max_dims]{};
  place seen[max_dims]{};
  auto dim_of = [&](char wanted) {
    int d = 0;
    while (d < r.info.dim_count && key[d] != wanted) ++d;
    if (d == r.info.dim_count) {
      ++r.info.dim_count;
      key[d] = wanted;
      r.info.dims[d].letter = wanted < 32 ? rest_letter : wanted;
    }
    return d;
  };
  auto bind_axis = [&](int d, axis_info const* here, int input, place where) {
    dim& x = r.info.dims[d];
    if (here == nullptr) return;
    if (x.axis == nullptr) {
      x.axis = here;
      seen[d] = where;
    } else if (here->id != x.axis->id) fail(verdict::axis, input, x.letter, x.axis, here);
    else if (here->extent != x.axis->extent && here->extent != unbound && x.axis->extent != unbound)
      fail(verdict::extents, input, x.letter, x.axis, here);
  };
  auto fill = [&](pattern const& p, int input, int output) {
    operand o;
    for (int t = 0; t < p.rank; ++t) {
      term const& x = p.terms[t];
      const int repeat = x.letter == rest_letter ? rest : 1;
      for (int k = 0; k < repeat; ++k) {
        const int d = dim_of(x.letter == rest_letter ? static_cast<char>(k + 1) : x.letter);
        if (x.summed) r.info.dims[d].summed = true;
        if (x.whole) r.info.dims[d].whole = true;
        const int at = o.rank;
        axis_info const* here = input >= 0 ? (at < ranks[input] ? axes[input][at] : nullptr) : named[output][at];
        if (x.inner != 0) {
          const int inner = dim_of(x.inner);
          r.info.dims[inner].whole = true;  // a group is cut by its leading letter only
          o.inner[at] = static_cast<signed char>(inner);
        } else if (input >= 0 || r.info.dims[d].axis == nullptr) {
          bind_axis(d, here, input, {static_cast<signed char>(input), static_cast<signed char>(at)});
          if (input < 0) r.info.dims[d].axis = here;
        }
        o.axes[at] = here != nullptr ? here : r.info.dims[d].axis;
        if (output >= 0 && here == nullptr) {
          r.first[output][at] = seen[d];
          if (x.inner != 0 || o.axes[at] == nullptr) fail(verdict::unknown_axis, 0, x.letter, nullptr, nullptr);
        }
        o.dims[at] = static_cast<signed char>(d);
        ++o.rank;
      }
    }
    return o;
  };
  for (int i = 0; i < s.input_count; ++i) {
    r.info.inputs[i] = fill(s.inputs[i], i, -1);
    if (r.info.inputs[i].rank != ranks[i]) {
      r.what = verdict::rank;
      r.input = i;
      return r;
    }
  }
  for (int o = 0; o < s.output_count; ++o) r.info.outputs[o] = fill(s.outputs[o], -1, o);
  for (int d = 0; d < r.info.dim_count; ++d)
    if (r.info.dims[d].axis == nullptr) fail(verdict::unknown_axis, 0, r.info.dims[d].letter, nullptr, nullptr);
  r.info.input_count = static_cast<signed char>(s.input_count);
  r.info.output_count = static_cast<signed char>(s.output_count);
  return r;
}

namespace detail {
template <class Op, int O, int P> constexpr axis_info const* named_axis() {
  if constexpr (requires { typename Op::template output_axis<O, P>; }) {
    using axis_type = typename Op::template output_axis<O, P>;
    if constexpr (!std::is_void_v<axis_type>) return &axis_of<axis_type>::info;
    else return nullptr;
  } else return nullptr;
}
template <class Op> struct named_axes {
  struct table {
    axis_info const* at[max_outputs][max_rank]{};
  };
  template <std::size_t... I> static constexpr table make(std::index_sequence<I...>) {
    table t;
    ((t.at[I / max_rank][I % max_rank] = named_axis<Op, static_cast<int>(I / max_rank), static_cast<int>(I % max_rank)>()), ...);
    return t;
  }
  static constexpr table value = make(std::make_index_sequence<max_outputs * max_rank>{});
};
template <class Op, class... In> constexpr judged judge_op() {
  const int ranks[sizeof...(In) + 1]{In::rank..., 0};
  axis_info const* const* const axes[sizeof...(In) + 1]{In::infos..., nullptr};
  judged r = judge(annotation_of<Op>::parsed, static_cast<int>(sizeof...(In)), ranks, axes, named_axes<Op>::value.at);
  op_info& f = r.info;
  f.kind = Op::name;
  f.keeps_name = requires { Op::keeps_name; };
  if constexpr (requires { Op::whole_in_time; }) f.whole_in_time = Op::whole_in_time;
  if constexpr (requires { Op::accumulates; }) f.accumulates = Op::accumulates;
  if constexpr (requires { Op::is_output; }) f.is_output = Op::is_output;
  if constexpr (requires { Op::is_view; }) f.is_view = Op::is_view;
  if constexpr (requires { Op::stops_gradient; }) f.stops_gradient = Op::stops_gradient;
  if constexpr (requires { Op::merges; })
    for (int d = 0; d < f.dim_count; ++d) f.dims[d].merged = f.dims[d].letter == Op::merges;
  if constexpr (requires { Op::passes_partial; }) f.passes_partial = Op::passes_partial;
  if constexpr (requires { Op::variadic; }) f.variadic = Op::variadic;
  if constexpr (requires { Op::flops_per_point; }) f.flops_per_point = Op::flops_per_point;
  else f.flops_per_point = 1;
  if constexpr (requires { Op::reductions; })
    for (int o = 0; o < f.output_count; ++o) f.outputs[o].reduce = Op::reductions[o];
  return r;
}
}  // namespace detail

template <class Op, class... In> struct typing {  // once per (op, input types), for all interpreters
  static constexpr dtype given[sizeof...(In) + 1]{In::type..., f32};
  static constexpr int output_count = annotation_of<Op>::parsed.output_count;
  static constexpr typed types = resolve_dtypes(dtypes_of<Op>(), output_count, given, static_cast<int>(sizeof...(In)));
  static constexpr judged result = [] {
    judged r = detail::judge_op<Op, In...>();
    for (int i = 0; i < static_cast<int>(sizeof...(In)) && i < max_inputs; ++i) r.info.inputs[i].type = given[i];
    for (int o = 0; o < output_count; ++o) r.info.outputs[o].type = types.outputs[o];
    return r;
  }();
  static constexpr type_signature dtypes = dtypes_of<Op>();
  static constexpr verdict what = result.what != verdict::good ? result.what
                                  : dtypes.what != fault::none ? verdict::dtypes
                                  : types.bad_input >= 0       ? verdict::type
                                                               : verdict::good;
  template <int O, int P> static auto axis_at() {
    constexpr place from = result.first[O][P];
    if constexpr (from.input >= 0)
      return static_cast<typename std::tuple_element_t<from.input, std::tuple<In...>>::template axis_at<from.index>*>(nullptr);
    else return static_cast<typename Op::template output_axis<O, P>*>(nullptr);
  }
};

}  // namespace partita
