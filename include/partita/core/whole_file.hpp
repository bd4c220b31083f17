// Files that are read and written whole, such as plans and clusters. What is wrong is said with the file's name and what it is:
// "plan file plan.json cannot be read: No such file or directory".
#pragma once
#include <cerrno>
#include <fstream>
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
  std::string text;
  for (char part[1 << 14]; in.read(part, sizeof part), in.gcount() > 0;) text.append(part, static_cast<std::size_t>(in.gcount()));
  if (in.bad()) throw_error({what, " ", path, " cannot be read: ", std::generic_category().message(errno)});
  try {
    return read(text);
  } catch (error const& e) { throw_error({what, " ", path, ": ", e.what()}); }
}

inline void write_whole_file(std::string_view what, std::string const& path, std::string_view text) {
  errno = 0;
  std::ofstream out(path, std::ios::binary);
  out << text;
  out.close();
  const int reason = errno;
  if (!out) throw_error({what, " ", path, " cannot be written: ", std::generic_category().message(reason)});
}

}  // namespace partita::detail
