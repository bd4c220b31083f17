// Files of tensors in the safetensors format (https://github.com/huggingface/safetensors): 8 bytes with the length of the
// header, the header in JSON, then the tensors' elements, row-major and little-endian, without gaps. What a file says is
// checked whole before anything of it is used.
#pragma once
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <nlohmann/json.hpp>

#include <partita/core/dtype.hpp>
#include <partita/core/error.hpp>
#include <partita/core/words.hpp>
#include <partita/train/file_replacement.hpp>

namespace partita::safetensors {

static_assert(std::endian::native == std::endian::little, "a safetensors file is little-endian");

using notes = std::map<std::string, std::string>;  // what the format calls __metadata__

struct entry {
  std::string name, type;  // type: "F32" and the like
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0, end = 0;  // bytes, from where the header ends
  std::string shape_text() const {
    std::string text = "[";
    for (std::uint64_t e : shape) text += words({text.size() > 1 ? ", " : "", e});
    return text + "]";
  }
};

struct header {
  notes said;
  std::vector<entry> tensors;  // as they lie in the file
};

constexpr std::string_view name_of(dtype type) {
  switch (type) {
    case dtype::f32: return "F32";
    case dtype::f64: return "F64";
    case dtype::bf16: return "BF16";
    case dtype::f16: return "F16";
    case dtype::i32: return "I32";
  }
  return "?";
}

namespace detail {

inline constexpr std::size_t length_bytes = 8, most_header_bytes = 100'000'000;  // the format's own limit
inline constexpr std::size_t chunk_bytes = std::size_t{1} << 20;

// Bytes of an element, of the types that the format names; 0: another one.
inline std::uint64_t width_of(std::string_view type) {
  struct known {
    std::string_view name;
    std::uint64_t bytes;
  };
  static constexpr std::array<known, 14> all{{{"BOOL", 1},
                                              {"U8", 1},
                                              {"I8", 1},
                                              {"F8_E4M3", 1},
                                              {"F8_E5M2", 1},
                                              {"I16", 2},
                                              {"U16", 2},
                                              {"F16", 2},
                                              {"BF16", 2},
                                              {"I32", 4},
                                              {"U32", 4},
                                              {"F32", 4},
                                              {"F64", 8},
                                              {"I64", 8}}};
  for (known const& k : all)
    if (k.name == type) return k.bytes;
  return type == "U64" ? 8 : 0;
}

// Of the elements of all tensors, in their order. Words of 8 bytes by FNV-1a: what changes one word changes it.
// The upper half is folded into the lower: a product carries nothing down, and sign bits that two words lose would cancel.
inline std::uint64_t digest(std::uint64_t state, std::byte const* bytes, std::size_t count) {
  for (std::size_t at = 0; at < count; at += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, bytes + at, std::min<std::size_t>(8, count - at));
    state = (state ^ word) * 1099511628211u;
    state ^= state >> 32;
  }
  return state;
}
inline constexpr std::uint64_t digest_seed = 14695981039346656037u;
inline constexpr std::string_view digest_note = "partita.digest";

inline std::string text_of_digest(std::uint64_t digest) {
  std::string text(16, '0');
  for (std::size_t i = 0; i < 16; ++i) text[i] = "0123456789abcdef"[digest >> (60 - 4 * i) & 15];
  return text;
}

[[noreturn]] inline void fail(std::string const& file, std::string const& what) { throw_error({file, ": ", what}); }
// The words of a header, checked against themselves and against the bytes of data behind it.
class header_reader {
 public:
  header_reader(std::string const& file, std::string_view text, std::uint64_t data_bytes) : file_(file), data_(data_bytes) {
    using json = nlohmann::json;
    json all;
    std::vector<std::set<std::string>> keys;  // by depth
    const auto note = [&](int, json::parse_event_t event, json& value) {
      if (event == json::parse_event_t::object_start) keys.emplace_back();
      else if (event == json::parse_event_t::object_end) keys.pop_back();
      else if (event == json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second)
        fail(file_, words({"its header says \"", value.get<std::string>(), "\" twice"}));
      return true;
    };
    try {
      all = json::parse(text, note);
    } catch (json::exception const& e) { fail(file_, words({"its header is no JSON: ", e.what()})); }
    if (!all.is_object()) fail(file_, "its header is no JSON object");
    for (auto const& [name, value] : all.items())
      if (name == "__metadata__") take_notes(value);
      else take(name, value);
    check_data();
  }
  header result;

 private:
  void take_notes(nlohmann::json const& all) {
    if (!all.is_object()) fail(file_, "__metadata__ in its header is no JSON object");
    for (auto const& [key, value] : all.items()) {
      if (!value.is_string()) fail(file_, words({"__metadata__ ", key, " in its header is no string"}));
      result.said[key] = value.get<std::string>();
    }
  }
  std::uint64_t number(nlohmann::json const& value, std::string const& what) const {
    if (!value.is_number_unsigned()) fail(file_, words({what, " is ", value.dump(), ", not a whole number of 0 or more"}));
    return value.get<std::uint64_t>();
  }
  void take(std::string const& name, nlohmann::json const& value) {
    const std::string where = words({"tensor ", name, ": "});
    if (!value.is_object()) fail(file_, where + "its entry in the header is no JSON object");
    for (const char* key : {"dtype", "shape", "data_offsets"})
      if (!value.contains(key)) fail(file_, words({where, "its entry in the header has no ", key}));
    entry e;
    e.name = name;
    if (!value["dtype"].is_string()) fail(file_, where + "dtype is no string");
    e.type = value["dtype"].get<std::string>();
    if (!value["shape"].is_array()) fail(file_, where + "shape is no array");
    for (auto const& extent : value["shape"]) e.shape.push_back(number(extent, where + "an extent of shape"));
    auto const& offsets = value["data_offsets"];
    if (!offsets.is_array() || offsets.size() != 2) fail(file_, where + "data_offsets is no array of two numbers");
    e.begin = number(offsets[0], where + "data_offsets[0]");
    e.end = number(offsets[1], where + "data_offsets[1]");
    if (e.begin > e.end) fail(file_, words({where, "data_offsets end at ", e.end, ", before they begin, at ", e.begin}));
    if (e.end > data_)
      fail(file_,
           words({where, "it ends at byte ", e.end, " of the data, of which there are ", data_, "; the file is truncated"}));
    check_size(e, where);
    result.tensors.push_back(std::move(e));
  }
  void check_size(entry const& e, std::string const& where) const {
    const std::uint64_t width = width_of(e.type);
    if (width == 0) return;  // a type that is newer than this: whoever wants the tensor compares the types
    std::uint64_t bytes = width;
    bool fits = true;
    for (std::uint64_t extent : e.shape) fits = !__builtin_mul_overflow(bytes, extent, &bytes) && fits;
    if (std::find(e.shape.begin(), e.shape.end(), 0u) != e.shape.end()) bytes = 0, fits = true;
    if (!fits || bytes != e.end - e.begin)
      fail(file_, words({where, e.type, " ", e.shape_text(), " does not take the ", e.end - e.begin,
                         " bytes that its data_offsets give it"}));
  }
  // Each byte of the data belongs to one tensor.
  void check_data() {
    std::vector<entry>& all = result.tensors;
    std::sort(all.begin(), all.end(), [](entry const& a, entry const& b) {
      return a.begin != b.begin ? a.begin < b.begin : a.end != b.end ? a.end < b.end : a.name < b.name;
    });
    std::uint64_t at = 0;
    for (std::size_t i = 0; i < all.size(); at = all[i++].end)
      if (all[i].begin != at)
        fail(file_, words({"tensor ", all[i].name, " begins at byte ", all[i].begin, " of the data, and ",
                           i == 0 ? std::string("the data begin at 0") : words({"tensor ", all[i - 1].name, " ends at ", at}),
                           all[i].begin < at ? ": they overlap" : ": nobody has what is between"}));
    if (at != data_) fail(file_, words({"its tensors end at byte ", at, " of the data, of which there are ", data_}));
  }

  std::string const& file_;
  std::uint64_t data_;
};

}  // namespace detail

// A file whose header has been read and found right.
class reader {
 public:
  // Throws error, with the file's name, where it cannot be read or is no such file.
  explicit reader(std::filesystem::path const& path)
      : name_(path.string()), file_(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {  // a pipe would wait for a writer
    if (file_.get() < 0) throw_system_error(name_, "cannot be opened");
    struct stat is {};
    if (::fstat(file_.get(), &is) != 0) throw_system_error(name_, "cannot be read");
    if (!S_ISREG(is.st_mode)) throw_error({name_, " is no file"});
    const auto size = static_cast<std::uint64_t>(is.st_size);
    if (size < detail::length_bytes)
      throw_error({name_, " has ", size, " bytes, fewer than any safetensors file; it is empty, truncated, or something else"});
    std::uint64_t length = 0;
    read_at(0, sizeof length, reinterpret_cast<std::byte*>(&length));
    if (length > detail::most_header_bytes || length > size - detail::length_bytes)
      throw_error({name_, " is no safetensors file, or truncated: it has ", size, " bytes, and its first 8 say that a header of ",
                   length, " follows"});
    data_ = detail::length_bytes + length;
    std::string text(static_cast<std::size_t>(length), '\0');
    read_at(detail::length_bytes, text.size(), reinterpret_cast<std::byte*>(text.data()));
    if (!text.starts_with('{')) throw_error({name_, " is no safetensors file: its header does not begin with {"});
    header_ = detail::header_reader(name_, text, size - data_).result;
    for (std::size_t i = 0; i < header_.tensors.size(); ++i) by_name_[header_.tensors[i].name] = i;
  }

  std::string const& name() const { return name_; }
  header const& said() const { return header_; }
  entry const* find(std::string_view name) const {
    const auto found = by_name_.find(name);
    return found == by_name_.end() ? nullptr : &header_.tensors[found->second];
  }
  // Bytes [from, from + count) of a tensor.
  void read(entry const& e, std::uint64_t from, std::size_t count, std::byte* to) const {
    read_at(data_ + e.begin + from, count, to);
  }

  // Reads everything once. Throws error where the disk fails, or where the data are not those that `writer` wrote.
  void check_data() const {
    std::vector<std::byte> chunk(detail::chunk_bytes);
    std::uint64_t found = detail::digest_seed;
    for (entry const& e : header_.tensors)
      for (std::uint64_t at = 0; at < e.end - e.begin; at += chunk.size()) {
        const auto count = static_cast<std::size_t>(std::min<std::uint64_t>(chunk.size(), e.end - e.begin - at));
        read(e, at, count, chunk.data());
        found = detail::digest(found, chunk.data(), count);
      }
    const auto written = header_.said.find(std::string(detail::digest_note));
    if (written != header_.said.end() && written->second != detail::text_of_digest(found))
      throw_error({name_, " is damaged: the digest of its data is ", detail::text_of_digest(found), ", and was ", written->second,
                   " when it was written; take an older file"});
  }

 private:
  void read_at(std::uint64_t at, std::size_t count, std::byte* to) const {
    while (count > 0) {
      const ssize_t got = ::pread(file_.get(), to, std::min<std::size_t>(count, std::size_t{1} << 30), static_cast<off_t>(at));
      if (got < 0 && errno == EINTR) continue;
      if (got < 0) throw_system_error(name_, "cannot be read");
      if (got == 0) throw_error({name_, " has become shorter while it was read"});
      at += static_cast<std::uint64_t>(got), count -= static_cast<std::size_t>(got), to += got;
    }
  }

  std::string name_;
  file_descriptor file_;
  std::uint64_t data_ = 0;  // where the header ends
  header header_;
  std::map<std::string, std::size_t, std::less<>> by_name_;
};

class writer {
 public:
  // `tensors` in the order in which they will be written; where each lies follows from that.
  writer(std::filesystem::path const& path, std::vector<entry> const& tensors, notes said) : file_(path) {
    said[std::string(detail::digest_note)] = detail::text_of_digest(0);  // known when all is written
    const std::string text = header_text(tensors, said);
    if (text.size() > detail::most_header_bytes)
      throw_error(
          {file_.name(), ": its header would have ", text.size(), " bytes; the format allows ", detail::most_header_bytes});
    const std::string key =
        words({"\"", detail::digest_note, "\":\""});  // quotes inside of strings are escaped: it is there once
    digest_at_ = detail::length_bytes + text.find(key) + key.size();
    const std::uint64_t length = text.size();
    file_.write(&length, sizeof length);
    file_.write(text.data(), text.size());
  }
  // The next tensor, whole.
  void write(std::byte const* bytes, std::size_t count) {
    digest_ = detail::digest(digest_, bytes, count);
    file_.write(bytes, count);
  }
  // Until this has returned, what was there before is there.
  void put_in_place() {
    const std::string digest = detail::text_of_digest(digest_);
    file_.write_at(digest_at_, digest.data(), digest.size());
    file_.put_in_place();
  }

 private:
  std::string header_text(std::vector<entry> const& tensors, notes const& said) const {
    nlohmann::json all;
    all["__metadata__"] = said;
    std::uint64_t at = 0;
    for (entry const& e : tensors) {
      std::uint64_t bytes = detail::width_of(e.type);
      for (std::uint64_t extent : e.shape) bytes *= extent;
      all[e.name] = {{"dtype", e.type}, {"shape", e.shape}, {"data_offsets", {at, at + bytes}}};
      at += bytes;
    }
    std::string text;
    try {
      text = all.dump();
    } catch (nlohmann::json::exception const& e) { throw_error({file_.name(), ": a name or a note is no UTF-8: ", e.what()}); }
    text.resize((text.size() + 7) / 8 * 8, ' ');  // the data begin at a multiple of 8
    return text;
  }

  file_replacement file_;
  std::uint64_t digest_ = detail::digest_seed, digest_at_ = 0;
};

}  // namespace partita::safetensors
