// Clusters: the devices that a plan is for, and the links between them, in levels. A value that is written to a file and
// read from one (cluster_file.hpp); presets.hpp holds some.
#pragma once
#include <boost/hana/define_struct.hpp>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <partita/core/words.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

inline constexpr int cluster_file_version = 1;

// How much of its peak a device reaches: a product of w FLOPs, or a pass over w bytes, runs at `most` times the square root
// of w / (w + `small`) of it. So an op much smaller than `small` takes time as the root of its work, and none takes a
// constant beside the device's `launch`.
struct efficiency_curve {
  BOOST_HANA_DEFINE_STRUCT(efficiency_curve, (double, most), (double, small));
  double at(double work) const { return work > 0 ? most * std::sqrt(work / (work + small)) : most; }
};

struct device_kind {
  BOOST_HANA_DEFINE_STRUCT(device_kind, (std::string, name),
                           (std::map<std::string, double>,
                            flops),                     // peak FLOP/s by dtype: "f32", "bf16"; what is missing counts as f32
                           (double, memory),            // bytes that a plan may use
                           (double, memory_bandwidth),  // bytes per second
                           (double, launch),            // seconds that every op takes beside its work
                           (std::optional<efficiency_curve>, flops_efficiency),   // of products; absent: the peak
                           (std::optional<efficiency_curve>, memory_efficiency),  // absent: the peak
                           (std::string, source));                                // where the figures come from
};

// So many devices of one kind, with consecutive numbers.
struct device_run {
  BOOST_HANA_DEFINE_STRUCT(device_run, (std::string, kind), (int, count));
};

// A level of links, the innermost first: devices k n to k n + n - 1 make unit k of a level of n devices. What joins the
// units of the level below inside one unit of this one; level 0 joins devices.
struct link_level {
  BOOST_HANA_DEFINE_STRUCT(link_level, (std::string, name), (int, devices),  // of one unit; the last level's unit is the cluster
                           (double, latency),                                // alpha, seconds
                           (double, seconds_per_byte),                       // beta, of one device's traffic in one direction
                           (std::optional<double>,
                            shared_seconds_per_byte),  // of all traffic out of a unit of the level below; absent: not shared
                           (std::string, source));
  // Beta of each of so many flows that leave one unit of the level below at once.
  double beta(double flows) const {
    return shared_seconds_per_byte ? std::max(seconds_per_byte, flows * *shared_seconds_per_byte) : seconds_per_byte;
  }
};

struct cluster {
  BOOST_HANA_DEFINE_STRUCT(cluster, (std::string, format), (int, version), (std::string, name), (std::vector<device_kind>, kinds),
                           (std::vector<device_run>, devices), (std::vector<link_level>, links));

  static cluster load(std::string const& path);  // cluster_file.hpp
  void save(std::string const& path) const;

  int size() const {
    int n = 0;
    for (device_run const& r : devices) n += r.count;
    return n;
  }
  device_kind const& kind_of(int device) const {
    for (int first = 0; device_run const& r : devices) {
      if (device >= first && device < first + r.count) return kind_named(r.kind);
      first += r.count;
    }
    throw_error({"cluster ", name, ": there is no device ", device, "; it has ", size()});
  }
  device_kind const& kind_named(std::string const& wanted) const {
    for (device_kind const& k : kinds)
      if (k.name == wanted) return k;
    throw_error({"cluster ", name, ": no kind of device is called '", wanted, "'"});
  }
  // As slow as the slowest of these kinds in everything, with the smallest of their memories.
  static device_kind slowest_of(std::vector<device_kind> const& some) {
    device_kind r = some.front();
    for (device_kind const& k : some) {
      auto peak = [](device_kind const& of, std::string const& type) {
        const auto own = of.flops.find(type);
        return own != of.flops.end() ? own->second : of.flops.at("f32");
      };
      std::map<std::string, double> flops;
      for (device_kind const* from : std::initializer_list<device_kind const*>{&r, &k})
        for (auto const& [type, unused] : from->flops) flops[type] = std::min(peak(r, type), peak(k, type));
      r.flops = std::move(flops);
      r.memory = std::min(r.memory, k.memory);
      r.memory_bandwidth = std::min(r.memory_bandwidth, k.memory_bandwidth);
      r.launch = std::max(r.launch, k.launch);
      auto slower = [](std::optional<efficiency_curve>& mine, std::optional<efficiency_curve> const& other) {
        if (!other) return;
        if (!mine) mine = other;
        else mine = efficiency_curve{std::min(mine->most, other->most), std::max(mine->small, other->small)};
      };
      slower(r.flops_efficiency, k.flops_efficiency);
      slower(r.memory_efficiency, k.memory_efficiency);
    }
    return r;
  }
  // The innermost level whose unit holds both; 0 for a device and itself.
  int level_between(int a, int b) const {
    for (std::size_t l = 0; l < links.size(); ++l)
      if (a / links[l].devices == b / links[l].devices) return static_cast<int>(l);
    throw_error({"cluster ", name, ": no link joins devices ", a, " and ", b});
  }
  // Throws error where the figures do not make a cluster.
  void check() const {
    auto wrong = [&](auto... what) { throw_error({"cluster ", name, ": ", what...}); };
    if (kinds.empty() || devices.empty()) wrong("it has no devices: name a kind in 'kinds' and use it in 'devices'");
    int room = std::numeric_limits<int>::max();
    for (device_run const& r : devices) {
      if (r.count < 1) wrong("a run of '", r.kind, "' has ", r.count, " devices: give at least 1, or leave it out");
      if (r.count > room) wrong("its runs have more than ", std::numeric_limits<int>::max(), " devices together");
      room -= r.count;
      kind_named(r.kind);
    }
    for (device_kind const& k : kinds) {
      if (!(k.memory > 0) || !(k.memory_bandwidth > 0)) wrong("'", k.name, "' needs a memory and a memory_bandwidth above 0");
      if (k.launch < 0) wrong("'", k.name, "' has a launch of ", k.launch, " seconds: give 0 or more");
      if (!k.flops.count("f32"))
        wrong("'", k.name, "' has no peak FLOP/s for f32, which stands in for the types that are not given");
      for (auto const& [type, peak] : k.flops)
        if (!(peak > 0)) wrong("'", k.name, "' has ", peak, " FLOP/s in ", type, ": give a number above 0");
      auto check_curve = [&](std::optional<efficiency_curve> const& curve) {
        if (curve && (!(curve->most > 0) || curve->most > 1 || curve->small < 0))
          wrong("'", k.name, "' has an efficiency curve outside of 0 < most <= 1 and small >= 0");
      };
      check_curve(k.flops_efficiency);
      check_curve(k.memory_efficiency);
    }
    if (links.empty()) wrong("it has no links: give at least one level");
    int below = 1;
    for (link_level const& l : links) {
      if (l.devices < below || l.devices % below != 0)
        wrong("level '", l.name, "' has units of ", l.devices, " devices, which is no multiple of the ", below,
              " of the level below");
      if (l.latency < 0 || l.seconds_per_byte < 0 || (l.shared_seconds_per_byte && *l.shared_seconds_per_byte < 0))
        wrong("level '", l.name, "' has a time below 0");
      below = l.devices;
    }
    if (below < size()) wrong("its outermost level joins ", below, " devices of ", size(), ": make it larger, or add a level");
  }
};

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
