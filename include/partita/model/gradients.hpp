// What a gradient rule returns: a term per input of the op.
#pragma once
#include <cstddef>
#include <tuple>
#include <utility>

namespace partita {

namespace detail {
template <std::size_t I, class T> struct gradient_of { T term; };
template <class Indices, class... T> struct gradient_list;
template <std::size_t... I, class... T> struct gradient_list<std::index_sequence<I...>, T...> : gradient_of<I, T>... {
  constexpr explicit gradient_list(T... all) : gradient_of<I, T>{all}... {}
};
}  // namespace detail

// A handle, a lambda that makes one (called only where the input wants a gradient), or none{}, per input in order:
// `return pt::gradients{dy, pt::none{}};`. A std::tuple is as good, and takes a compiler several times as long.
template <class... T> struct gradients : detail::gradient_list<std::index_sequence_for<T...>, T...> {
  constexpr explicit gradients(T... all) : detail::gradient_list<std::index_sequence_for<T...>, T...>(all...) {}
};

namespace detail {
template <class T> inline constexpr int gradient_count = -1;  // not a list of terms
template <class... T> inline constexpr int gradient_count<gradients<T...>> = static_cast<int>(sizeof...(T));
template <class... T> inline constexpr int gradient_count<std::tuple<T...>> = static_cast<int>(sizeof...(T));
template <std::size_t I, class T> constexpr T const& term_of(gradient_of<I, T> const& g) { return g.term; }
template <std::size_t I, class... T> constexpr auto const& term_of(std::tuple<T...> const& g) { return std::get<I>(g); }
}  // namespace detail

}  // namespace partita
