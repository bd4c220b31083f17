// What an interlaced pipeline spreads over the devices of all its stages: which segments, and what the stages see of them.
//
// Segments outside blocks are spread: those that read nothing of the segments before (embeddings), which all devices run before
// the first stage, and the last one (output layer and loss), which they run after the last stage. In the chain of the stages such
// a segment remains as a place that takes what the spread ops make and hands on what passes by.
#pragma once
#include <algorithm>
#include <vector>

#include <partita/search/cut_options.hpp>
#include <partita/search/problem.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::spaces {

class spread_segments {
 public:
  spread_segments() = default;
  explicit spread_segments(segmented_model const& m) : is_(m.segments.size(), false) {
    for (std::size_t s = 0; s < is_.size(); ++s)
      is_[s] = m.segments[s].block < 0 && (s + 1 == is_.size() || entering(m.segments[s]).empty());
    if (!possible(m)) is_.assign(is_.size(), false);
  }
  bool contains(int segment) const { return is_[static_cast<std::size_t>(segment)]; }
  // How many are not.
  int staged() const { return static_cast<int>(std::count(is_.begin(), is_.end(), false)); }
  bool any() const { return staged() < static_cast<int>(is_.size()); }

  // The segment as all devices run it: what passes by neither enters nor leaves.
  static segment alone(segment s) {
    std::erase_if(s.leaves, [&](int t) { return !makes(s, t); });  // by all that enters, what passes by too
    s.enters = entering(s);
    return s;
  }
  static bool makes(segment const& s, int tensor) {
    return std::find(s.enters.begin(), s.enters.end(), tensor) == s.enters.end() &&
           std::find(s.leaves.begin(), s.leaves.end(), tensor) != s.leaves.end();
  }

 private:
  // Tensors from before that ops of the segment read.
  static std::vector<int> entering(segment const& s) {
    std::vector<int> all;
    for (int t : s.enters)
      if (std::any_of(s.ops.begin(), s.ops.end(), [&](searched_op const& x) {
            return std::any_of(x.inputs.begin(), x.inputs.end(), [&](searched_input const& in) { return in.tensor == t; });
          }))
        all.push_back(t);
    return all;
  }
  // A parameter that a stage reads too would have to lie there whole. And the stages must have something to do.
  bool possible(segmented_model const& m) const {
    if (staged() < 2) return false;
    auto reads = [&](std::size_t s, int parameter) {
      for (searched_op const& x : m.segments[s].ops)
        for (searched_weight const& w : x.weights)
          if (w.op == parameter) return true;
      return false;
    };
    for (std::size_t s = 0; s < is_.size(); ++s) {
      if (!is_[s]) continue;
      for (searched_op const& x : m.segments[s].ops)
        for (searched_weight const& w : x.weights)
          for (std::size_t other = 0; other < is_.size() && !w.alone(); ++other)
            if (!is_[other] && m.segments[other].like < 0 && reads(other, w.op)) return false;  // else none but it reads its own
    }
    return true;
  }
  std::vector<bool> is_;
};

// Sends between the devices of a stage and all devices. Pieces arrive from many devices: each message has its latency.
struct spread_link {
  costs const* prices;
  int stage_devices, all_devices;

  double latency() const { return seconds(1); }
  // Each device of the stage sends, or gets, so many bytes.
  double seconds(double bytes) const {
    const double flows = std::min(stage_devices, prices->of().links.front().devices);
    return prices->send(0, all_devices - 1, bytes, flows);
  }
};

// A spread segment as the stages see it, on a stage's grid: what it makes arrives, and so does the gradient of what it reads.
// `extra`: of what arrives from the spread ops, and of the gradient that goes there, so many more are there at once than
// micro-batches are in flight, as all devices run embeddings a slot or more before the stage comes to them.
inline table place_of_spread(segment const& s, segmented_model const& m, cut_options const& cuts, grid_costs<costs> const& grid,
                             spread_link const& link, int extra, bool first, bool last) {
  const std::vector<cut_option> edges = cuts.boundary_options(), none{{-1, -1}};
  auto differentiable = [&](int t) { return m.tensors[static_cast<std::size_t>(t)].differentiable; };
  auto share = [&](int t, cut_option const& c) { return cuts.held_bytes(t, cuts.boundary_lies(t, c)); };
  table t;
  std::vector<cost> entries, exits;
  for (cut_option const& c : first ? none : edges) {
    cost& x = entries.emplace_back();
    if (first) x.held = m.unread;
    for (int tensor : s.enters) {
      x.entry += share(tensor, c);
      if (!last) continue;
      if (differentiable(tensor)) x.backward += link.seconds(share(tensor, c));
      x.transient += 2 * share(tensor, c);
    }
  }
  for (cut_option const& c : last ? none : edges) {
    cost& x = exits.emplace_back();
    for (int tensor : s.leaves) {
      if (!spread_segments::makes(s, tensor)) continue;
      x.forward += link.seconds(share(tensor, c));
      x.held += (differentiable(tensor) ? 2 : 1) * extra * share(tensor, c);
    }
  }
  t.add_variable(entries);
  t.add_variable(exits);
  if (first || last) return t;
  std::vector<cost> passing(edges.size() * edges.size());
  for (int tensor : s.leaves) {
    if (spread_segments::makes(s, tensor)) continue;
    changes change(grid, cuts.bytes_of(tensor), cuts.extents_of(tensor).data(),
                   m.tensors[static_cast<std::size_t>(tensor)].as->rank);
    for (std::size_t i = 0; i < edges.size(); ++i)
      for (std::size_t j = 0; j < edges.size(); ++j) {
        const lies from = cuts.boundary_lies(tensor, edges[i]), to = cuts.boundary_lies(tensor, edges[j]);
        cost& x = passing[i * edges.size() + j];
        x.forward += change.seconds(from, to);
        if (differentiable(tensor)) x.backward += change.seconds(to, from);
      }
  }
  t.add_pair(0, 1, passing);
  return t;
}

// What a layout on the grid of all devices adds at a boundary: a device of the stage sends all pieces that its part of a tensor
// has, or gets as many; to where the ops enter forward, to where they leave with the gradient.
inline cost boundary_of_spread(std::vector<int> const& tensors, segmented_model const& m, cut_options const& cuts,
                               grid_costs<costs> const& grid, cut_option const& lies_by, spread_link const& link, bool enters) {
  cost x;
  const int per_device = link.all_devices / link.stage_devices;
  for (int t : tensors) {
    const bool back = m.tensors[static_cast<std::size_t>(t)].differentiable;
    const double share = grid.share(cuts.boundary_lies(t, lies_by), cuts.extents_of(t).data()), bytes = cuts.bytes_of(t);
    const double sent = link.seconds(per_device * share * bytes) + (per_device - 1) * link.latency();
    const double pieces = std::max(1.0, 1 / share / link.stage_devices);
    const double got = (pieces - 1) * link.latency();  // its bytes count where it arrives (place_of_spread)
    (enters ? x.forward : x.backward) += enters || back ? sent : 0;
    (enters ? x.backward : x.forward) += enters && !back ? 0 : got;
  }
  return x;
}

}  // namespace partita::spaces

#include <partita/core/end_planning_code.hpp>
