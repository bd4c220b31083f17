// Which chains of element-wise ops a training has, found while compiling: every run of up to four ops each of which reads what an
// earlier one of them makes or reads, or makes what the next one reads beside that, in the graph of the training's default value.
// A program that fuses finds its kernels here; what the plan cuts apart, or a training's other values change, runs by the parts
// that are here. The ops of a chain stand as in the graph, whatever their order in a program.
#pragma once
#include <cstddef>
#include <span>
#include <utility>

#include <partita/device/cuda/chain.hpp>
#include <partita/grad/training.hpp>
#include <partita/model/runs_kernel_of.hpp>

namespace partita::on_cuda {

// An op as a link, eight elements or four at a time: null where it is none, or has operands narrower than four bytes.
struct link_functions {
  link_function eight = nullptr, four = nullptr;
  bool is_link() const { return eight != nullptr; }
};
template <class Op, dtype... In> constexpr link_functions link_functions_of() {
  if constexpr (!detail::is_link<Op, In...>()) return {};
  else if constexpr (detail::has_narrow_operand<Op, In...>()) return {&run_link<Op, 8, In...>, nullptr};
  else return {&run_link<Op, 8, In...>, &run_link<Op, 4, In...>};
}

// Ops, and which of them makes the inputs of which.
struct chain_pattern {
  int count = 0;
  bool by_eight = false;
  link_function links[most_links]{};
  signed char from[most_links][most_link_inputs]{};
  constexpr bool operator==(chain_pattern const& other) const {
    if (count != other.count || by_eight != other.by_eight) return false;
    for (int l = 0; l < count; ++l) {
      if (links[l] != other.links[l]) return false;
      for (int k = 0; k < most_link_inputs; ++k)
        if (from[l][k] != other.from[l][k]) return false;
    }
    return true;
  }
  // Of ops that are links, in their order.
  constexpr void add(link_functions const& f, signed char from_first, signed char from_second) {
    links[count] = f.eight;
    wide_[count] = f.four;
    from[count][0] = from_first;
    from[count++][1] = from_second;
  }
  // Four elements at a time are enough where every operand has four bytes.
  constexpr void choose_width() {
    by_eight = false;
    for (int l = 0; l < count; ++l) by_eight = by_eight || wide_[l] == nullptr;
    for (int l = 0; l < count; ++l)
      if (!by_eight) links[l] = wide_[l];
  }

 private:
  link_function wide_[most_links]{};
};

struct chain_kernel {
  chain_pattern pattern;
  void (*launch)(chain_arguments const&, unsigned blocks, unsigned threads, void* stream) = nullptr;
};

namespace detail {
struct backend_of_links {
  using launcher = link_functions;
  template <class Op, dtype... In> static constexpr launcher launch() {
    if constexpr (requires(Op const* op) { of_kernel<In...>(op); }) return of_kernel<In...>(static_cast<Op const*>(nullptr));
    else return link_functions_of<Op, In...>();
  }

 private:
  template <dtype... In, class Kernel> static constexpr launcher of_kernel(runs_kernel_of<Kernel> const*) {
    return link_functions_of<Kernel, In...>();
  }
};

struct chain_patterns {
  static constexpr int most = 96;
  int count = 0;
  chain_pattern at[most]{};
  constexpr void add(chain_pattern const& p) {
    for (int i = 0; i < count; ++i)
      if (at[i] == p) return;
    if (count < most) at[count++] = p;
  }
};

// Walks the chains of a graph.
template <class G> class chain_search {
 public:
  constexpr chain_search(G const& g, chain_patterns& found) : g_(g), found_(found) {
    first_reader_.append(g.tensors.size + 1, 0);
    for (int op = 0; op < g.ops.size; ++op)
      for (int k = 0; k < g.ops[op].input_count; ++k) ++first_reader_[tensor(op, k) + 1];
    for (int t = 0; t < g.tensors.size; ++t) first_reader_[t + 1] += first_reader_[t];
    growing<int> placed;
    placed.append(g.tensors.size, 0);
    readers_.append(first_reader_[g.tensors.size], 0);
    for (int op = 0; op < g.ops.size; ++op)
      for (int k = 0; k < g.ops[op].input_count; ++k) readers_[first_reader_[tensor(op, k)] + placed[tensor(op, k)]++] = op;
  }
  constexpr void run() {
    for (int op = 0; op < g_.ops.size; ++op)
      if (g_.launchers[op].eight != nullptr) extend(op, {}, 0);
  }

 private:
  // What an op's input is, through ops that change its axes alone.
  constexpr int tensor(int op, int k) const {
    int t = g_.input(g_.ops[op], k);
    while (g_.ops[g_.tensors[t].op].info->is_view) t = g_.input(g_.ops[g_.tensors[t].op], 0);
    return t;
  }
  constexpr void add(int op, chain_pattern& p, int& count) {
    signed char from[most_link_inputs]{-1, -1};
    for (int k = 0; k < g_.ops[op].input_count && k < most_link_inputs; ++k)
      for (int m = 0; m < count; ++m)
        if (tensor(op, k) == g_.ops[members_[m]].first_output) from[k] = static_cast<signed char>(m);
    p.add(g_.launchers[op], from[0], from[1]);
    members_[count++] = op;
  }
  constexpr void extend(int op, chain_pattern p, int count) {
    add(op, p, count);
    if (count > 1) {
      chain_pattern whole = p;
      whole.choose_width();
      found_.add(whole);
    }
    if (count == most_links) return;
    int tried[most_tried]{}, tried_count = 0;
    const auto try_readers = [&](int t) {
      for (int r = first_reader_[t]; r < first_reader_[t + 1]; ++r) {
        const int next = readers_[r];
        bool again = next <= op || g_.launchers[next].eight == nullptr;
        for (int i = 0; i < tried_count; ++i) again = again || tried[i] == next;
        if (again || tried_count == most_tried) continue;
        tried[tried_count++] = next;
        extend(next, p, count);
        if (count + 2 <= most_links) extend_by_two(next, p, count);
      }
    };
    for (int m = 0; m < count; ++m) {
      try_readers(g_.ops[members_[m]].first_output);
      for (int k = 0; k < g_.ops[members_[m]].input_count; ++k) try_readers(tensor(members_[m], k));
    }
  }

  // `op`, after what makes an input of it that the chain does not touch.
  constexpr void extend_by_two(int op, chain_pattern const& p, int count) {
    for (int k = 0; k < g_.ops[op].input_count; ++k) {
      const int maker = g_.tensors[tensor(op, k)].op;
      if (maker <= members_[count - 1] || maker >= op || g_.launchers[maker].eight == nullptr || touches(maker, count)) continue;
      chain_pattern both = p;
      int more = count;
      add(maker, both, more);
      extend(op, both, more);
    }
  }
  constexpr bool touches(int op, int count) const {
    for (int k = 0; k < g_.ops[op].input_count; ++k)
      for (int m = 0; m < count; ++m) {
        if (tensor(op, k) == g_.ops[members_[m]].first_output) return true;
        for (int j = 0; j < g_.ops[members_[m]].input_count; ++j)
          if (tensor(op, k) == tensor(members_[m], j)) return true;
      }
    return false;
  }

  static constexpr int most_tried = 8;  // of the readers of what a chain touches
  G const& g_;
  chain_patterns& found_;
  growing<int> first_reader_, readers_;  // by tensor: where its readers begin in readers_
  int members_[most_links]{};
};

template <class Training> constexpr chain_patterns find_chains() {
  chain_patterns found;
  recorder<backend_of_links, Training> g;
  trace(g, Training{});
  chain_search(g, found).run();
  return found;
}
// A model that is no constant, as one that reads its form from a file, has no chains.
template <class Training>
concept is_traced_while_compiling = requires {
  typename std::integral_constant<int, find_chains<Training>().count>;
};

template <class Launch, class Training> struct chain_table {
  static constexpr chain_patterns patterns = find_chains<Training>();
  template <int Pattern, std::size_t... L> static constexpr chain_kernel kernel(std::index_sequence<L...>) {
    constexpr chain_pattern const& p = patterns.at[Pattern];
    return {p, &Launch::template run_chain<(p.by_eight ? 8 : 4), link_of<p.links[L], p.from[L][0], p.from[L][1]>...>};
  }
  template <int... Patterns> struct list_of {
    static constexpr chain_kernel all[sizeof...(Patterns) + 1]{
        kernel<Patterns>(std::make_index_sequence<static_cast<std::size_t>(patterns.at[Patterns].count)>{})..., chain_kernel{}};
  };
  template <int... Patterns> static constexpr std::span<chain_kernel const> all(std::integer_sequence<int, Patterns...>) {
    return {list_of<Patterns...>::all, sizeof...(Patterns)};
  }
};
}  // namespace detail

// `Launch::run_chain<width, link_of<..>..>` puts a chain's kernel into a stream.
template <class Launch, class Training> constexpr std::span<chain_kernel const> chain_kernels_of() {
  if constexpr (detail::is_traced_while_compiling<Training>) {
    using table = detail::chain_table<Launch, Training>;
    return table::all(std::make_integer_sequence<int, table::patterns.count>{});
  } else return {};
}

}  // namespace partita::on_cuda
