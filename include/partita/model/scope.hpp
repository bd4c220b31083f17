// Scopes name layers: `auto s = pt::scope(g, "block", l);` names what is built while it lives.
#pragma once
#include <partita/model/graph_entries.hpp>

namespace partita {

template <class G> struct [[nodiscard]] scope_guard {
  G* graph;
  int parent;
  constexpr scope_guard(G& g, label name, int index) : graph(&g), parent(g.scope) {
    g.scopes.push({parent, name, index});
    g.scope = g.scopes.size - 1;
  }
  scope_guard(scope_guard const&) = delete;
  scope_guard& operator=(scope_guard const&) = delete;
  constexpr ~scope_guard() { graph->scope = parent; }
};
template <class G> constexpr auto scope(G& g, label name, int index = -1) { return scope_guard<G>(g, name, index); }

}  // namespace partita
