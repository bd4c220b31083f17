// A point of a small space, as `chosen` asks for it, which makes a plan of it.
#pragma once
#include <utility>
#include <vector>

#include <partita/search/shape_info.hpp>
#include <partita/search/small_space.hpp>
#include <partita/search/spread_ways.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::spaces {

// What is referred to must outlive this.
template <class Costs> class at_point {
 public:
  constexpr at_point(small_space<Costs> const& s, small_point const& x) : space_(s), point_(x) { set(); }
  struct configurations_alone {
    std::vector<configuration> configurations;
  };
  constexpr configurations_alone const& of() const { return problem_; }
  constexpr std::vector<shape_info> const& shapes() const { return shapes_; }
  constexpr segmented_model const& model() const { return space_.model(); }
  constexpr int segments() const { return static_cast<int>(model().segments.size()); }
  constexpr bool spreads(int, shape_info const&) const { return false; }
  constexpr std::vector<spread_way> const& ways_to_spread(shape_info const&) const { return nothing_spread_; }
  constexpr table_key key_of_spread(int, shape_info const&, spread_way const&) const { return {}; }
  constexpr table_key const& key_of(int segment, shape_info const&, int, int) const { return table_of(segment).key; }
  constexpr way_to_run way(int segment, int variant) const { return space_.ways_of(segment)[static_cast<std::size_t>(variant)]; }

  constexpr choice chosen() const {
    choice r;
    r.configuration = 0;
    for (int s = 0; s < point_.stages; ++s) {
      stage_choice stage{point_.begins[s], 0, {}};
      const int end = s + 1 < point_.stages ? point_.begins[s + 1] : segments();
      for (int i = stage.begin; i < end; ++i) {
        const bool again = (point_.again >> i & 1) != 0;
        const int variant = again && !space_.ways_of(i).front().again ? 1 : 0;
        stage.segments.push_back({variant, space_.options_of(table_of(i), point_, again)});
      }
      r.stages.push_back(std::move(stage));
    }
    return r;
  }

 private:
  using searched_table = typename small_space<Costs>::searched_table;
  constexpr searched_table const& table_of(int segment) const {
    return tables_[static_cast<std::size_t>(model().segments[static_cast<std::size_t>(segment)].kind)];
  }
  constexpr void set() {
    problem_.configurations.push_back({0, point_.stages, {}, 0, 0});
    shape_info shape;
    shape.devices = point_.devices;
    shape.micro_batches = point_.micro_batches;
    shape.schedule.kind = point_.schedule;
    shape.grids.push_back({point_.outer, point_.inner});
    shape.places.push_back(0);
    tables_ = space_.tables_of(point_, shape.schedule.fills());
    shapes_.push_back(std::move(shape));
  }
  small_space<Costs> const& space_;
  small_point const& point_;
  configurations_alone problem_{};
  std::vector<shape_info> shapes_{};
  std::vector<searched_table> tables_{};  // by kind of segment
  std::vector<spread_way> nothing_spread_{};
};

}  // namespace partita::spaces

#include <partita/core/end_planning_code.hpp>
