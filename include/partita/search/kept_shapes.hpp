// The shapes that a search works in. A few are kept: those that were asked for last, and those that configurations are being
// solved in. What is found out about a kind of segment on a grid serves all shapes that have it with the same tables.
#pragma once
#include <algorithm>
#include <map>
#include <memory>
#include <vector>

#include <partita/search/known_stages.hpp>

namespace partita::spaces {

class kept_shapes {
 public:
  explicit kept_shapes(problem const& p) : p_(p) {}
  kept_shapes(kept_shapes const&) = delete;

  // With which others a shape has tables: a number that these have too. They are kept together.
  int tables_of(int id) const { return p_.tables_of.empty() ? id : p_.tables_of[static_cast<std::size_t>(id)]; }
  shape_solver& of(int id) {
    related& x = all_[tables_of(id)];
    x.last = ++now_;
    auto& own = x.shapes[id];
    if (own) return *own;
    if (x.shapes.size() == 1) make_room(tables_of(id));
    own = std::make_unique<shape_solver>(p_.make_shape(id),
                                         [&](std::vector<variant> const& variants) -> std::shared_ptr<kind_solver> {
                                           const auto known = x.kinds.find(variants.front().costs.get());
                                           if (known == x.kinds.end()) return nullptr;
                                           for (kind const& k : known->second)
                                             if (same_tables(*k.of, variants)) return k.solver;
                                           return nullptr;
                                         });
    bool fresh = false;
    for (int g = 0; g < own->grids(); ++g)
      for (int k = 0; k < own->grid(g).kinds(); ++k) {
        std::vector<variant> const& variants = own->of().grids[static_cast<std::size_t>(g)].kinds[static_cast<std::size_t>(k)];
        std::vector<kind>& known = x.kinds[variants.front().costs.get()];
        if (std::any_of(known.begin(), known.end(), [&](kind const& o) { return same_tables(*o.of, variants); })) continue;
        known.push_back({&variants, own->grid(g).shared_kind(k)});
        fresh = true;
      }
    made_ += fresh;
    return *own;
  }
  // It is kept until it is released as often as it was held.
  void hold(int id) { ++all_.at(tables_of(id)).holders; }
  void release(int id) { --all_.at(tables_of(id)).holders; }
  // How many were made that had tables of their own.
  long made() const { return made_; }
  long eliminations() const {
    long n = gone_;
    for (auto const& x : all_) n += eliminations(x.second);
    return n;
  }

 private:
  static constexpr std::size_t most = 16;  // that share no tables
  struct kind {
    std::vector<variant> const* of;  // of the first shape that had it
    std::shared_ptr<kind_solver> solver;
  };
  struct related {
    std::map<int, std::unique_ptr<shape_solver>> shapes;
    std::map<table const*, std::vector<kind>> kinds;  // by the first variant's
    long last = 0;
    int holders = 0;
  };
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
  void make_room(int for_these) {
    if (all_.size() <= most) return;
    auto oldest = all_.end();
    for (auto at = all_.begin(); at != all_.end(); ++at)
      if (at->first != for_these && at->second.holders == 0 && (oldest == all_.end() || at->second.last < oldest->second.last))
        oldest = at;
    if (oldest == all_.end()) return;
    gone_ += eliminations(oldest->second);
    all_.erase(oldest);
  }

  problem const& p_;
  std::map<int, related> all_;
  long now_ = 0, made_ = 0, gone_ = 0;  // gone: eliminations of what is not kept any more
};

}  // namespace partita::spaces
