#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include <partita/grad/training.hpp>
#include <partita/model/names.hpp>
#include <partita/ops/add.hpp>
#include <partita/ops/linear.hpp>
#include <partita/ops/optimizer_ops.hpp>

namespace pt = partita;

namespace {
struct batch : pt::axis<"batch", 4> {};
struct wide : pt::axis<"wide", 6> {};

// Two unary ops of one kind on the same input; only their readers tell them apart. Swapped: made in the other order,
// as the arguments of one call are at run time and in constant evaluation.
template <bool Swapped> struct twins {
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, batch>(g, "x");
    auto p = pt::param<pt::f32, batch>(g, "p");
    auto s = pt::scope(g, "block", 1);
    auto make = [](auto a) { return pt::apply<pt::square_root_op>(a); };
    auto both = [&] {
      if constexpr (Swapped) {
        auto second = make(x), first = make(x);
        return std::pair{first, second};
      } else {
        auto first = make(x), second = make(x);
        return std::pair{first, second};
      }
    }();
    auto deeper = make(make(both.first));
    return pt::apply<pt::square_sum_op>(deeper + (both.second + p));
  }
};
struct layers {
  constexpr auto operator()(auto& g) const {
    auto h = pt::input<pt::f32, batch, wide>(g, "x");
    for (int l = 0; l < 2; ++l) {
      auto s = pt::scope(g, "block", l);
      auto w = pt::param<pt::f32, wide, wide>(g, "fc.weight");
      h = pt::linear(pt::linear(h, w), w);
      h = h + h;
    }
    return pt::apply<pt::square_sum_op>(h);
  }
};
template <class Model> struct traced {
  pt::recorder<pt::planning_only, pt::training<Model, pt::adamw>> g;
  pt::list<std::string> names;
  traced() {
    (void)Model{}(g);
    names = pt::unique_names(g);
  }
  bool has(std::string_view name) const { return std::find(names.begin(), names.end(), name) != names.end(); }
};
// name -> names of the inputs, sorted: the graph without ids
template <class Model> std::multiset<std::string> by_name() {
  traced<Model> t;
  std::multiset<std::string> lines;
  for (int op = 0; op < t.g.ops.size; ++op) {
    std::string line = t.names[static_cast<std::size_t>(op)] + " <-";
    for (int i = 0; i < t.g.ops[op].input_count; ++i)
      line += " " + t.names[static_cast<std::size_t>(t.g.tensors[t.g.input(t.g.ops[op], i)].op)];
    lines.insert(line);
  }
  return lines;
}
}  // namespace

TEST_CASE("every op has a name of its own: scope, name, kind, and a number for further ones") {
  traced<layers> t;
  CHECK(std::set<std::string>(t.names.begin(), t.names.end()).size() == t.names.size());
  for (auto name : {"x", "block.0.fc.weight", "block.0.fc/linear", "block.0.fc/linear#2", "block.0.add", "block.1.fc/linear",
                    "block.1.fc/linear#2", "block.1.add", "square_sum"}) {
    INFO(name);
    CHECK(t.has(name));
  }
  CHECK_FALSE(t.has("block.1.fc/linear#3"));
}

TEST_CASE("names do not depend on the order in which ops were made") {
  CHECK(by_name<twins<false>>() == by_name<twins<true>>());
  CHECK(by_name<twins<false>>().count("block.1.square_root#3 <- block.1.square_root") +
            by_name<twins<false>>().count("block.1.square_root#3 <- block.1.square_root#2") ==
        1);
}
