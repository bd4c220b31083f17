// Profiles: how long ops and transfers took where they were measured. profile/ makes them; costs interpolates them.
#pragma once
#include <boost/hana/define_struct.hpp>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <partita/core/words.hpp>
#include <partita/cost/work.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

inline constexpr int profile_file_version = 1;

struct op_sample {
  BOOST_HANA_DEFINE_STRUCT(op_sample, (std::vector<int>, extents),  // per letter, in the op's order
                           (double, seconds));
};
struct op_profile {
  BOOST_HANA_DEFINE_STRUCT(op_profile, (std::string, op),      // `op_key`
                           (std::vector<op_sample>, samples),  // operands come from memory
                           (std::vector<op_sample>, tiles));   // operands are in a core's cache, as inside a chain of ops
};
struct transfer_sample {
  BOOST_HANA_DEFINE_STRUCT(transfer_sample, (double, bytes), (double, seconds));
};
struct transfer_profile {
  BOOST_HANA_DEFINE_STRUCT(transfer_profile,
                           (std::string,
                            kind),  // a collective, "send", "exchange" (sends both ways at once), or "copy" on one device
                           (int, members), (std::vector<transfer_sample>, samples));
};
struct profile {
  BOOST_HANA_DEFINE_STRUCT(profile, (std::string, format), (int, version), (std::string, machine),
                           (int, devices),                          // that worked at the same time
                           (int, threads),                          // of each
                           (double, memory),                        // bytes for each
                           (std::map<std::string, double>, flops),  // FLOP/s of the fastest product, by dtype
                           (std::vector<op_profile>, ops), (std::vector<transfer_profile>, transfers));

  static profile load(std::string const& path);  // profile_file.hpp
  void save(std::string const& path) const;
};

// What tells ops apart whose times do not compare: kind, types and letters of all operands, FLOPs per point (a causal
// attention has half).
inline std::string op_key(op_info const& f, bool accumulates) {
  std::string key(f.kind);
  auto add = [&](operand const& x) {
    key += ' ';
    key += name_of(x.type);
    key += '[';
    for (int a = 0; a < x.rank; ++a) {
      key += static_cast<char>('a' + x.dims[a]);
      if (x.inner[a] >= 0) key += static_cast<char>('a' + x.inner[a]);
    }
    key += ']';
  };
  for (int i = 0; i < f.input_count; ++i) add(f.input(i));
  key += " ->";
  for (int o = 0; o < f.output_count; ++o) add(f.outputs[o]);
  key += words({" ", static_cast<int>(f.flops_per_point * 10)});
  if (accumulates) key += " +=";
  return key;
}

// A profile, ready to be asked.
class profiled {
 public:
  profiled() = default;
  explicit profiled(profile const& p) {
    for (op_profile const& o : p.ops) {
      const int id = static_cast<int>(ops_.size());
      ops_.push_back({points_of(o.samples), points_of(o.tiles)});
      if (!by_key_.emplace(o.op, id).second) throw_error({"the profile holds op '", o.op, "' twice"});
    }
    for (transfer_profile const& t : p.transfers) {
      auto& curve = transfers_[{t.kind, t.members}];
      for (transfer_sample const& s : t.samples) curve.push_back({s.bytes, s.seconds});
      std::sort(curve.begin(), curve.end(), [](auto const& a, auto const& b) { return a.bytes < b.bytes; });
    }
  }
  bool empty() const { return ops_.empty() && transfers_.empty(); }

  // Seconds of a piece; negative where the op was not measured.
  double op(op_info const& f, std::size_t const* extents, bool accumulates) const {
    const int id = find(f, accumulates);
    return id < 0 ? -1 : interpolate(ops_[static_cast<std::size_t>(id)].samples, f.dim_count, extents);
  }
  // Of a piece that lies in a core's cache; negative where the op was not measured so.
  double tile(op_info const& f, std::size_t const* extents) const {
    const int id = find(f, false);
    return id < 0 ? -1 : interpolate(ops_[static_cast<std::size_t>(id)].tiles, f.dim_count, extents);
  }
  // Linear between samples, at the last rate beyond them; negative where nothing was measured.
  double transfer(std::string_view kind, int members, double bytes) const {
    const auto found = transfers_.find(std::pair{std::string(kind), members});
    if (found == transfers_.end() || found->second.empty()) return -1;
    auto const& curve = found->second;
    if (bytes <= curve.front().bytes || curve.size() == 1) return curve.front().seconds;
    std::size_t above = 1;
    while (above + 1 < curve.size() && curve[above].bytes < bytes) ++above;
    auto const &low = curve[above - 1], &high = curve[above];
    return std::max(0.0, low.seconds + (high.seconds - low.seconds) * (bytes - low.bytes) / (high.bytes - low.bytes));
  }

 private:
  struct point {
    double logs[max_dims]{};  // of extents, base 2
    double log_rate = 0;      // of points per second
    double seconds = 0;
  };
  struct curves {
    std::vector<point> samples, tiles;
  };

  static std::vector<point> points_of(std::vector<op_sample> const& samples) {
    std::vector<point> all;
    for (op_sample const& s : samples) {
      point p;
      double points = 0;
      for (std::size_t d = 0; d < s.extents.size() && d < max_dims; ++d)
        points += p.logs[d] = std::log2(std::max(1, s.extents[d]));
      p.seconds = s.seconds;
      p.log_rate = points - std::log2(std::max(1e-12, s.seconds));
      all.push_back(p);
    }
    return all;
  }
  int find(op_info const& f, bool accumulates) const {
    auto& known = known_[accumulates ? 1 : 0];
    if (const auto at = known.find(&f); at != known.end()) return at->second;
    auto at = by_key_.find(op_key(f, accumulates));
    if (at == by_key_.end() && accumulates) at = by_key_.find(op_key(f, false));
    return known[&f] = at == by_key_.end() ? -1 : at->second;
  }
  // A plane through the logarithms of rates over those of extents, fitted to the samples with weights of the inverse
  // square of how many doublings of extents they are away: a sample of just these extents decides alone. Slopes that the
  // samples do not tell are taken as none, that is, as time in proportion to points.
  static double interpolate(std::vector<point> const& samples, int dims, std::size_t const* extents) {
    if (samples.empty()) return -1;
    double logs[max_dims]{}, points = 0;
    for (int d = 0; d < dims; ++d) {
      if (extents[d] == 0) return 0;
      points += logs[d] = std::log2(static_cast<double>(extents[d]));
    }
    constexpr int most = max_dims + 1;
    const int n = dims + 1;  // the rate here, and a slope per letter
    double matrix[most][most]{}, right[most]{};
    for (point const& p : samples) {
      double row[most]{1}, away = 0;
      for (int d = 0; d < dims; ++d) {
        row[d + 1] = p.logs[d] - logs[d];
        away += row[d + 1] * row[d + 1];
      }
      if (away < 1e-9) return p.seconds;
      for (int i = 0; i < n; ++i) {
        for (int j = 0; j < n; ++j) matrix[i][j] += row[i] * row[j] / away;
        right[i] += row[i] * p.log_rate / away;
      }
    }
    for (int d = 1; d < n; ++d) matrix[d][d] += 0.02 * static_cast<double>(samples.size());
    // Positive definite: no pivot is needed. Only the first unknown is wanted, so the elimination runs from the last.
    for (int k = n - 1; k > 0; --k)
      for (int i = 0; i < k; ++i) {
        const double factor = matrix[i][k] / matrix[k][k];
        for (int j = 0; j < k; ++j) matrix[i][j] -= factor * matrix[k][j];
        right[i] -= factor * right[k];
      }
    return std::exp2(points - right[0] / matrix[0][0]);
  }

  std::vector<curves> ops_;
  std::map<std::string, int> by_key_;
  std::map<std::pair<std::string, int>, std::vector<transfer_sample>> transfers_;
  mutable std::unordered_map<op_info const*, int> known_[2];  // by address: an op_info is a constant of its type
};

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
