// Products of two tensors over any axes, in Einstein's notation: an axis that the result lacks is summed.
//   pt::einsum<"b s n d, b t n d -> b n s t">(q, k)
#pragma once
#include <string_view>

#include <partita/model/apply.hpp>
#include <partita/model/runs_kernel_of.hpp>
#include <partita/ops/annotation_text.hpp>
#include <partita/ops/contraction.hpp>

namespace partita {

namespace mistake {
template <class...> struct einsum_takes_two_tensors_and_makes_one;
template <class...> struct einsum_axis_stands_in_one_tensor_alone;
template <class...> struct einsum_axis_stands_twice_in_one_tensor;
}  // namespace mistake

namespace detail {
template <fixed_string Text> struct einsum_parts {
  struct found {
    std::string_view a, b, c;  // the operands, without spaces at their ends
    bool good = false;
    char alone = 0, twice = 0;
  };
  static constexpr std::string_view trim(std::string_view s) {
    while (!s.empty() && s.front() == ' ') s.remove_prefix(1);
    while (!s.empty() && s.back() == ' ') s.remove_suffix(1);
    return s;
  }
  static constexpr bool has(std::string_view s, char c) {
    for (char other : s)
      if (other == c) return true;
    return false;
  }
  static constexpr found value = [] {
    found f;
    const std::string_view text = Text.view();
    std::size_t commas = 0, comma = 0, arrow = text.size();
    for (std::size_t i = 0; i < text.size(); ++i) {
      const char c = text[i];
      if (!(c >= 'a' && c <= 'z') && !has(" ,.->+", c)) return f;
      if (c == ',') ++commas, comma = i;
      if (text[i] == '-' && i + 1 < text.size() && text[i + 1] == '>') arrow = i;
    }
    if (commas != 1 || arrow == text.size() || comma > arrow) return f;
    f.a = trim(text.substr(0, comma));
    f.b = trim(text.substr(comma + 1, arrow - comma - 1));
    f.c = trim(text.substr(arrow + 2));
    f.good = true;
    const std::string_view parts[]{f.a, f.b, f.c};  // nvcc cannot loop over a list without a name
    for (std::string_view part : parts)
      for (std::size_t i = 0; i < part.size(); ++i) {
        const char c = part[i];
        const bool rest = part.substr(i, 3) == "...";
        if ((c < 'a' || c > 'z') && !rest) continue;
        const int in = (has(f.a, c) ? 1 : 0) + (has(f.b, c) ? 1 : 0) + (has(f.c, c) ? 1 : 0);
        if (in < 2 && f.alone == 0) f.alone = c;
        for (std::size_t j = i + 1; j < part.size(); ++j)
          if (part[j] == c && !rest && f.twice == 0) f.twice = c;
      }
    return f;
  }();
  // "a, b -> c" with the marks that annotations have: '+' at what c lacks
  static constexpr annotation_text annotate(std::string_view a, std::string_view b, std::string_view c) {
    annotation_text t;
    auto put = [&](std::string_view part) {
      for (std::size_t i = 0; i < part.size(); ++i) {
        if (part[i] == '+') continue;
        t.put(part.substr(i, 1));
        const bool ends = part[i] != '.' || (i >= 2 && part.substr(i - 2, 3) == "...");
        if (part[i] != ' ' && ends && !has(c, part[i])) t.put("+");
      }
    };
    put(a);
    t.put(", ");
    put(b);
    t.put(" -> ");
    for (char x : c)
      if (x != '+') t.put({&x, 1});
    return t;
  }
  // 0: the product; 1 and 2: the gradients of its operands, products of dc and the other one
  static constexpr annotation_text texts[3]{annotate(value.a, value.b, value.c), annotate(value.c, value.b, value.a),
                                            annotate(value.a, value.c, value.b)};
};
}  // namespace detail

template <fixed_string Text, int Which = 0> struct einsum_op : runs_kernel_of<contraction_op> {
  static constexpr std::string_view name = Which == 0 ? "einsum" : "einsum.grad",
                                    annotation = detail::einsum_parts<Text>::texts[Which].view();
  static constexpr bool accumulates = true;
  static constexpr double flops_per_point = 2;
  static constexpr auto gradient(auto dy, auto, auto a, auto b) {
    return gradients{[=] { return apply<einsum_op<Text, 1>>(dy, b); }, [=] { return apply<einsum_op<Text, 2>>(a, dy); }};
  }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) { detail::contract(call); }
};

namespace ops {
// Every axis stands in two of the three tensors at least; '...' stands for any leading axes.
template <fixed_string Text, handle A, handle B> constexpr auto einsum(A a, B b) {
  using parts = detail::einsum_parts<Text>;
  if constexpr (!parts::value.good) return refuse<mistake::einsum_takes_two_tensors_and_makes_one<typename A::like_type>>(a, b);
  else if constexpr (parts::value.alone != 0)
    return refuse<mistake::einsum_axis_stands_in_one_tensor_alone<letter<parts::value.alone>>>(a, b);
  else if constexpr (parts::value.twice != 0)
    return refuse<mistake::einsum_axis_stands_twice_in_one_tensor<letter<parts::value.twice>>>(a, b);
  else return apply<einsum_op<Text>>(a, b);
}
// [..., m, k] times [..., k, n], the leading axes being the same.
template <handle A, handle B> constexpr auto matmul(A a, B b) { return ops::einsum<"... m k, ... k n -> ... m n">(a, b); }
}  // namespace ops
using namespace ops;

}  // namespace partita
