// Cluster files: JSON, versioned, a member a key.
#pragma once
#include <fstream>
#include <sstream>

#include <partita/core/reflect_json.hpp>
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

inline cluster cluster::load(std::string const& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw_error({"cluster file ", path, " cannot be read"});
  std::ostringstream text;
  text << in.rdbuf();
  try {
    return cluster_from_text(text.str());
  } catch (error const& e) { throw_error({"cluster file ", path, ": ", e.what()}); }
}
inline void cluster::save(std::string const& path) const {
  std::ofstream out(path, std::ios::binary);
  out << cluster_text(*this);
  out.flush();
  if (!out) throw_error({"cluster file ", path, " cannot be written"});
}

}  // namespace partita
