// Axes of the models that are measured; extents are bound where a plan or a trainer is made.
#pragma once
#include <vector>

#include <partita/planning.hpp>

namespace benchmark_model {

namespace pt = partita;

struct sample : pt::axis<"sample"> {};
struct position : pt::axis<"position"> {};
struct source : pt::axis<"source"> {};  // positions of the sequence that an encoder reads
struct vocabulary : pt::axis<"vocabulary"> {};
struct hidden : pt::axis<"hidden"> {};
struct head : pt::axis<"head"> {};
struct share : pt::axis<"share"> {};  // heads of queries for one head of keys
struct head_width : pt::axis<"head_width"> {};
struct inner : pt::axis<"inner"> {};
struct expert : pt::axis<"expert"> {};
struct slot : pt::axis<"slot"> {};

template <pt::dtype Type> constexpr auto layer_norm_of_hidden(auto& g, auto x, pt::label name = "norm") {
  auto s = pt::scope(g, name);
  return pt::layer_norm(x, pt::param<Type, hidden>(g, "scale", pt::ones), pt::param<Type, hidden>(g, "bias", pt::zeros));
}

}  // namespace benchmark_model
