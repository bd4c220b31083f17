// A file that replaces another one whole or not at all.
#pragma once
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#include <partita/core/words.hpp>

namespace partita {

// What the system said is behind the message.
[[noreturn]] inline void throw_system_error(std::string const& file, std::string_view what) {
  const std::string reason = std::strerror(errno);
  throw_error({file, " ", what, ": ", reason});
}

// Closed when it goes.
class file_descriptor {
 public:
  explicit file_descriptor(int number = -1) : number_(number) {}
  file_descriptor(file_descriptor const&) = delete;
  file_descriptor& operator=(file_descriptor const&) = delete;
  ~file_descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int get() const { return number_; }

 private:
  int number_;
};

// It is written beside its place, as PATH.part. Until `put_in_place` has returned, what was there before is there; after
// that the new file is, whole, whatever ends the process or the machine. Throws error with the file's name and the
// system's reason.
class file_replacement {
 public:
  explicit file_replacement(std::filesystem::path const& path)
      : path_(behind_links(path)), beside_(path_.string() + ".part"), file_(opened(path_, beside_)) {
    begin();
  }
  file_replacement(file_replacement const&) = delete;
  file_replacement& operator=(file_replacement const&) = delete;
  ~file_replacement() {
    if (!is_in_place_) ::unlink(beside_.c_str());
  }
  std::string name() const { return path_.string(); }

  // At the end.
  void write(void const* from, std::size_t count) {
    write_at(size_, from, count);
    size_ += count;
  }
  void write_at(std::uint64_t at, void const* from, std::size_t count) {
    auto const* bytes = static_cast<std::byte const*>(from);
    while (count > 0) {
      const ssize_t gone = ::pwrite(file_.get(), bytes, std::min(count, std::size_t{1} << 30), static_cast<off_t>(at));
      if (gone < 0 && errno == EINTR) continue;
      if (gone < 0) throw_system_error(beside_, "cannot be written");
      if (gone == 0) throw_error({beside_, " cannot be written: the system takes no more bytes"});
      at += static_cast<std::uint64_t>(gone), bytes += gone, count -= static_cast<std::size_t>(gone);
    }
  }
  void put_in_place() {
    // After a crash a new name may be there without what was written under it before, unless that was brought to the disk.
    if (::fsync(file_.get()) != 0) throw_system_error(beside_, "cannot be brought to the disk");
    if (::rename(beside_.c_str(), path_.c_str()) != 0) throw_system_error(name(), "cannot be replaced");
    is_in_place_ = true;
    const file_descriptor folder(::open(path_.has_parent_path() ? path_.parent_path().c_str() : ".", O_RDONLY | O_CLOEXEC));
    if (folder.get() >= 0) (void)::fsync(folder.get());  // not every file system can
  }

 private:
  // A name that is a link stays one, also where nothing is behind it yet.
  static std::filesystem::path behind_links(std::filesystem::path path) {
    constexpr int most_links = 40;  // what Linux follows
    std::error_code failed;
    for (int links = 0; std::filesystem::is_symlink(path, failed); ++links) {
      if (links == most_links) throw_error({path.string(), " is a link that leads to no file: give the name of one"});
      const auto next = std::filesystem::read_symlink(path, failed);
      if (failed) break;
      path = path.parent_path() / next;  // an absolute one stands for itself
    }
    return path;
  }
  static int opened(std::filesystem::path const& path, std::string const& beside) {
    std::error_code none;
    const auto is = std::filesystem::status(path, none);
    if (std::filesystem::exists(is) && !std::filesystem::is_regular_file(is))
      throw_error({path.string(), " is there and is no file: give the name of one"});
    const int number = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (number < 0) throw_system_error(beside, "cannot be written");
    return number;
  }
  // What another process writes is left as it is; what one that has ended left behind goes.
  void begin() {
    const bool is_taken = ::flock(file_.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;  // not every file system can
    struct stat is {
    }, named{};
    if (::fstat(file_.get(), &is) != 0) throw_system_error(beside_, "cannot be written");
    // Between opening and locking another process may have put what it wrote in its place.
    const bool is_still_there = ::stat(beside_.c_str(), &named) == 0 && is.st_dev == named.st_dev && is.st_ino == named.st_ino;
    if (is_taken || !is_still_there)
      throw_error({beside_, " cannot be written: another process writes it; give each training a file of its own"});
    if (S_ISREG(is.st_mode) && ::ftruncate(file_.get(), 0) != 0) throw_system_error(beside_, "cannot be written");
  }

  std::filesystem::path path_;
  std::string beside_;
  file_descriptor file_;
  std::uint64_t size_ = 0;
  bool is_in_place_ = false;
};

}  // namespace partita
