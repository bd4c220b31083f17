// A space that is made from a model, with names for people, as a document.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "space_cases.hpp"

namespace benchmark_spaces {

// What the variables of each table choose.
inline void name_variables(pt::spaces::plan_space const& of, pt::spaces::space_file::document& d) {
  using variable = pt::spaces::table_key::variable;
  pt::graph_data const& g = of.graph();
  pt::spaces::segmented_model const& m = of.model();
  d.segments.emplace();
  for (pt::spaces::segment const& s : m.segments) d.segments->emplace_back(s.name.view());
  auto name_of = [&](int op) { return std::string(g.name(op).view()) + " (" + std::string(g.ops[op].info->kind) + ")"; };
  for (std::size_t s = 0; s < d.shapes.size(); ++s)
    for (std::size_t grid = 0; grid < d.shapes[s].grids.size(); ++grid)
      for (std::size_t kind = 0; kind < d.shapes[s].grids[grid].kinds.size(); ++kind)
        for (std::size_t v = 0; v < d.shapes[s].grids[grid].kinds[kind].size(); ++v) {
          auto& t = d.tables[static_cast<std::size_t>(d.shapes[s].grids[grid].kinds[kind][v].table)];
          if (t.names) continue;
          t.names.emplace();
          const int first = m.first_of_kind[kind];
          pt::spaces::segment const& segment = m.segments[static_cast<std::size_t>(first)];
          auto const& key = of.key_of(first, of.shapes()[s], static_cast<int>(grid), static_cast<int>(v));
          for (std::size_t i = 0; i < key.variables.size(); ++i) {
            variable const& x = key.variables[i];
            std::string name = i == 0 ? "entry" : "exit";
            if (x.what == variable::gathered) name = "gathered: " + name_of(g.tensors[x.tensor].op);
            if (x.what == variable::cut || x.what == variable::zero)
              name = name_of(segment.ops[static_cast<std::size_t>(x.op)].op);
            if (x.what == variable::zero) name = "ZeRO: " + name;
            t.names->push_back(name);
          }
        }
}

// The space of a case, and what it refers to.
class made_space {
 public:
  template <class Model>
  made_space(Model const& model, std::vector<pt::binding> const& extents, pt::cluster const& on, pt::constraints const& given)
      : prices_(on) {
    using training = pt::training<Model, pt::adamw>;
    const auto traced = std::make_shared<pt::plan<training> const>(training{model, {}, {}, {}}, extents);
    traced_ = traced;
    space_ = std::make_unique<pt::spaces::plan_space>(traced->traced(), traced->traced().forward_count, prices_, given);
  }
  pt::spaces::plan_space const& space() const { return *space_; }

 private:
  std::shared_ptr<void const> traced_;
  pt::costs prices_;
  std::unique_ptr<pt::spaces::plan_space> space_;
};

template <class Model> pt::spaces::space_file::document document_of(std::string const& words, Model const& model,
                                                                    std::vector<pt::binding> const& extents,
                                                                    pt::cluster const& on, pt::constraints const& given) {
  const made_space made(model, extents, on, given);
  pt::spaces::space_file::document d = pt::spaces::describe_space(made.space().of(), "plans of a model on a cluster");
  d.model = words;
  d.cluster = on.name;
  d.constraints = in_words(given);
  name_variables(made.space(), d);
  return d;
}

}  // namespace benchmark_spaces
