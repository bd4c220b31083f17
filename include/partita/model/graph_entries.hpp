// The flat graph that a trace fills: plain arrays of plain structs, the same in constant evaluation and at run time.
#pragma once
#include <cstdint>
#include <string_view>

#include <partita/core/growing.hpp>
#include <partita/core/text.hpp>
#include <partita/model/op_info.hpp>

namespace partita {

struct label {  // a literal; `stem` ends before the last dot: "fc1" of "fc1.weight"
  const char* chars;
  short length, stem;
  template <std::size_t N> consteval label(const char (&t)[N])
      : chars(t), length(static_cast<short>(N - 1)), stem(static_cast<short>(N - 1)) {
    for (short i = static_cast<short>(N - 1); i > 0; --i)
      if (t[i] == '.') {
        stem = i;
        break;
      }
  }
  constexpr label(const char* t, short n) : chars(t), length(n), stem(n) {}
  constexpr label() : chars(""), length(0), stem(0) {}
  constexpr std::string_view view() const { return {chars, static_cast<std::size_t>(length)}; }
  constexpr label cut() const { return {chars, stem}; }
};

enum class pass : std::uint8_t { forward, backward, update };

// Run-time numbers of an op: a scale's factor, a dropout's probability, a slice's begin. Their meaning is the op's.
struct attributes {
  double values[6]{};
};

struct op_entry {
  op_info const* info = nullptr;
  int first_input = 0, input_count = 0;  // into graph_data::edges
  int first_output = 0;                  // tensor ids are consecutive
  int name = 0;                          // into graph_data::names
  int origin = 0;                        // the forward op whose rule made it; itself for a forward op
  pass when = pass::forward;
  attributes given{};
  signed char origin_dims[max_dims]{};  // letter of this op -> letter of the origin, or -1
};
struct tensor_entry {
  int op = 0;
  short output = 0;
  bool differentiable = false;
  int gradient = -1;
  int stem = -1;     // the name of the parameter it stands for
  int carried = -1;  // the state or parameter that this tensor is after the step
};
struct scope_entry {
  int parent = -1;
  label name;
  int index = -1;
};
struct name_entry {
  int scope = -1;
  label name, suffix;  // the suffix of an optimizer's state: "m" of "fc1.weight.m"
};

struct graph_data {
  growing<op_entry> ops;
  growing<tensor_entry> tensors;
  growing<int> edges;
  growing<scope_entry> scopes;
  growing<name_entry> names;
  growing<binding> bindings;
  int stuck = -1;         // an op on the way to the loss that has no gradient rule
  int twice = -1;         // a parameter whose name another one has
  text<96> unmatched{};   // a pattern of names, of frozen or no_decay, that no parameter has
  bool poisoned = false;  // a rejected op: its error was given where it stands

  constexpr operand const& operand_of(int t) const {
    tensor_entry const& x = tensors.at[t];
    return ops.at[x.op].info->outputs[x.output];
  }
  constexpr int input(op_entry const& e, int i) const { return edges.at[e.first_input + i]; }
  constexpr std::size_t extent(axis_info const* a) const {
    if (a->extent != unbound) return a->extent;
    for (binding const& b : bindings)
      if (b.axis->id == a->id) return b.extent;
    return unbound;
  }
  constexpr void put_path(text<96>& out, int scope) const {
    if (scope < 0) return;
    put_path(out, scopes[scope].parent);
    out.put(scopes[scope].name.view());
    if (scopes[scope].index >= 0) {
      out.put(".");
      out.put(scopes[scope].index);
    }
    out.put(".");
  }
  constexpr text<96> name(int op) const {  // scope path and own name: "block.3.fc1"
    text<96> out;
    name_entry const& n = names[ops[op].name];
    put_path(out, n.scope);
    out.put(n.name.view());
    if (n.suffix.length > 0) {
      out.put(".");
      out.put(n.suffix.view());
    }
    return out;
  }
};

}  // namespace partita
