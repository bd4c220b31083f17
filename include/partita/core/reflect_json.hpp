// Structs into JSON and back, by reflection (BOOST_HANA_DEFINE_STRUCT): a member is a key. What a person may have written
// by hand is checked: an unknown key, a wrong type or a missing value is an error that says where.
#pragma once
#include <boost/hana/accessors.hpp>
#include <boost/hana/at_key.hpp>
#include <boost/hana/core/to.hpp>
#include <boost/hana/define_struct.hpp>
#include <boost/hana/first.hpp>
#include <boost/hana/for_each.hpp>
#include <boost/hana/second.hpp>
#include <boost/hana/string.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include <nlohmann/json.hpp>

#include <partita/core/error.hpp>

namespace partita {

namespace detail::reflect {

template <class T> inline constexpr bool is_vector = false;
template <class T> inline constexpr bool is_vector<std::vector<T>> = true;
template <class T> inline constexpr bool is_optional = false;
template <class T> inline constexpr bool is_optional<std::optional<T>> = true;
template <class T> inline constexpr bool is_map = false;
template <class T> inline constexpr bool is_map<std::map<std::string, T>> = true;

template <class T> nlohmann::ordered_json write(T const& value) {
  using json = nlohmann::ordered_json;
  if constexpr (is_vector<T>) {
    json all = json::array();
    for (auto const& each : value) all.push_back(write(each));
    return all;
  } else if constexpr (is_map<T>) {
    json all = json::object();
    for (auto const& [key, each] : value) all[key] = write(each);
    return all;
  } else if constexpr (boost::hana::Struct<T>::value) {
    json all = json::object();
    boost::hana::for_each(boost::hana::accessors<T>(), [&](auto member) {
      auto const& field = boost::hana::second(member)(value);
      const char* key = boost::hana::to<char const*>(boost::hana::first(member));
      if constexpr (is_optional<std::remove_cvref_t<decltype(field)>>) {
        if (field) all[key] = write(*field);
      } else if constexpr (is_vector<std::remove_cvref_t<decltype(field)>>) {
        if (!field.empty()) all[key] = write(field);
      } else all[key] = write(field);
    });
    return all;
  } else return value;
}

inline error wrong_at(std::string const& where, std::string const& what) {
  return error((where.empty() ? std::string("the file") : where) + ": " + what);
}
template <class T> void read(nlohmann::ordered_json const& from, T& to, std::string const& where) {
  if constexpr (is_optional<T>) {
    to.emplace();
    read(from, *to, where);
  } else if constexpr (is_vector<T>) {
    if (!from.is_array()) throw wrong_at(where, "a list is expected, found " + std::string(from.type_name()));
    for (std::size_t i = 0; i < from.size(); ++i) {
      to.emplace_back();
      read(from[i], to.back(), where + "[" + std::to_string(i) + "]");
    }
  } else if constexpr (is_map<T>) {
    if (!from.is_object()) throw wrong_at(where, "an object is expected, found " + std::string(from.type_name()));
    for (auto const& [key, each] : from.items()) read(each, to[key], where + "." + key);
  } else if constexpr (boost::hana::Struct<T>::value) {
    if (!from.is_object()) throw wrong_at(where, "an object is expected, found " + std::string(from.type_name()));
    std::string known;
    std::size_t taken = 0;
    boost::hana::for_each(boost::hana::accessors<T>(), [&](auto member) {
      const std::string key = boost::hana::to<char const*>(boost::hana::first(member));
      known += (known.empty() ? "" : ", ") + key;
      auto& field = boost::hana::second(member)(to);
      const auto found = from.find(key);
      using field_type = std::remove_cvref_t<decltype(field)>;
      if (found != from.end()) {
        ++taken;
        read(*found, field, (where.empty() ? "" : where + ".") + key);
      } else if constexpr (!is_optional<field_type> && !is_vector<field_type> && !is_map<field_type>)
        throw wrong_at(where, "'" + key + "' is missing");
    });
    if (taken < from.size())
      for (auto const& item : from.items())
        if ((", " + known + ",").find(", " + item.key() + ",") == std::string::npos)
          throw wrong_at(where, "'" + item.key() + "' is not known here; there may be " + known);
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!from.is_string()) throw wrong_at(where, "text is expected, found " + std::string(from.type_name()));
    to = from.get<std::string>();
  } else if constexpr (std::is_same_v<T, bool>) {
    if (!from.is_boolean()) throw wrong_at(where, "true or false is expected, found " + std::string(from.type_name()));
    to = from.get<bool>();
  } else if constexpr (std::is_integral_v<T>) {
    if (!from.is_number_integer()) throw wrong_at(where, "a whole number is expected, found " + from.dump());
    const std::int64_t n = from.get<std::int64_t>();
    const bool wraps = from.is_number_unsigned() && n < 0;  // above 2^63 - 1
    if (wraps || n < std::int64_t{std::numeric_limits<int>::min()} || n > std::int64_t{std::numeric_limits<int>::max()})
      throw wrong_at(where, "the number " + from.dump() + " is out of range");
    if (std::is_unsigned_v<T> && n < 0) throw wrong_at(where, "the number " + from.dump() + " is negative");
    to = static_cast<T>(n);
  } else {
    if (!from.is_number()) throw wrong_at(where, "a number is expected, found " + std::string(from.type_name()));
    to = from.get<T>();
  }
}

}  // namespace detail::reflect

// Indented text, members in the order of the struct; empty lists and absent optional members are left out.
template <class T> std::string to_json_text(T const& value) { return detail::reflect::write(value).dump(1) + "\n"; }

// Throws error with line and column where the text is not JSON, or the path of the first wrong member.
template <class T> T from_json_text(std::string const& text) {
  nlohmann::ordered_json parsed;
  try {
    parsed = nlohmann::ordered_json::parse(text);
  } catch (nlohmann::json::exception const& e) {
    std::string what = e.what();
    if (const std::size_t bracket = what.find("] "); bracket != std::string::npos) what = what.substr(bracket + 2);
    throw error("not JSON: " + what);
  }
  T value{};
  detail::reflect::read(parsed, value, "");
  return value;
}

}  // namespace partita
