// The bytes of one file, or of all text files below a folder, always in the same order.
#pragma once
#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include <partita/core/error.hpp>

namespace partita {

// What `read_text` found. `bytes` holds the files one after another, with nothing between them.
struct text_files {
  std::string bytes;
  std::vector<std::filesystem::path> files;  // those that were read, in the order of their bytes
  std::size_t binary = 0;                    // files of a folder skipped because they hold a NUL byte
  std::size_t unreadable = 0;                // files and folders skipped because they could not be opened or read
};

namespace detail {

enum class read_result { whole, binary, unreadable };

// Appends at most `most` bytes of the file to `bytes`; appends nothing unless the result is `whole`.
inline read_result append_file(const std::filesystem::path& path, std::size_t most, bool refuse_binary, std::string& bytes) {
  const std::size_t before = bytes.size();
  std::ifstream in(path, std::ios::binary);
  if (!in) return read_result::unreadable;
  std::vector<char> chunk(std::size_t{1} << 16);
  while (most > 0 && in) {
    in.read(chunk.data(), static_cast<std::streamsize>(std::min(most, chunk.size())));
    const auto count = static_cast<std::size_t>(in.gcount());
    if (in.bad() ||
        (refuse_binary && std::find(chunk.begin(), chunk.begin() + in.gcount(), '\0') != chunk.begin() + in.gcount())) {
      bytes.resize(before);
      return in.bad() ? read_result::unreadable : read_result::binary;
    }
    bytes.append(chunk.data(), count);
    most -= count;
  }
  return read_result::whole;
}

// Version control, caches, and what a build leaves behind: by name, or by the marks that CMake and the cache
// directory tagging standard (bford.info/cachedir) put inside.
inline bool is_build_folder(const std::filesystem::path& folder) {
  const std::string name = folder.filename().string();
  if (name.starts_with(".")) return true;
  if (name == "build" || name.starts_with("build-") || name.starts_with("build_") || name.starts_with("cmake-build") ||
      name == "CMakeFiles" || name == "node_modules" || name == "__pycache__")
    return true;
  std::error_code ignored;
  return std::filesystem::exists(folder / "CMakeCache.txt", ignored) || std::filesystem::exists(folder / "CACHEDIR.TAG", ignored);
}

inline void list_files(const std::filesystem::path& folder, std::vector<std::filesystem::path>& files, std::size_t& unreadable) {
  namespace fs = std::filesystem;
  std::error_code failed;
  fs::directory_iterator entry(folder, failed);
  for (; !failed && entry != fs::directory_iterator{}; entry.increment(failed)) {
    std::error_code unknown;
    const fs::file_status link = entry->symlink_status(unknown);
    if (fs::is_directory(link)) {
      if (!is_build_folder(entry->path())) list_files(entry->path(), files, unreadable);
    } else if (const fs::file_status status = entry->status(unknown); fs::is_regular_file(status)) {
      files.push_back(entry->path());
    } else if (!fs::is_directory(status)) {
      ++unreadable;  // a link to nowhere or to itself, a pipe, a socket, a device
    }
  }
  if (failed) ++unreadable;
}

}  // namespace detail

// Reads a file whatever it holds, or every text file below a folder, in the order of their paths compared byte by
// byte; at most `most_bytes` bytes in all. In a folder, skipped are: files with a NUL byte, what cannot be read,
// folders whose name starts with a dot, build folders (`build`, `build-*`, `cmake-build*`, `node_modules`,
// `__pycache__`, and any with a CMakeCache.txt or CACHEDIR.TAG), links to folders, and a second path to a file that
// was already read (so links never loop and no byte comes twice). The folder named by the caller is always read.
// Throws `error` when the path is missing or not readable, and when there are no bytes: an empty file, or a folder
// in which nothing was readable.
inline text_files read_text(const std::filesystem::path& path, std::size_t most_bytes = std::numeric_limits<std::size_t>::max()) {
  namespace fs = std::filesystem;
  const std::string where = "text data: '" + path.string() + "' ";
  std::error_code failed;
  const fs::file_status status = fs::status(path, failed);
  if (status.type() == fs::file_type::not_found) throw error(where + "does not exist");
  if (failed && !fs::exists(status)) throw error(where + "cannot be looked up: " + failed.message());
  if (most_bytes == 0) throw error(where + "was to be read with a limit of 0 bytes; give a limit above 0");

  text_files text;
  if (fs::is_regular_file(status)) {
    if (detail::append_file(path, most_bytes, false, text.bytes) != detail::read_result::whole)
      throw error(where + "cannot be read; check its permissions");
    if (text.bytes.empty()) throw error(where + "is empty; give a file with text in it");
    text.files.push_back(path);
    return text;
  }
  if (!fs::is_directory(status)) throw error(where + "is neither a file nor a folder");

  std::vector<fs::path> files;
  detail::list_files(path, files, text.unreadable);
  std::sort(files.begin(), files.end(),
            [](const fs::path& a, const fs::path& b) { return a.generic_string() < b.generic_string(); });
  std::set<fs::path> seen;
  std::size_t empty = 0;
  for (const fs::path& file : files) {
    if (text.bytes.size() >= most_bytes) break;
    std::error_code unknown;
    fs::path real = fs::canonical(file, unknown);
    if (!unknown && !seen.insert(std::move(real)).second) continue;
    const std::size_t before = text.bytes.size();
    switch (detail::append_file(file, most_bytes - before, true, text.bytes)) {
      case detail::read_result::whole:
        if (text.bytes.size() > before) text.files.push_back(file);
        else ++empty;
        break;
      case detail::read_result::binary: ++text.binary; break;
      case detail::read_result::unreadable: ++text.unreadable; break;
    }
  }
  if (text.bytes.empty())
    throw error(where + "holds no readable text: " + std::to_string(text.binary) + " binary, " + std::to_string(text.unreadable) +
                " unreadable and " + std::to_string(empty) +
                " empty files; give a folder with text files (hidden and build folders are not entered)");
  return text;
}

}  // namespace partita
