// Ranges that a profiler shows above a step's launches: forward, backward or update, and in it the graph's scopes.
#pragma once
#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>

#include <partita/core/list.hpp>
#include <partita/core/words.hpp>
#include <partita/program/program.hpp>
#include <partita/program/words.hpp>

namespace partita::on_cuda {

// `Api::begin_range(char const*)` and `Api::end_range()` nest, by thread. Allocates when it is made alone.
template <class Api> class scope_ranges {
 public:
  scope_ranges(program const& what, graph_data const& graph) {
    std::map<std::pair<int, int>, std::size_t> known;  // pass and scope
    std::size_t deepest = 0;
    for (instruction const& i : what.instructions) {
      const int op = op_of(what, graph, i);
      if (op < 0) {  // goes with the one before it
        path_of_.push_back(path_of_.empty() ? none : path_of_.back());
        continue;
      }
      const int scope = graph.names[graph.ops[op].name].scope;
      const auto [found, is_new] = known.emplace(std::pair(static_cast<int>(graph.ops[op].when), scope), paths_.size());
      if (is_new) {
        list<int> path;
        for (int s = scope; s >= 0; s = graph.scopes[s].parent) path.push_back(name_of_scope(graph, s));
        path.push_back(name_number(std::string(name_of(graph.ops[op].when))));
        std::reverse(path.begin(), path.end());
        deepest = std::max(deepest, path.size());
        paths_.push_back(std::move(path));
      }
      path_of_.push_back(found->second);
    }
    open_.reserve(deepest);
  }
  scope_ranges(scope_ranges const&) = delete;
  scope_ranges& operator=(scope_ranges const&) = delete;

  // What is put from here on belongs to the instruction.
  void enter(std::size_t instruction) {
    if (path_of_[instruction] == none) return;
    list<int> const& path = paths_[path_of_[instruction]];
    std::size_t same = 0;
    while (same < open_.size() && same < path.size() && open_[same] == path[same]) ++same;
    leave(same);
    for (; same < path.size(); ++same) {
      Api::begin_range(names_[static_cast<std::size_t>(path[same])].c_str());
      open_.push_back(path[same]);
    }
  }
  void leave() { leave(0); }

 private:
  static constexpr std::size_t none = ~std::size_t{0};

  void leave(std::size_t kept) {
    while (open_.size() > kept) {
      Api::end_range();
      open_.pop_back();
    }
  }
  static int op_of(program const& what, graph_data const& graph, instruction const& i) {
    if (i.kind == instruction_kind::compute) return what.computes[static_cast<std::size_t>(i.payload)].op;
    const int tensor = tensor_of(what, i);
    return tensor < 0 || tensor >= graph.tensors.size ? -1 : graph.tensors[tensor].op;
  }
  int name_of_scope(graph_data const& graph, int scope) {
    scope_entry const& s = graph.scopes[scope];
    const std::string name(s.name.view());
    return name_number(s.index >= 0 ? words({name, ".", s.index}) : name);
  }
  int name_number(std::string name) {
    const auto at = std::find(names_.begin(), names_.end(), name);
    if (at != names_.end()) return static_cast<int>(at - names_.begin());
    names_.push_back(std::move(name));
    return static_cast<int>(names_.size()) - 1;
  }

  list<std::string> names_;
  list<list<int>> paths_;      // into names_, outermost first
  list<std::size_t> path_of_;  // by instruction
  list<int> open_;
};

}  // namespace partita::on_cuda
