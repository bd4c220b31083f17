// The table of docs/reference/ops.md, from the ops themselves: annotations, dtypes and letters that may be cut.
#include <iostream>
#include <partita/planning.hpp>
#include <partita/train/table.hpp>

namespace pt = partita;

struct named : pt::axis<"named"> {};

// Letters by what a cut of each does: an output's axis gives pieces, one that no output has gives parts of a sum (or,
// with "max", of a maximum), a whole one may not be cut.
template <class Op> void row(pt::table& all, const char* call) {
  constexpr pt::signature s = pt::annotation_of<Op>::parsed;
  std::string pieces, parts, whole;
  auto visit = [&](char letter, bool is_whole) {
    const std::string word = letter == pt::rest_letter ? "..." : std::string(1, letter);
    bool in_output = false;
    for (int o = 0; o < s.output_count; ++o) in_output = in_output || s.outputs[o].has(letter);
    std::string& list = is_whole ? whole : in_output ? pieces : parts;
    for (std::string* known : {&pieces, &parts, &whole})
      if ((" " + *known + " ").find(" " + word + " ") != std::string::npos) return;
    list += (list.empty() ? "" : " ") + word;
  };
  auto is_whole = [&](char letter) {
    for (int i = 0; i < s.input_count; ++i)
      for (int t = 0; t < s.inputs[i].rank; ++t) {
        pt::term const& x = s.inputs[i].terms[t];
        if ((x.letter == letter && x.whole) || x.inner == letter) return true;
      }
    return false;
  };
  for (pt::pattern const& p : s.inputs)
    for (int t = 0; t < p.rank; ++t) {
      visit(p.terms[t].letter, is_whole(p.terms[t].letter));
      if (p.terms[t].inner != 0) visit(p.terms[t].inner, true);
    }
  std::string types = "T -> T";
  if constexpr (requires { Op::dtypes; }) types = Op::dtypes;
  else if (s.input_count == 2) types = "T, T -> T";
  else if (s.input_count == 3) types = "T, T, T -> T";
  auto or_dash = [](std::string const& text) { return text.empty() ? "-" : text; };
  all.row(call, std::string(Op::annotation), types, or_dash(pieces), or_dash(parts), or_dash(whole));
}

int main() {
  pt::table all({"op", "annotation", "dtypes", "pieces", "parts", "whole"});
  row<pt::linear_op<1, 1, false>>(all, "linear(x, w)");
  row<pt::linear_op<2, 1, false>>(all, "  two axes summed");
  row<pt::linear_op<1, 2, false>>(all, "  two axes made");
  row<pt::bias_op<1>>(all, "bias(x, b)");
  row<pt::einsum_op<"... m k, ... k n -> ... m n">>(all, "matmul(a, b)");
  row<pt::einsum_op<"b s n d, b t n d -> b n s t">>(all, "einsum<\"..\">(a, b)");
  row<pt::embedding_op>(all, "embedding(ids, table)");
  row<pt::attention_op<false>>(all, "attention(q, k, v)");
  row<pt::attention_op<true>>(all, "causal_attention(q, k, v)");
  row<pt::attention_op<true, true>>(all, "  heads that share keys");
  row<pt::rotary_op<1>>(all, "rotary<position>(x)");
  row<pt::layer_norm_op<true>>(all, "layer_norm(x, s, b)");
  row<pt::layer_norm_op<false>>(all, "layer_norm(x, s)");
  row<pt::rms_norm_op>(all, "rms_norm(x, s)");
  row<pt::softmax_op<0>>(all, "softmax<axis>(x)");
  row<pt::relu_op>(all, "relu(x)");
  row<pt::gelu_op>(all, "gelu(x)");
  row<pt::gelu_exact_op>(all, "gelu_exact(x)");
  row<pt::silu_op>(all, "silu(x)");
  row<pt::sigmoid_op>(all, "sigmoid(x)");
  row<pt::tanh_op>(all, "tanh(x)");
  row<pt::dropout_op>(all, "dropout(x, p)");
  row<pt::add_op>(all, "a + b");
  row<pt::subtract_op>(all, "a - b");
  row<pt::multiply_op>(all, "a * b");
  row<pt::scale_op>(all, "scale(x, f)");
  row<pt::cast_op<pt::bf16>>(all, "cast<bf16>(x)");
  row<pt::sum_all_op<false>>(all, "sum(x)");
  row<pt::sum_all_op<true>>(all, "mean(x)");
  row<pt::sum_axis_op<0, false>>(all, "sum_over<axis>(x)");
  row<pt::sum_axis_op<0, true>>(all, "mean_over<axis>(x)");
  row<pt::transpose_op<1, 0>>(all, "transpose<b, a>(x)");
  row<pt::rename_op<named, 1, 0>>(all, "rename<from, to>(x)");
  row<pt::merge_op<named, 1, 0>>(all, "merge<a, b, ab>(x)");
  row<pt::split_axis_op<named, named, 1, 0>>(all, "split_axis<ab, a, b>(x)");
  row<pt::slice_op<named, 1, 0>>(all, "slice<axis, part>(x, i)");
  row<pt::concatenate_op<named, 1, 0>>(all, "concatenate<joined>(a, b)");
  row<pt::top_k_op<0>>(all, "top_k<axis>(x, k)");
  row<pt::assign_slots_op<named, 2>>(all, "assign_slots<slot>(gates)");
  row<pt::dispatch_op>(all, "dispatch(x, slots)");
  row<pt::combine_op>(all, "combine(z, gates, slots)");
  row<pt::load_balance_op>(all, "load_balance(p, gates)");
  all.rule();
  row<pt::row_max_op>(all, "cross_entropy: row_max");
  row<pt::softmax_terms_op>(all, "cross_entropy: softmax_terms");
  row<pt::token_count_op<pt::f32>>(all, "cross_entropy: token_count");
  row<pt::token_loss_op>(all, "cross_entropy: token_loss");
  all.rule();
  row<pt::square_sum_op>(all, "update: square_sum");
  row<pt::square_root_op>(all, "update: square_root");
  row<pt::clip_scale_op>(all, "update: clip_scale");
  row<pt::finite_guard_op>(all, "update: finite_guard");
  row<pt::sgd_op>(all, "update: sgd");
  row<pt::momentum_op>(all, "update: momentum");
  row<pt::adamw_op>(all, "update: adamw");
  std::cout << all;
}
