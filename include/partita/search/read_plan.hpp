// A plan as a point of a space, or the point next to it: what `chosen` does, backwards.
#pragma once
#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <partita/search/chosen.hpp>
#include <partita/search/narrowed.hpp>
#include <partita/search/same_plan.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::spaces {

struct point_of_plan {
  choice point;         // not found: the space has none near the plan
  std::string differs;  // how the plan differs from the one that the point makes; empty: it does not
  bool is_of_space() const { return point.found() && differs.empty(); }
};

// Stages, devices, micro-batches, cuts, ZeRO stages and what runs again are read from the plan's words. What these leave open
// (layouts between segments, forms in which tensors are gathered) is chosen so that it costs the least: all such points make
// one plan. So is the cut of an op that no option of the space is.
class plan_reader {
 public:
  plan_reader(plan_space const& s, plan_base const& plan) : space_(s), p_(s.of()), g_(s.graph()), plan_(plan) {
    caused_.resize(static_cast<std::size_t>(g_.ops.size));
    for (int op = 0; op < g_.ops.size; ++op) {
      lies_.push_back(lies_of(g_, plan, op));
      if (g_.ops[op].origin != op) caused_[static_cast<std::size_t>(g_.ops[op].origin)].push_back(op);
    }
  }
  point_of_plan read() {
    point_of_plan r;
    if (!read_stages(r.differs)) return r;
    // A phase may be of something else than chunks.
    const bool in_a_row = std::is_sorted(stage_of_.begin(), stage_of_.end());
    if (in_a_row && std::none_of(p_.configurations.begin(), p_.configurations.end(), [&](auto const& c) { return may_be(c); }))
      chunks_ = 1;
    // What fits is looked for everywhere first: a plan that does not fit in one configuration may fit in another.
    for (const bool fits : {true, false})
      for (std::size_t c = 0; c < p_.configurations.size() && !r.is_of_space(); ++c)
        if (may_be(p_.configurations[c])) look_in(static_cast<int>(c), fits, r);
    if (!r.point.found() && r.differs.empty())
      r.differs = words(
          {"the space has no plan of ", stages_, " stages of ", devices_, " devices and ", micro_batches_, " micro-batches"});
    return r;
  }

 private:
  segment const& segment_of(int number) const { return space_.model().segments[static_cast<std::size_t>(number)]; }
  op_lies const& lies(int op) const { return lies_[static_cast<std::size_t>(op)]; }
  plan_space::shape_info const& info_of(configuration const& c) const {
    return space_.shapes()[static_cast<std::size_t>(c.shape)];
  }

  // Which stage has which segments; false where it is not told.
  bool read_stages(std::string& why) {
    std::map<int, int> counts;  // of ops, by devices; of those that may be spread none, as there are others
    std::set<int> phases;
    for (int i = 0; i < space_.segments(); ++i)
      for (searched_op const& x : segment_of(i).ops) {
        op_lies const& l = lies(x.op);
        if (l.devices == 0) {
          why = words({"op ", g_.name(x.op).view(), " lies on devices that are no run"});
          return false;
        }
        if (!space_.may_spread(i)) ++counts[l.devices];
        for (cut_in_time const& t : l.time)
          if (t.letter >= 0 && x.is_batch[t.letter]) micro_batches_ = std::max(micro_batches_, t.pieces);
      }
    auto by_count = [](auto const& a, auto const& b) { return a.second < b.second; };
    devices_ = std::max_element(counts.begin(), counts.end(), by_count)->first;
    auto lies_wider = [&](searched_op const& x) { return lies(x.op).devices > devices_; };
    for (int i = 0; i < space_.segments(); ++i)
      spreads_ =
          spreads_ || (space_.may_spread(i) && std::any_of(segment_of(i).ops.begin(), segment_of(i).ops.end(), lies_wider));
    for (int i = 0; i < space_.segments(); ++i)
      for (searched_op const& x : segment_of(i).ops)
        if (!spreads_ || !space_.may_spread(i)) phases.insert(lies(x.op).phases.begin(), lies(x.op).phases.end());
    if (!phases.empty()) chunks_ = *phases.rbegin() + 1;  // short stages have nothing in some, the last one always in the last
    for (int i = 0; i < space_.segments(); ++i) {
      if (spreads_ && space_.may_spread(i)) {
        stage_of_.push_back(-1);
        for (searched_op const& x : segment_of(i).ops) stages_ = std::max(stages_, lies(x.op).devices / devices_);
        continue;
      }
      std::map<int, int> of_stage;
      for (searched_op const& x : segment_of(i).ops) ++of_stage[lies(x.op).first / devices_];
      stage_of_.push_back(std::max_element(of_stage.begin(), of_stage.end(), by_count)->first);
      stages_ = std::max(stages_, stage_of_.back() + 1);
    }
    place_spread();
    for (int s = 0; s < stages_; ++s)
      if (!has_segments(s)) {
        why = words({"no block lies on stage ", s, " of ", stages_});
        return false;
      }
    if (chunks_ == 1 && !std::is_sorted(stage_of_.begin(), stage_of_.end())) {
      why = "the blocks of a stage do not follow one another";
      return false;
    }
    return true;
  }
  bool has_segments(int stage) const { return std::find(stage_of_.begin(), stage_of_.end(), stage) != stage_of_.end(); }
  // A spread segment has its place beside what comes next, or on the stage before that where no block lies.
  void place_spread() {
    const std::size_t n = stage_of_.size();
    std::vector<char> spread(n);
    for (std::size_t i = n; i-- > 0;)
      if (stage_of_[i] < 0) {
        spread[i] = true;
        stage_of_[i] = i + 1 < n ? stage_of_[i + 1] : stages_ - 1;
      }
    for (std::size_t i = 0; i < n; ++i)
      if (const int before = stage_of_[i] - 1; spread[i] && before >= 0 && !has_segments(before)) stage_of_[i] = before;
  }
  bool may_be(configuration const& c) const {
    auto const& s = info_of(c);
    return c.stages == stages_ && s.devices == devices_ && s.micro_batches == micro_batches_ && s.schedule.chunks == chunks_ &&
           s.schedule.spreads() == spreads_;
  }

  // Of what the plan leaves open the fastest, of all ways to spread, whose memory `fits` or is not looked at. The point next to
  // the plan, where none makes it, is the first.
  void look_in(int number, bool fits, point_of_plan& r) const {
    configuration const& c = p_.configurations[static_cast<std::size_t>(number)];
    shape s = p_.make_shape(c.shape);
    std::vector<told_stage> told, on_all;
    if (!tell(c, s, told, on_all)) return;
    problem roomy;
    if (!fits) {
      roomy = p_;
      roomy.limit = infinite;
      for (grid_choice& g : s.grids) g.limit = infinite;
    }
    problem const& p = fits ? p_ : roomy;
    double least = infinite;  // seconds of points that make the plan
    const int ways = spreads_ ? static_cast<int>(space_.ways_to_spread(info_of(c)).size()) : 1;
    for (std::vector<told_stage> const* of : {&told, &on_all})
      for (int way = 0; way < ways && !of->empty(); ++way) {
        const choice x = narrowed(p, s, number, way, *of).best();
        if (!x.found()) continue;
        const double seconds = time_and_memory(p, s, x).time;
        if (seconds >= least) continue;
        plan_base made(g_);
        chosen(space_, x)(made);
        std::string differs = difference_of(g_, plan_, made);
        if (r.point.found() && !differs.empty()) continue;
        if (differs.empty()) least = seconds;
        r = {x, std::move(differs)};
      }
  }
  // Stages in the order of the chain: chunks are dealt by `chosen`. False: the configuration has no such stages. `told`: on those
  // grids alone that have all that is read, where there are such; `on_all`: on the others too, or nothing where that is all.
  bool tell(configuration const& c, shape const& s, std::vector<told_stage>& told, std::vector<told_stage>& on_all) const {
    bool some_lack = false;
    for (int stage = 0, begin = 0; stage < stages_; ++stage) {
      std::vector<int> read_from;
      for (std::size_t i = 0; i < stage_of_.size(); ++i)
        if (stage_of_[i] == stage) read_from.push_back(static_cast<int>(i));
      if (begin > 0 && !p_.begins(begin, stages_)) return false;
      told_stage& of = told.emplace_back(told_stage{begin, grids_of(info_of(c), stage, read_from), {}});
      std::vector<char> has(of.grids.size(), true);
      for (int from : read_from) {
        const int place = begin++;
        if (!p_.lies(place, stage, s.devices)) return false;
        const int kind = p_.chain[static_cast<std::size_t>(place)];
        if (kind != p_.chain[static_cast<std::size_t>(from)]) return false;  // its table is of another kind
        told_segment& x = of.segments.emplace_back();
        if (space_.spreads(from, info_of(c))) continue;  // as the stages see it, in any layouts
        x.variant = variant_of(from, s.grids.front().kinds[static_cast<std::size_t>(kind)].size());
        for (std::size_t g = 0; g < of.grids.size(); ++g) {
          allowed on = allowed_by(from, space_.key_of(from, info_of(c), of.grids[g], x.variant), info_of(c), of.grids[g]);
          x.options.push_back(std::move(on.options));
          has[g] = has[g] && on.as_read;
        }
      }
      on_all.push_back(of);
      if (std::count(has.begin(), has.end(), false) % static_cast<std::ptrdiff_t>(has.size()) == 0) continue;  // all or none
      some_lack = true;
      keep_those(of.grids, has);
      for (told_segment& x : of.segments) keep_those(x.options, has);
    }
    if (!some_lack) on_all.clear();
    return !told.empty();
  }
  // Empty lists stay empty.
  template <class T> static void keep_those(std::vector<T>& list, std::vector<char> const& kept) {
    std::vector<T> r;
    for (std::size_t i = 0; i < list.size(); ++i)
      if (kept[i]) r.push_back(std::move(list[i]));
    list = std::move(r);
  }
  static std::vector<cut_in_space> cuts_of(cut_option const& c, int outer, int inner) {
    std::vector<cut_in_space> r;
    if (c[0] >= 0 && outer > 1) r.push_back({c[0], outer, inner});
    if (c[1] >= 0 && inner > 1) r.push_back({c[1], inner, 1});
    sort_cuts(r);
    return r;
  }
  // Grids on which the most ops are cut as they are.
  std::vector<int> grids_of(plan_space::shape_info const& s, int stage, std::vector<int> const& segments) const {
    std::vector<int> best;
    long most = -1;
    for (std::size_t g = 0; g < s.grids.size(); ++g) {
      if (!s.may_have(stage, static_cast<int>(g))) continue;
      long fits = 0;
      for (int i : segments)
        for (searched_op const& x : segment_of(i).ops)
          fits += !space_.spreads(i, s) && may_lie_on(s.grids[g].first, s.grids[g].second, lies(x.op).space);
      if (fits < most) continue;
      if (fits > most) best.clear();
      most = fits;
      best.push_back(static_cast<int>(g));
    }
    return best;
  }
  // One letter may be cut along both dimensions of a grid, which is one cut here.
  static bool may_lie_on(int outer, int inner, std::vector<cut_in_space> const& cuts) {
    return std::all_of(cuts.begin(), cuts.end(), [outer, inner](cut_in_space const& c) {
      return c.pieces == outer * inner || (c.stride == 1 ? c.pieces == inner : c.pieces == outer && c.stride == inner);
    });
  }
  int variant_of(int number, std::size_t variants) const {
    way_to_run read;
    bool rest = true;
    for (searched_op const& x : segment_of(number).ops) {
      bool again = false;
      for (cut_in_time const& t : lies(x.op).time) {
        again = again || t.letter < 0;
        if (t.letter >= 0 && t.letter == x.turns_along && !x.is_batch[t.letter]) read.turns = std::max(read.turns, t.pieces);
      }
      read.again = read.again || again;
      rest = rest && again;
    }
    read.rest = read.turns == 1 || rest;
    int best = 0;
    for (int v = static_cast<int>(variants); v-- > 0;) {
      const way_to_run way = space_.way(number, v);
      if (way.again == read.again && way.turns == read.turns && way.rest == read.rest) return v;
      if (way.again == read.again) best = v;
    }
    return best;
  }
  struct allowed {
    std::vector<std::vector<int>> options;  // by variable, of what is read; empty: any
    bool as_read = true;                    // parameters may have the ZeRO stages that are read
  };
  allowed allowed_by(int number, table_key const& key, plan_space::shape_info const& s, int grid) const {
    const auto [outer, inner] = s.grids[static_cast<std::size_t>(grid)];
    allowed r;
    r.options.resize(key.variables.size());
    for (std::size_t k = 0; k < key.variables.size(); ++k) {
      table_key::variable const& v = key.variables[k];
      std::vector<int>& all = r.options[k];
      if (v.what != table_key::variable::cut && v.what != table_key::variable::zero) continue;
      searched_op const& x = segment_of(number).ops[static_cast<std::size_t>(v.op)];
      if (v.what == table_key::variable::cut) {
        for (std::size_t o = 0; o < key.cuts[k].size(); ++o)
          if (cuts_of(key.cuts[k][o], outer, inner) == lies(x.op).space) all.push_back(static_cast<int>(o));
        for (std::size_t w = 0; w < v.stages.size(); ++w)
          if (v.stages[w] >= 0 && !may_have(x.weights[w], lies(x.op), v.stages[w])) r.as_read = false;
      } else {
        searched_weight const& w = x.weights[static_cast<std::size_t>(v.weight)];
        const std::vector<int> read = zero_of(w, lies(x.op));
        for (std::size_t o = 0; o < v.stages.size(); ++o)
          if (std::find(read.begin(), read.end(), v.stages[o]) != read.end()) all.push_back(static_cast<int>(o));
        if (all.empty() && has_replicas(w, lies(x.op))) r.as_read = false;
      }
    }
    return r;
  }
  bool may_have(searched_weight const& w, op_lies const& reader, int stage) const {
    if (!w.owned || !w.trained || !has_replicas(w, reader)) return true;  // all stages are one
    const std::vector<int> read = zero_of(w, reader);
    return std::find(read.begin(), read.end(), stage) != read.end();
  }
  // Does a cut of its reader leave replicas of a parameter, whose gradients are to be brought together?
  bool has_replicas(searched_weight const& w, op_lies const& reader) const {
    int const* const end = w.letter + g_.ops[w.op].info->outputs[0].rank;
    return std::any_of(reader.space.begin(), reader.space.end(),
                       [&](cut_in_space const& c) { return std::find(w.letter, end, c.letter) == end; });
  }
  // ZeRO stages that a parameter may have: its pieces, its update's, and those of the squares of its gradient for a norm.
  std::vector<int> zero_of(searched_weight const& w, op_lies const& reader) const {
    int own = 1;
    for (cut_in_space const& c : reader.space)
      for (int a = 0; a < g_.ops[w.op].info->outputs[0].rank; ++a)
        if (w.letter[a] == c.letter) own *= c.pieces;
    if (lies(w.op).pieces() > own) return {3};
    auto more = [&](int by, pass when, auto const& wanted) {  // than the parameter itself, of what it causes
      std::vector<int> const& caused = caused_[static_cast<std::size_t>(by)];
      return std::any_of(caused.begin(), caused.end(), [&](int op) {
        return g_.ops[op].when == when && wanted(g_.ops[op].info->kind == "square_sum") && lies(op).pieces() > own;
      });
    };
    bool sums = false, squared = false;
    for (int through : w.read_through) sums = sums || more(through, pass::backward, [](bool) { return true; });
    for (int op : caused_[static_cast<std::size_t>(w.op)]) squared = squared || g_.ops[op].info->kind == "square_sum";
    const bool squares = more(w.op, pass::update, [](bool square) { return square; }),
               updates = more(w.op, pass::update, [](bool square) { return !square; });
    if (!updates) return {0};
    std::vector<int> all;
    if (!squares && !sums) all.push_back(1);
    if (squares || sums || !squared) all.push_back(2);
    if (all.back() == 2 && !w.alone()) all.push_back(3);  // it is 2 there
    return all;
  }

  plan_space const& space_;
  problem const& p_;
  graph_data const& g_;
  plan_base const& plan_;
  std::vector<op_lies> lies_;             // by op
  std::vector<std::vector<int>> caused_;  // by op: backward and update ops
  int stages_ = 1, devices_ = 1, micro_batches_ = 1, chunks_ = 1;
  bool spreads_ = false;
  std::vector<int> stage_of_;  // by segment
};

}  // namespace partita::spaces

#include <partita/core/end_planning_code.hpp>
