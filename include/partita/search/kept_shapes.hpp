// The shapes that a search works in. A few are kept: those that were asked for last, and those that configurations are being
// solved in. What is found out about a kind of segment on a grid serves all shapes that have it with the same tables.
#pragma once
#include <algorithm>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include <partita/search/known_stages.hpp>
#include <partita/search/least_of_part.hpp>

namespace partita::spaces {

class kept_shapes {
 public:
  explicit kept_shapes(problem const& p) : p_(p) {}
  kept_shapes(kept_shapes const&) = delete;

  // With which others a shape has tables: a number that these have too. They are kept together.
  int tables_of(int id) const { return p_.tables_of.empty() ? id : p_.tables_of[static_cast<std::size_t>(id)]; }
  shape_solver& of(int id) {
    related& x = with(id);
    auto& own = x.shapes[id];
    if (own) return *own;
    if (x.shapes.size() == 1) make_room(tables_of(id), true);
    own = std::make_unique<shape_solver>(p_.make_shape(id),
                                         [&](std::vector<variant> const& variants) { return x.known(variants); });
    for (int g = 0; g < own->grids(); ++g)
      for (int k = 0; k < own->grid(g).kinds(); ++k)
        x.add(own->of().grids[static_cast<std::size_t>(g)].kinds[static_cast<std::size_t>(k)], own->grid(g).shared_kind(k));
    return *own;
  }
  // What the shape's part tells of a configuration (least_of_part.hpp); 0 where there is none.
  double least_by_part(configuration const& c, std::vector<int> const& counts) {
    if (!p_.make_part) return 0;
    const int number = p_.parts_of.empty() ? c.shape : p_.parts_of[static_cast<std::size_t>(c.shape)];
    auto known = of_parts_.find(number);
    if (known == of_parts_.end()) {
      related& x = with(c.shape);
      x.parts.push_back(p_.make_part(c.shape));
      known = of_parts_
                  .try_emplace(number, x.parts.back(),
                               [&](grid_choice const& g) -> kind_solver& {
                                 std::shared_ptr<kind_solver> of = x.known(g.kinds.front());
                                 if (!of) x.add(g.kinds.front(), of = std::make_shared<kind_solver>(g.kinds.front()));
                                 return *of;
                               })
                  .first;
    }
    return known->second.seconds(c, counts, p_.needs ? p_.needs(c.shape) : shape_needs{});
  }
  // It is kept until it is released as often as it was held.
  void hold(int id) { ++all_.at(tables_of(id)).holders; }
  void release(int id) { --all_.at(tables_of(id)).holders; }
  long eliminations() const {
    long n = gone_;
    for (auto const& x : all_) n += eliminations(x.second);
    return n;
  }

 private:
  static constexpr std::size_t most = 16;  // that share no tables, and as many of which there are parts alone
  struct kind {
    std::vector<variant> const* of;  // of the first shape or part that had it
    std::shared_ptr<kind_solver> solver;
  };
  struct related {
    std::map<int, std::unique_ptr<shape_solver>> shapes;
    std::deque<shape_part> parts;
    std::map<table const*, std::vector<kind>> kinds;  // by the first variant's
    long last = 0;
    int holders = 0;

    std::shared_ptr<kind_solver> known(std::vector<variant> const& variants) const {
      if (const auto found = kinds.find(variants.front().costs.get()); found != kinds.end())
        for (kind const& k : found->second)
          if (same_tables(*k.of, variants)) return k.solver;
      return nullptr;
    }
    void add(std::vector<variant> const& variants, std::shared_ptr<kind_solver> solver) {
      if (!known(variants)) kinds[variants.front().costs.get()].push_back({&variants, std::move(solver)});
    }
  };
  related& with(int id) {
    const auto [place, fresh] = all_.try_emplace(tables_of(id));
    place->second.last = ++now_;
    if (fresh) make_room(place->first, false);
    return place->second;
  }
  static bool same_tables(std::vector<variant> const& a, std::vector<variant> const& b) {
    return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](variant const& x, variant const& y) {
      return x.costs == y.costs && x.replays == y.replays && x.saves_memory_alone == y.saves_memory_alone;
    });
  }
  static long eliminations(related const& x) {
    long n = 0;
    for (auto const& with_table : x.kinds)
      for (kind const& k : with_table.second) n += k.solver->eliminations();
    return n;
  }
  // Parts are counted by themselves: most of them are looked at once, and must not take the place of shapes.
  void make_room(int for_these, bool whole) {
    std::size_t alike = 0;
    auto oldest = all_.end();
    for (auto at = all_.begin(); at != all_.end(); ++at) {
      if (at->second.shapes.empty() == whole) continue;
      ++alike;
      if (at->first != for_these && at->second.holders == 0 && (oldest == all_.end() || at->second.last < oldest->second.last))
        oldest = at;
    }
    if (alike <= most || oldest == all_.end()) return;
    gone_ += eliminations(oldest->second);
    all_.erase(oldest);
  }

  problem const& p_;
  std::map<int, related> all_;
  std::map<int, least_of_part> of_parts_;
  long now_ = 0, gone_ = 0;  // gone: eliminations of what is not kept any more
};

}  // namespace partita::spaces
