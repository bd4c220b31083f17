// Cluster files: JSON, versioned, a member a key.
#pragma once
#include <string>

#include <partita/core/reflect_json.hpp>
#include <partita/core/whole_file.hpp>
#include <partita/cost/cluster.hpp>

namespace partita {

inline std::string cluster_text(cluster const& c) { return to_json_text(c); }

// Throws error where the text is not a cluster.
inline cluster cluster_from_text(std::string const& text) {
  cluster c = from_json_text<cluster>(text);
  if (c.format != "partita cluster") throw_error({"format is '", c.format, "', not 'partita cluster'"});
  if (c.version != cluster_file_version)
    throw_error({"version ", c.version, " is not known here, ", cluster_file_version, " is"});
  c.check();
  return c;
}

inline cluster cluster::load(std::string const& path) { return detail::read_whole_file("cluster file", path, cluster_from_text); }
inline void cluster::save(std::string const& path) const { detail::write_whole_file("cluster file", path, cluster_text(*this)); }

}  // namespace partita
