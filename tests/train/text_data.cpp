#include <doctest/doctest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include <partita/train/text_data.hpp>

namespace fs = std::filesystem;

namespace {

struct temporary_folder {
  fs::path path;
  temporary_folder() {
    std::string name = (fs::temp_directory_path() / "partita_text_XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~temporary_folder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
  void write(const std::string& name, const std::string& bytes) const {
    fs::create_directories((path / name).parent_path());
    std::ofstream(path / name, std::ios::binary) << bytes;
  }
};

// Every byte tells its offset modulo 251, so that a window can be recognised.
std::string numbered(std::size_t size) {
  std::string bytes(size, ' ');
  for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<char>(static_cast<unsigned char>(i % 251));
  return bytes;
}

template <class Call> std::string message_of(Call call) {
  try {
    call();
  } catch (const partita::error& e) { return e.what(); }
  return "";
}

bool says(const std::string& message, std::initializer_list<const char*> words) {
  for (const char* word : words)
    if (message.find(word) == std::string::npos) {
      MESSAGE("'" << message << "' does not say '" << word << "'");
      return false;
    }
  return true;
}

}  // namespace

TEST_CASE("a folder is read in the order of its paths, text files only") {
  temporary_folder folder;
  folder.write("b.txt", "bbb");
  folder.write("a/z.txt", "zz");
  folder.write("a/deep/er/y.txt", "y");
  folder.write("c.bin", std::string("c\0c", 3));
  folder.write("late.bin", std::string(100'000, 'x') + std::string(1, '\0'));
  folder.write("empty.txt", "");
  folder.write(".git/config", "never");
  folder.write("build/log.txt", "never");
  folder.write("build-debug/log.txt", "never");
  folder.write("made/CMakeCache.txt", "never");
  folder.write("target/CACHEDIR.TAG", "never");
  folder.write("building/d.txt", "d");
  fs::create_directory_symlink(folder.path, folder.path / "a" / "loop");
  fs::create_symlink(folder.path / "self", folder.path / "self");
  fs::create_symlink(folder.path / "b.txt", folder.path / "x_again.txt");

  const partita::text_files text = partita::read_text(folder.path);
  CHECK(text.bytes == "yzzbbbd");
  REQUIRE(text.files.size() == 4);
  CHECK(text.files[0] == folder.path / "a/deep/er/y.txt");
  CHECK(text.files[3] == folder.path / "building/d.txt");
  CHECK(text.binary == 2);
  CHECK(text.unreadable == 1);
  CHECK(partita::read_text(folder.path, 4).bytes == "yzzb");
  CHECK(partita::read_text(folder.path / "build").bytes == "never");
  CHECK(partita::read_text(folder.path / "a" / "loop").bytes == text.bytes);
  CHECK(partita::read_text(folder.path / "c.bin").bytes.size() == 3);
}

TEST_CASE("a file without permission is skipped in a folder and refused by name") {
  if (geteuid() == 0) return;  // root reads everything
  temporary_folder folder;
  folder.write("a.txt", "a");
  folder.write("b.txt", "b");
  fs::permissions(folder.path / "a.txt", fs::perms::none);
  CHECK(partita::read_text(folder.path).bytes == "b");
  CHECK(partita::read_text(folder.path).unreadable == 1);
  CHECK(says(message_of([&] { partita::read_text(folder.path / "a.txt"); }), {"a.txt", "cannot be read"}));
}

TEST_CASE("what cannot be read is refused in words") {
  temporary_folder folder;
  CHECK(says(message_of([&] { partita::text_data(folder.path / "none"); }), {"none", "does not exist"}));
  folder.write("empty", "");
  CHECK(says(message_of([&] { partita::text_data(folder.path / "empty"); }), {"is empty"}));
  folder.write("only.bin", std::string(5, '\0'));
  CHECK(says(message_of([&] { partita::text_data(folder.path); }), {"no readable text", "1 binary, 0 unreadable and 1 empty"}));
  CHECK(says(message_of([&] { partita::text_data("/dev/null"); }), {"neither a file nor a folder"}));
  CHECK_THROWS_AS(partita::text_data::from_bytes(""), partita::error);
  CHECK_THROWS_AS(partita::text_data::from_bytes("a", {.held_out = 1}), partita::error);
  CHECK_THROWS_AS(partita::text_data::from_bytes("a", {.held_out = -0.1}), partita::error);
  CHECK_THROWS_AS(partita::text_data::from_bytes("a", {.held_out = std::nan("")}), partita::error);
  CHECK_THROWS_AS(partita::text_data::from_bytes("a", {.held_out_block = 0}), partita::error);
}

TEST_CASE("the held-out part has its size and is spread over the text") {
  for (double part : {0.0, 0.05, 0.1, 0.3, 0.5})
    for (std::size_t size : {1u, 7u, 1000u, 81'919u, 300'000u, 1'000'003u})
      for (std::size_t block : {1u, 100u, 8192u}) {
        const auto data = partita::text_data::from_bytes(numbered(size), {.held_out = part, .held_out_block = block});
        CHECK(data.training_size() + data.held_out_size() == size);
        if (size >= 1000 && block >= 100)
          CHECK(static_cast<double>(data.held_out_size()) / static_cast<double>(size) == doctest::Approx(part).epsilon(0.03));
        if (size > 100'000) continue;
        std::size_t held = 0;
        for (std::size_t i = 0; i < size; ++i) held += data.is_held_out(i);
        CHECK(held == data.held_out_size());
      }
  const auto data = partita::text_data::from_bytes(numbered(819'200));
  for (std::size_t block = 0; block < 10; ++block) {
    CHECK_FALSE(data.is_held_out(block * 81'920));
    CHECK_FALSE(data.is_held_out(block * 81'920 + 73'727));
    CHECK(data.is_held_out(block * 81'920 + 73'728));
    CHECK(data.is_held_out(block * 81'920 + 81'919));
  }
  CHECK_THROWS_AS(data.is_held_out(819'200), partita::error);
}

TEST_CASE("no training window touches a held-out byte, and targets are the next bytes") {
  const std::string bytes = numbered(50'021);
  for (std::size_t length : {1u, 16u, 500u, 899u}) {
    const auto data = partita::text_data::from_bytes(bytes, {.held_out_block = 100, .seed = 3});
    for (std::uint64_t step = 0; step < 50; ++step) {
      const partita::text_batch batch = data.batch(step, 4, length);
      REQUIRE(batch.inputs.size() == 4 * length);
      REQUIRE(batch.targets.size() == 4 * length);
      for (std::size_t row = 0; row < 4; ++row) {
        const std::size_t begin = data.window(step, row, length);
        bool right = true;
        for (std::size_t i = 0; i < length; ++i)
          right = right && batch.inputs[row * length + i] == static_cast<unsigned char>(bytes[begin + i]) &&
                  batch.targets[row * length + i] == static_cast<unsigned char>(bytes[begin + i + 1]) &&
                  !data.is_held_out(begin + i);
        CHECK(right);
        CHECK_FALSE(data.is_held_out(begin + length));
      }
    }
  }
}

TEST_CASE("a batch depends on seed, step and index only") {
  const auto data = partita::text_data::from_bytes(numbered(100'000), {.seed = 1});
  const partita::text_batch whole = data.batch(5, 8, 32);
  CHECK(whole == data.batch(5, 8, 32));
  for (std::size_t parts : {2u, 4u, 8u}) {
    partita::text_batch joined{8, 32, {}, {}};
    for (std::size_t p = 0; p < parts; ++p) {
      const partita::text_batch piece = data.batch(5, 8 / parts, 32, p * 8 / parts);
      joined.inputs.insert(joined.inputs.end(), piece.inputs.begin(), piece.inputs.end());
      joined.targets.insert(joined.targets.end(), piece.targets.begin(), piece.targets.end());
    }
    CHECK(joined == whole);
  }
  std::vector<std::int32_t> inputs(8 * 32), targets(8 * 32);
  data.fill(5, 32, inputs, targets);
  CHECK(inputs == whole.inputs);
  CHECK(targets == whole.targets);
  CHECK(whole != data.batch(6, 8, 32));
  CHECK(whole != partita::text_data::from_bytes(numbered(100'000), {.seed = 2}).batch(5, 8, 32));
  targets.pop_back();
  CHECK_THROWS_AS(data.fill(5, 32, inputs, targets), partita::error);
  CHECK_THROWS_AS(data.batch(0, 0, 32), partita::error);
  CHECK_THROWS_AS(data.batch(0, 8, 0), partita::error);
}

TEST_CASE("windows are spread evenly") {
  const auto data = partita::text_data::from_bytes(numbered(1000), {.held_out = 0});
  std::vector<int> tenths(10);
  std::set<std::size_t> begins;
  for (std::uint64_t step = 0; step < 1000; ++step)
    for (std::uint64_t index = 0; index < 10; ++index) {
      const std::size_t begin = data.window(step, index, 100);  // 900 positions
      REQUIRE(begin < 900);
      begins.insert(begin);
      ++tenths[begin / 90];
    }
  for (int count : tenths) CHECK(std::abs(count - 1000) < 150);  // five standard deviations
  CHECK(begins.size() > 890);
}

TEST_CASE("a text shorter than a window is refused with both numbers") {
  const auto data = partita::text_data::from_bytes(numbered(100), {.held_out = 0}, "tiny.txt");
  CHECK_NOTHROW(data.batch(0, 2, 99));
  CHECK(says(message_of([&] { data.batch(0, 2, 100); }),
             {"tiny.txt", "sequence of 100", "need 101", "has 100 in a row", "give more text or shorter sequences"}));
  const auto kept = partita::text_data::from_bytes(numbered(100));
  CHECK(says(message_of([&] { kept.batch(0, 2, 90); }), {"need 91", "has 90 in a row", "100 bytes in all"}));
  CHECK(says(message_of([&] { kept.held_out(1, 10); }), {"0 windows of 10", "one batch takes 1", "10 bytes are held"}));
  CHECK(says(message_of([&] { kept.batch(0, 1, std::numeric_limits<std::size_t>::max()); }), {"too short"}));
}

TEST_CASE("held-out batches are full, disjoint, held out and the same each time") {
  const std::string bytes = numbered(100'000);
  const auto data = partita::text_data::from_bytes(bytes, {.held_out_block = 1000});
  CHECK(data.held_out_window_count(64) == 10 * 15);
  for (std::size_t most : {std::size_t{3}, std::numeric_limits<std::size_t>::max()}) {
    const auto range = data.held_out(8, 64, most);
    CHECK(range.size() == std::min<std::size_t>(most, 18));
    std::set<std::size_t> begins;
    std::size_t number = 0, batches = 0;
    for (const partita::text_batch& batch : range) {
      CHECK(batch == range[batches++]);
      for (std::size_t row = 0; row < 8; ++row, ++number) {
        const std::size_t begin = range.window(number);
        CHECK((begins.empty() || begin >= *begins.rbegin() + 64));
        begins.insert(begin);
        bool right = data.is_held_out(begin + 64);
        for (std::size_t i = 0; i < 64; ++i)
          right = right && data.is_held_out(begin + i) &&
                  batch.inputs[row * 64 + i] == static_cast<unsigned char>(bytes[begin + i]) &&
                  batch.targets[row * 64 + i] == static_cast<unsigned char>(bytes[begin + i + 1]);
        CHECK(right);
      }
    }
    CHECK(batches == range.size());
    CHECK(*begins.rbegin() > 90'000);
    CHECK_THROWS_AS(range[range.size()], partita::error);
    CHECK_THROWS_AS(range.window(number), partita::error);
  }
  CHECK(data.held_out(8, 64, 0).size() == 0);
  CHECK_THROWS_AS(data.held_out(151, 64), partita::error);
  CHECK_THROWS_AS(data.held_out(0, 64), partita::error);
}

TEST_CASE("the unigram loss is the smoothed cross-entropy of the two parts") {
  // One block: 'a' x 6, 'b' x 3 for training, 'b' held out.
  const auto small = partita::text_data::from_bytes("aaaaaabbbb");
  REQUIRE(small.held_out_size() == 1);
  CHECK(small.unigram_loss() == doctest::Approx(-std::log(4.0 / (9 + 256))));
  std::string uniform;
  for (int i = 0; i < 256 * 400; ++i) uniform += static_cast<char>(static_cast<unsigned char>(i * 167 % 256));
  CHECK(partita::text_data::from_bytes(uniform).unigram_loss() == doctest::Approx(std::log(256.0)).epsilon(1e-3));
  CHECK(partita::text_data::from_bytes(std::string(100'000, 'a')).unigram_loss() < 0.01);
  CHECK_THROWS_AS(partita::text_data::from_bytes("aaaa", {.held_out = 0}).unigram_loss(), partita::error);
}
