// Profile files: JSON, versioned, a member a key.
#pragma once
#include <string>

#include <partita/core/reflect_json.hpp>
#include <partita/core/whole_file.hpp>
#include <partita/cost/profile.hpp>

namespace partita {

inline std::string profile_text(profile const& p) { return to_json_text(p); }

// Throws error where the text is not a profile.
inline profile profile_from_text(std::string const& text) {
  profile p = from_json_text<profile>(text);
  if (p.format != "partita profile") throw_error({"format is '", p.format, "', not 'partita profile'"});
  if (p.version != profile_file_version)
    throw_error({"version ", p.version, " is not known here, ", profile_file_version, " is: measure again"});
  for (op_profile const& o : p.ops)
    for (auto const* list : {&o.samples, &o.tiles})
      for (op_sample const& s : *list)
        if (!(s.seconds > 0)) throw_error({"op '", o.op, "' has a sample of ", s.seconds, " seconds: measure again"});
  return p;
}

inline profile profile::load(std::string const& path) { return detail::read_whole_file("profile file", path, profile_from_text); }
inline void profile::save(std::string const& path) const { detail::write_whole_file("profile file", path, profile_text(*this)); }

}  // namespace partita
