// A small model, which both the program and its kernels include.
#pragma once
#include <partita/grad/training.hpp>
#include <partita/ops/linear.hpp>
#include <partita/ops/sum.hpp>

struct sample : partita::axis<"sample", 8> {};
struct in : partita::axis<"in", 4> {};
struct label : partita::axis<"label", 2> {};

struct linear_model {
  constexpr auto operator()(auto& g) const {
    auto x = partita::input<partita::f32, sample, in>(g, "x");
    return partita::mean(partita::linear(x, partita::param<partita::f32, in, label>(g, "fc.weight")));
  }
};
using linear_training = partita::training<linear_model>;
