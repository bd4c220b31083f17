// Files that are read and written whole, such as plans and clusters. What is wrong is said with the file's name and what it is:
// "plan file plan.json cannot be read: No such file or directory".
#pragma once
#include <cerrno>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>
#include <system_error>

#include <partita/core/words.hpp>

namespace partita::detail {

// What read(text) makes of a file. Throws error where the file cannot be read, or with its name before what `read` throws.
template <class Read> auto read_whole_file(std::string_view what, std::string const& path, Read read) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  in.peek();  // a folder can be opened
  const int reason = errno;
  if (!in.is_open() || in.bad()) throw_error({what, " ", path, " cannot be read: ", std::generic_category().message(reason)});
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  try {
    return read(text);
  } catch (error const& e) { throw_error({what, " ", path, ": ", e.what()}); }
}

inline void write_whole_file(std::string_view what, std::string const& path, std::string_view text) {
  errno = 0;
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.flush();
  const int reason = errno;
  if (!out) throw_error({what, " ", path, " cannot be written: ", std::generic_category().message(reason)});
}

}  // namespace partita::detail
