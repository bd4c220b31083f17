// The same of a mixture of experts, and of ops that no model here has.
#include <partita/device/cuda/kernels.hpp>
#include <partita/ops/concatenate.hpp>
#include <partita/ops/rename.hpp>
#include <partita/ops/transpose.hpp>

#include "../support/models/mixture.hpp"

namespace pt = partita;
namespace models = pt::testing::models;

// Over axes whose types spell their names.
using row = pt::axis<"row", 6>;
using column = pt::axis<"column", 8>;
using first = pt::axis<"first", 3>;
using last = pt::axis<"last", 5>;
using wide = pt::axis<"wide", 4>;
struct rearranging {
  constexpr auto operator()(auto& g) const {
    auto x = pt::linear(pt::input<pt::f32, row, column>(g, "x"), pt::param<pt::f32, column, wide>(g, "w"));
    auto y = pt::transpose<column, row>(pt::input<pt::f32, row, column>(g, "y"));
    auto both = pt::concatenate<column>(pt::slice<column, first>(y, 0), pt::slice<column, last>(y, 3));
    return pt::mean(pt::matmul(both, pt::rename<wide, pt::axis<"other", 4>>(x)));
  }
};

template struct pt::cuda_kernels<pt::training<models::mixture, pt::adamw, pt::clip_norm>>;
template struct pt::cuda_kernels<pt::training<pt::in_precision<models::mixture, pt::bf16>, pt::adamw, pt::clip_norm>>;
template struct pt::cuda_kernels<pt::training<rearranging>>;
