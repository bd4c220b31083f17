// Tensor handles: the type carries dtype and axes, the value is a node id of a graph.
#pragma once
#include <tuple>
#include <type_traits>
#include <utility>

#include <partita/model/op_info.hpp>

namespace partita {

template <class Graph, dtype Type, class... Axes> struct tensor;

// Handles inside a gradient rule have the graph type `untaped<G>`: an op applied there records no rule of its own, by
// type. Otherwise the rule of a rule of a rule would be instantiated.
template <class G> struct untaped { using tracer = G; };
template <class G> struct tracer_of {
  using type = G;
  static constexpr bool taped = true;
};
template <class G> struct tracer_of<untaped<G>> {
  using type = G;
  static constexpr bool taped = false;
};

// What a tensor is, without the interpreter that made it: op typing is instantiated once for all interpreters.
template <dtype Type, class... Axes> struct like {
  static constexpr dtype type = Type;
  static constexpr int rank = sizeof...(Axes);
  static constexpr axis_info const* infos[sizeof...(Axes) + 1]{&axis_of<Axes>::info..., nullptr};
  template <std::size_t I> using axis_at = std::tuple_element_t<I, std::tuple<Axes...>>;
  template <class G> using in = tensor<G, Type, Axes...>;
};

// What a rejected op returns. It goes anywhere a handle goes and is checked no more, so that one mistake is one error.
template <class Graph> struct poison {
  using graph_type = Graph;
  using tracer = typename tracer_of<Graph>::type;
  tracer* graph = nullptr;
  template <class T>
  requires requires { typename T::rule_type; }
  constexpr operator T() const { return {graph, 0}; }
};
template <class T> inline constexpr bool is_poison = false;
template <class G> inline constexpr bool is_poison<poison<G>> = true;

template <class Graph, dtype Type, class... Axes> struct tensor : like<Type, Axes...> {
  using graph_type = Graph;
  using tracer = typename tracer_of<Graph>::type;
  using like_type = like<Type, Axes...>;
  using rule_type = tensor<untaped<tracer>, Type, Axes...>;  // the same tensor inside a gradient rule
  constexpr tensor(tracer* g, int i) : graph(g), id(i) {}
  // An attribute of the op that made it: what its gradient rule needs to know.
  constexpr double attribute(int i) const { return graph->ops[graph->tensors[id].op].given.values[i]; }
  tracer* graph;
  int id;
};
template <class T> inline constexpr bool is_tensor = false;
template <class G, dtype D, class... A> inline constexpr bool is_tensor<tensor<G, D, A...>> = true;
template <class T>
concept handle = is_tensor<T> || is_poison<T>;

namespace detail {
template <class Op, int O, class... In> struct output_like {
  using t = typing<Op, In...>;
  template <std::size_t... P> static auto make(std::index_sequence<P...>)
      -> like<t::types.outputs[O], std::remove_pointer_t<decltype(t::template axis_at<O, static_cast<int>(P)>())>...>;
  using type = decltype(make(std::make_index_sequence<static_cast<std::size_t>(t::result.info.outputs[O].rank)>{}));
};
}  // namespace detail

}  // namespace partita
