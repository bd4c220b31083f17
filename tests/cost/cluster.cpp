// Clusters: presets, files, what is refused.
#include <doctest/doctest.h>

#include <cstdio>
#include <limits>

#include <partita/cost/cluster_file.hpp>
#include <partita/cost/costs.hpp>
#include <partita/cost/presets.hpp>

namespace pt = partita;

namespace {

std::string message_of(std::string const& text) {
  try {
    pt::cluster_from_text(text);
  } catch (pt::error const& e) { return e.what(); }
  return "";
}
std::string message_of(pt::cluster const& c) { return message_of(pt::cluster_text(c)); }

// Two kinds of devices, four to a node, three levels of links.
pt::cluster unequal() {
  pt::cluster c = pt::preset::dgx_a100(1);
  pt::device_kind slow = pt::preset::dgx2(1).kinds[0];
  c.kinds.push_back(slow);
  c.devices = {{"A100-80GB", 4}, {"V100-32GB", 12}};
  c.links = {{"switch", 4, 1e-6, 1e-11, {}, "made up"},
             {"node", 8, 2e-6, 1e-10, 2e-11, "made up"},
             {"network", 16, 1e-5, 1e-9, {}, "made up"}};
  c.check();
  return c;
}

}  // namespace

TEST_CASE("presets are clusters, and files keep them") {
  for (pt::cluster const& c : {pt::preset::dgx2(), pt::preset::dgx_a100(128), pt::preset::dgx_h100(1), unequal()}) {
    c.check();
    const pt::cluster again = pt::cluster_from_text(pt::cluster_text(c));
    CHECK(pt::cluster_text(again) == pt::cluster_text(c));
    for (pt::device_kind const& k : c.kinds) CHECK(!k.source.empty());
    for (pt::link_level const& l : c.links) CHECK(!l.source.empty());
  }
  CHECK(pt::preset::dgx2().size() == 32);
  CHECK(pt::preset::dgx_a100(128).size() == 1024);

  const std::string path = "partita-test-cluster.json";
  pt::preset::dgx_h100(2).save(path);
  CHECK(pt::cluster::load(path).size() == 16);
  std::remove(path.c_str());
  CHECK_THROWS_WITH_AS(pt::cluster::load("no-such-cluster.json"),
                       "cluster file no-such-cluster.json cannot be read: No such file or directory", pt::error);
}

TEST_CASE("devices and levels by number") {
  const pt::cluster c = unequal();
  CHECK(c.kind_of(3).name == "A100-80GB");
  CHECK(c.kind_of(4).name == "V100-32GB");
  CHECK_THROWS_AS(c.kind_of(16), pt::error);
  CHECK(c.level_between(0, 3) == 0);
  CHECK(c.level_between(3, 4) == 1);
  CHECK(c.level_between(0, 8) == 2);
  const pt::costs k(c);
  CHECK(k.memory(0) == 80e9);
  CHECK(k.memory(15) == 32e9);
  CHECK(k.pass_over(1e9, 15) > k.pass_over(1e9, 0));
}

TEST_CASE("what is no cluster is refused, with what to do") {
  pt::cluster c = unequal();
  c.devices[0].kind = "B100";
  CHECK(message_of(c).find("no kind of device is called 'B100'") != std::string::npos);
  c = unequal();
  c.links[1].devices = 6;
  CHECK(message_of(c).find("units of 6 devices, which is no multiple of the 4") != std::string::npos);
  c = unequal();
  c.links.pop_back();
  CHECK(message_of(c).find("joins 8 devices of 16") != std::string::npos);
  c = unequal();
  c.kinds[0].flops.erase("f32");
  CHECK(message_of(c).find("no peak FLOP/s for f32") != std::string::npos);
  c = unequal();
  c.devices[1].count = 0;
  CHECK(message_of(c).find("has 0 devices") != std::string::npos);
  c = unequal();
  c.devices[0].count = c.devices[1].count = std::numeric_limits<int>::max();
  CHECK(message_of(c).find("more than 2147483647 devices together") != std::string::npos);
  c = unequal();
  c.kinds[0].memory = 0;
  CHECK(message_of(c).find("memory") != std::string::npos);
  c = unequal();
  c.kinds[0].flops_efficiency = pt::efficiency_curve{1.5, 0};
  CHECK(message_of(c).find("efficiency curve") != std::string::npos);
  c = unequal();
  c.version = 99;
  CHECK(message_of(c).find("version 99") != std::string::npos);
  c = unequal();
  c.format = "partita plan";
  CHECK(message_of(c).find("'partita plan', not 'partita cluster'") != std::string::npos);
  std::string text = pt::cluster_text(unequal());
  text.insert(text.find("\"latency\""), "\"latancy\": 1, ");
  CHECK(message_of(text).find("links[0]: 'latancy' is not known here") != std::string::npos);
  text = pt::cluster_text(unequal());
  const std::size_t version = text.find("\"version\": 1");
  text.replace(version, 12, "\"version\": 18446744073709551615");  // -1, if it were taken for a signed number
  CHECK(message_of(text).find("18446744073709551615 is out of range") != std::string::npos);
}
