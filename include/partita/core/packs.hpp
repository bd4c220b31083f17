// Elements that lie next to each other, taken 16 bytes at a time: what one thread of a GPU reads or writes with one
// instruction. On the CPU, whose compilers make vectors of plain loops, a pack is one element and nothing changes.
//
//     each_of(team, n, [](float x, float y) { return x * y; }, out, a, b);   // out[i] = f(a[i], b[i]) for i < n
//     const float total = sum_of(team, n, [](float x) { return x * x; }, a); // of f(a[i])
//
// Where an address is not a multiple of 16 elements are taken one by one. A sum's order then is another one: its bits
// depend on n, on the team, and on that.
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include <partita/core/host_device.hpp>

namespace partita {

// A team says so that is to take packs: `static constexpr bool packs = true`.
template <class Team> inline constexpr bool takes_packs = requires { Team::packs; };

inline constexpr std::size_t pack_bytes = 16;

namespace detail {
template <class T, std::size_t N> struct pack { T at[N]; };
struct alignas(pack_bytes) pack_words {
  std::uint32_t word[4];
};

// As many elements as make 16 bytes of the narrowest type; wider ones take several accesses.
template <class... T> constexpr std::size_t elements_of_pack() {
  std::size_t least = pack_bytes;
  for (std::size_t size : std::initializer_list<std::size_t>{sizeof(T)...}) least = size < least ? size : least;
  return pack_bytes / least;
}
PARTITA_HOST_DEVICE inline bool begins_pack(void const* at) { return reinterpret_cast<std::uintptr_t>(at) % pack_bytes == 0; }

template <std::size_t N, class T> PARTITA_HOST_DEVICE pack<T, N> load_pack(T const* from) {
  pack<T, N> p;
  pack_words words[sizeof p / pack_bytes];
  for (std::size_t i = 0; i < sizeof p / pack_bytes; ++i) words[i] = reinterpret_cast<pack_words const*>(from)[i];
  __builtin_memcpy(&p, words, sizeof p);
  return p;
}
template <std::size_t N, class T> PARTITA_HOST_DEVICE void store_pack(T* to, pack<T, N> const& p) {
  pack_words words[sizeof p / pack_bytes];
  __builtin_memcpy(words, &p, sizeof p);
  for (std::size_t i = 0; i < sizeof p / pack_bytes; ++i) reinterpret_cast<pack_words*>(to)[i] = words[i];
}
// out[j] = f(in[j]...) for one pack that begins at `i`, or for what is left of n.
template <std::size_t N, class F, class Out, class... In>
PARTITA_HOST_DEVICE void pass_pack(std::size_t i, std::size_t n, F const& f, Out* out, In const*... in) {
  if (i + N <= n) {
    const auto whole = [&](pack<In, N> const&... x) {
      pack<Out, N> made;
      for (std::size_t j = 0; j < N; ++j) made.at[j] = static_cast<Out>(f(x.at[j]...));
      store_pack<N>(out + i, made);
    };
    whole(load_pack<N>(in + i)...);
  } else {
    PARTITA_DEVICE_LOOP_NOT_UNROLLED
    for (; i < n; ++i) out[i] = static_cast<Out>(f(in[i]...));
  }
}
}  // namespace detail

// out[i] = f(in[i]...) for every i < n, rounded to out's type. `Loop` is a team, or the call of a kernel outside its
// loops; out may be one of the inputs.
template <bool Packs, class Loop, class F, class Out, class... In>
PARTITA_HOST_DEVICE void each_in(Loop const& loop, std::size_t n, F f, Out* out, In const*... in) {
  if constexpr (Packs) {
    constexpr std::size_t width = detail::elements_of_pack<Out, In...>();
    if (detail::begins_pack(out) && (detail::begins_pack(in) && ...))
      return loop.each((n + width - 1) / width, [=](std::size_t p) { detail::pass_pack<width>(p * width, n, f, out, in...); });
  }
  loop.each(n, [=](std::size_t i) { out[i] = static_cast<Out>(f(in[i]...)); });
}
template <class Team, class F, class Out, class... In>
PARTITA_HOST_DEVICE void each_of(Team const& team, std::size_t n, F f, Out* out, In const*... in) {
  each_in<takes_packs<Team>>(team, n, f, out, in...);
}

namespace detail {
template <class T> PARTITA_HOST_DEVICE constexpr bool packs_divide(std::size_t n) { return n % elements_of_pack<T>() == 0; }
// out[i] = *from(i) for every i < n; null: zero. `packs`: n is a multiple of a pack, of which from gives elements that follow
// each other, from a multiple of 16 bytes on, or null for all.
template <class Loop, class T, class F>
PARTITA_HOST_DEVICE void gather_elements(Loop const& loop, std::size_t n, T* out, bool packs, F from) {
  constexpr std::size_t width = elements_of_pack<T>();
  if (packs)
    return loop.each(n / width, [=](std::size_t p) {
      T const* const in = from(p * width);
      store_pack<width>(out + p * width, in != nullptr ? load_pack<width>(in) : pack<T, width>{});
    });
  loop.each(n, [=](std::size_t i) {
    T const* const in = from(i);
    out[i] = in != nullptr ? *in : T(0);
  });
}
}  // namespace detail

// N values of one element, for as many arrays.
template <class T, std::size_t N> struct several { T at[N]; };

namespace detail {
// out.at[k][j] = f(in[j]...).at[k] for one pack that begins at `i`, or for what is left of n.
template <std::size_t Width, std::size_t N, class F, class Out, class... In>
PARTITA_HOST_DEVICE void pass_pack_to_several(std::size_t i, std::size_t n, F const& f, several<Out*, N> const& out,
                                              In const*... in) {
  if (i + Width <= n) {
    const auto whole = [&](pack<In, Width> const&... x) {
      pack<Out, Width> made[N];
      for (std::size_t j = 0; j < Width; ++j) {
        const auto of_element = f(x.at[j]...);
        for (std::size_t k = 0; k < N; ++k) made[k].at[j] = static_cast<Out>(of_element.at[k]);
      }
      for (std::size_t k = 0; k < N; ++k) store_pack<Width>(out.at[k] + i, made[k]);
    };
    whole(load_pack<Width>(in + i)...);
  } else {
    PARTITA_DEVICE_LOOP_NOT_UNROLLED
    for (; i < n; ++i) {
      const auto of_element = f(in[i]...);
      for (std::size_t k = 0; k < N; ++k) out.at[k][i] = static_cast<Out>(of_element.at[k]);
    }
  }
}
}  // namespace detail

// As each_of, for an f that gives `several` values: out.at[k][i] = f(in[i]...).at[k].
template <class Loop, class F, std::size_t N, class Out, class... In>
PARTITA_HOST_DEVICE void each_of_several(Loop const& loop, std::size_t n, F f, several<Out*, N> out, In const*... in) {
  if constexpr (takes_packs<Loop>) {
    constexpr std::size_t width = detail::elements_of_pack<Out, In...>();
    bool whole = (detail::begins_pack(in) && ...);
    for (std::size_t k = 0; k < N; ++k) whole = whole && detail::begins_pack(out.at[k]);
    if (whole)
      return loop.each((n + width - 1) / width,
                       [=](std::size_t p) { detail::pass_pack_to_several<width>(p * width, n, f, out, in...); });
  }
  loop.each(n, [=](std::size_t i) {
    const auto made = f(in[i]...);
    for (std::size_t k = 0; k < N; ++k) out.at[k][i] = static_cast<Out>(made.at[k]);
  });
}

namespace detail {
// The combination over i < n of f(in[i]...), a pack's elements first.
template <class Reduce, class Join, class Team, class F, class First, class... In>
PARTITA_HOST_DEVICE auto reduce_of(Reduce reduce, Join join, Team const& team, std::size_t n, F f, First const* first,
                                   In const*... in) {
  if constexpr (takes_packs<Team>) {
    constexpr std::size_t width = elements_of_pack<First, In...>();
    if (begins_pack(first) && (begins_pack(in) && ...)) {
      return reduce(team, (n + width - 1) / width, [=](std::size_t p) {
        std::size_t i = p * width;
        if (i + width <= n) {
          const auto whole = [&](pack<First, width> const& x, pack<In, width> const&... more) {
            auto all = f(x.at[0], more.at[0]...);
            for (std::size_t j = 1; j < width; ++j) all = join(all, f(x.at[j], more.at[j]...));
            return all;
          };
          return whole(load_pack<width>(first + i), load_pack<width>(in + i)...);
        }
        auto all = f(first[i], in[i]...);
        PARTITA_DEVICE_LOOP_NOT_UNROLLED
        while (++i < n) all = join(all, f(first[i], in[i]...));
        return all;
      });
    }
  }
  return reduce(team, n, [=](std::size_t i) { return f(first[i], in[i]...); });
}
}  // namespace detail

// As Team::sum and Team::max, of f(in[i]...). f converts to the type to add in.
template <class Team, class F, class... In>
PARTITA_HOST_DEVICE auto sum_of(Team const& team, std::size_t n, F f, In const*... in) {
  return detail::reduce_of([](Team const& t, std::size_t m, auto g) { return t.sum(m, g); }, [](auto a, auto b) { return a + b; },
                           team, n, f, in...);
}
template <class Team, class F, class... In>
PARTITA_HOST_DEVICE auto max_of(Team const& team, std::size_t n, F f, In const*... in) {
  return detail::reduce_of([](Team const& t, std::size_t m, auto g) { return t.max(m, g); },
                           [](auto a, auto b) { return a > b || a != a ? a : b; }, team, n, f, in...);  // a NaN stays
}

}  // namespace partita
