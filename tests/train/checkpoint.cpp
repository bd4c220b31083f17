// Checkpoints: what goes on from one under the same plan has the same bits, under another plan the same result; and what is
// not a checkpoint of the training changes nothing.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <partita/partita.hpp>
#include <partita/train/checkpoint.hpp>

#include "../support/agreement.hpp"
#include "../support/plan_by_sizes.hpp"

namespace pt = partita;
namespace fs = std::filesystem;
using namespace partita::testing;
using doctest::Contains;

namespace {

struct sample : pt::axis<"sample"> {};
struct word : pt::axis<"word"> {};
struct hidden : pt::axis<"hidden", 6> {};
struct inner : pt::axis<"inner", 10> {};

struct tied_net {  // a table that is read twice, dropout, a block that can be cut in time
  constexpr auto operator()(auto& g) const {
    auto table = pt::param<pt::f32, word, hidden>(g, "table", pt::normal{0.5});
    auto x = pt::embedding(pt::input<pt::i32, sample>(g, "x"), table);
    auto h = [&] {
      auto inside = pt::scope(g, "block", 0);
      auto up = pt::linear(x, pt::param<pt::f32, hidden, inner>(g, "up.weight", pt::normal{0.5}));
      return pt::linear(pt::dropout(pt::gelu(up), 0.2), pt::param<pt::f32, inner, hidden>(g, "down.weight", pt::normal{0.5}));
    }();
    return pt::cross_entropy(pt::einsum<"s h+, w h+ -> s w">(pt::add(x, h), table), pt::input<pt::i32, sample>(g, "y"));
  }
};
struct either_optimizer {  // of one type, so that the model is compiled once
  bool is_adamw = false;
  pt::adamw first{};
  pt::sgd second{};
  template <class G, class P, class D, class S>
  constexpr void update(G& g, std::string_view name, P parameter, D gradient, S scale) const {
    if (is_adamw) first.update(g, name, parameter, gradient, scale);
    else second.update(g, name, parameter, gradient, scale);
  }
};
using training = pt::training<tied_net, either_optimizer, pt::clip_norm>;

struct plan_in_turns {
  pt::testing::plan_by_sizes sizes;
  int chunks = 1;
  int devices() const { return sizes.devices(); }
  constexpr void operator()(auto& plan) const {
    sizes(plan);
    if (chunks > 1) pt::policy::coshard_of{&pt::axis_of<inner>::info, chunks, "block.*"}(plan);
  }
};
constexpr plan_in_turns plans[]{{},
                                {{.data = 3}},
                                {{.data = 2, .tensor = 2}},
                                {{.data = 2, .zero = 3}},
                                {{.data = 2, .zero = 3}, 2},
                                {{.stages = 2, .micro_batches = 3}}};

training recipe(bool is_adamw = true, double momentum = 0) {
  return {.model = {}, .optimizer = {.is_adamw = is_adamw, .first = {}, .second = {.momentum = momentum}}, .clip = {.max = 1.0}};
}
pt::trainer<training> make(plan_in_turns const& plan = {}, training const& what = recipe(), std::uint64_t seed = 3,
                           std::size_t words = 7) {
  return {what,
          plan,
          pt::cpu{.devices = plan.devices(), .threads = 1},
          pt::trainer_options{.seed = seed, .learning_rate = 0.02},
          pt::bind<sample>(12),
          pt::bind<word>(words)};
}
float step(pt::trainer<training>& t, unsigned number) {
  std::mt19937 random(number);
  std::vector<std::int32_t> x, y;
  for (int i = 0; i < 12; ++i) {
    x.push_back(static_cast<std::int32_t>(random() % 7));
    y.push_back(static_cast<std::int32_t>(random() % 7));
  }
  return t.step({{"x", x}, {"y", y}});
}
std::map<std::string, std::vector<std::byte>> kept(pt::trainer<training> const& t) {
  std::map<std::string, std::vector<std::byte>> all;
  for (std::string const& name : t.parameter_names()) all[name] = t.parameter(name).bytes;
  for (std::string const& name : t.state_names()) all[name] = t.state(name).bytes;
  return all;
}
std::vector<double> numbers(pt::host_tensor const& t) {
  std::vector<double> all(t.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = t[i];
  return all;
}

struct folder {
  fs::path path;
  folder() {
    std::string name = (fs::temp_directory_path() / "partita_checkpoint_XXXXXX").string();
    REQUIRE(mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~folder() { fs::remove_all(path); }
  fs::path operator/(char const* name) const { return path / name; }
};
std::string bytes_of(fs::path const& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}
void write(fs::path const& path, std::string const& bytes) { std::ofstream(path, std::ios::binary) << bytes; }
// A file of that header, and of `data` bytes.
std::string file_of(std::string const& header, std::size_t data) {
  const std::uint64_t length = header.size();
  std::string all(8, '\0');
  std::memcpy(all.data(), &length, 8);
  return all + header + std::string(data, 'd');
}
std::string replaced(std::string text, std::string const& from, std::string const& to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != text.npos);
  return text.replace(at, from.size(), to);
}
// The same file with another header.
std::string with_header(std::string const& file, std::string const& from, std::string const& to) {
  std::uint64_t length = 0;
  std::memcpy(&length, file.data(), 8);
  const std::string header = replaced(file.substr(8, length), from, to);
  return file_of(header, 0) + file.substr(8 + length);
}
}  // namespace

TEST_CASE("a training that was stopped goes on with the same bits") {
  const folder here;
  for (plan_in_turns const& plan : plans) {
    auto whole = make(plan), begun = make(plan);
    for (unsigned i = 0; i < 2; ++i) {
      step(whole, i);
      step(begun, i);
    }
    begun.set_learning_rate(0.01);
    pt::save(begun, here / "file", {{"read", "24 words"}});
    CHECK(kept(begun) == kept(whole));  // saving changes nothing
    auto resumed = make(plan, recipe(), /*seed*/ 99);
    CHECK(pt::load(resumed, here / "file") == pt::checkpoint_notes{{"read", "24 words"}});
    CHECK(resumed.steps() == 2);
    CHECK(resumed.learning_rate() == 0.01);
    CHECK(kept(resumed) == kept(whole));
    whole.set_learning_rate(0.01);
    for (unsigned i = 2; i < 4; ++i) CHECK(step(resumed, i) == step(whole, i));  // dropout's masks too
    CHECK(kept(resumed) == kept(whole));
  }
}

TEST_CASE("a file does not depend on the plan, and any plan goes on from it") {
  const folder here;
  const double rate = 0.02;
  for (plan_in_turns const& from : plans) {
    auto first = make(from);
    step(first, 0);
    pt::save(first, here / "file");
    const std::string bytes = bytes_of(here / "file");
    const auto saved = kept(first);
    const float loss = step(first, 1);
    for (plan_in_turns const& to : plans) {
      auto second = make(to);
      pt::load(second, here / "file");
      CHECK(kept(second) == saved);
      pt::save(second, here / "again");
      CHECK(bytes_of(here / "again") == bytes);
      agreement rule(pt::f32);
      rule.loss(loss, step(second, 1));
      double most = 0;
      for (std::string const& name : first.parameter_names()) most = std::max(most, largest(numbers(first.gradient(name))));
      for (std::string const& name : first.parameter_names()) {
        const std::vector<double> gradient = numbers(first.gradient(name));
        const double allowed = rule.allowed(gradient, most);
        rule.tensor("gradient of " + name, gradient, numbers(second.gradient(name)), allowed);
        rule.adamw(name, numbers(first.parameter(name)), numbers(second.parameter(name)), gradient, allowed, rate);
      }
      CHECK_MESSAGE(rule.holds(), rule.where() << " differs by " << rule.worst() << " of what is allowed");
    }
  }
}

TEST_CASE("what is in a file") {
  const folder here;
  auto t = make();
  pt::save(t, here / "file");
  const pt::safetensors::reader file(here / "file");
  std::vector<std::string> names;
  for (auto const& e : file.said().tensors) {
    names.push_back(e.name);
    CHECK(e.type == "F32");
  }
  CHECK(names == std::vector<std::string>{"block.0.down.weight", "block.0.down.weight.m", "block.0.down.weight.v",
                                          "block.0.up.weight", "block.0.up.weight.m", "block.0.up.weight.v", "table", "table.m",
                                          "table.v"});  // tied: once
  CHECK(file.find("table")->shape == std::vector<std::uint64_t>{7, 6});
  std::vector<std::byte> table(7 * 6 * 4);
  file.read(*file.find("table"), 0, table.size(), table.data());
  CHECK(table == t.parameter("table").bytes);
  CHECK(file.said().said.at("partita.steps") == "0");
  CHECK_THROWS_WITH_AS(pt::save(t, here / "file", {{"partita.steps", "1"}}), Contains("are the library's"), pt::error);
  CHECK_THROWS_WITH_AS(pt::save(t, here / "file", {{"text", "\xff"}}), Contains("no UTF-8"), pt::error);
}

TEST_CASE("parameters alone, from a file with no states") {
  const folder here;
  auto plain = make({}, recipe(false)), t = make({{.data = 2}}), other = make();
  step(plain, 0);
  pt::save(plain, here / "file");
  const auto moments = t.state("table.m").bytes;
  pt::load_parameters(t, here / "file");
  for (std::string const& name : t.parameter_names()) CHECK(t.parameter(name).bytes == plain.parameter(name).bytes);
  CHECK(t.state("table.m").bytes == moments);
  CHECK(t.steps() == 0);
  CHECK_THROWS_WITH_AS(pt::load(other, here / "file"),
                       Contains("it lacks block.0.down.weight.m, block.0.down.weight.v, block.0.up.weight.m and 3 more"),
                       pt::error);
  auto with_momentum = make({}, recipe(false, 0.9));
  pt::save(other, here / "file");
  CHECK_THROWS_WITH_AS(
      pt::load(with_momentum, here / "file"),
      Contains("is of another optimizer or other frozen parameters: it lacks block.0.down.weight.momentum, "
               "block.0.up.weight.momentum, table.momentum, and it has block.0.down.weight.m, block.0.down.weight.v"),
      pt::error);
  pt::load_parameters(with_momentum, here / "file");
  CHECK(with_momentum.parameter("table").bytes == other.parameter("table").bytes);
}

TEST_CASE("states are read and set by name") {
  auto t = make({{.data = 2, .zero = 3}});
  CHECK(t.state_names().size() == 6);
  const std::vector<float> ones(7 * 6, 1);
  t.set_state("table.v", ones);
  CHECK(numbers(t.state("table.v")) == std::vector<double>(7 * 6, 1));
  CHECK_THROWS_WITH_AS(t.set_state("table.w", ones), Contains("the model has no state named table.w (there are: "), pt::error);
  CHECK_THROWS_WITH_AS(t.set_state("table.v", std::vector<float>(2)),
                       "table.v holds 42 elements (word 7 x hidden 6), was given 2", pt::error);
}

TEST_CASE("a file that does not fit is refused, with its name and the tensor, and changes nothing") {
  const folder here;
  auto t = make({{.data = 2, .zero = 3}});
  step(t, 0);
  pt::save(t, here / "good");
  const auto before = kept(t);
  const std::string good = bytes_of(here / "good");
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, good.data(), 8);
  auto refused = [&](std::string const& bytes, std::string const& words) {
    write(here / "bad", bytes);
    CHECK_THROWS_WITH_AS(pt::load(t, here / "bad"), Contains(words.c_str()), pt::error);
    CHECK_THROWS_WITH_AS(pt::load(t, here / "bad"), Contains((here / "bad").c_str()), pt::error);
    CHECK(kept(t) == before);
    CHECK(t.steps() == 1);
  };
  auto changed = [&](std::string const& from, std::string const& to) { return with_header(good, from, to); };
  refused("", "has 0 bytes, fewer than any safetensors file");
  refused("a text that is no checkpoint", "is no safetensors file, or truncated");
  refused(std::string(8, '\xff') + good.substr(8), "say that a header of 18446744073709551615 follows");
  refused(good.substr(0, 100), "is no safetensors file, or truncated: it has 100 bytes");
  refused(good.substr(0, good.size() - 1), "the file is truncated");
  refused(good + "x", "its tensors end at byte 1944 of the data, of which there are 1945");
  refused(file_of("[]      ", 0), "its header does not begin with {");
  refused(file_of("{\"a\": NaN}", 0), "its header is no JSON");
  refused(file_of("{\"a\": 1}", 0), "tensor a: its entry in the header is no JSON object");
  refused(file_of(R"({"__metadata__": {"a": 1}})", 0), "__metadata__ a in its header is no string");
  refused(file_of(R"({"a": {"dtype": "F32", "shape": [2]}})", 0), "tensor a: its entry in the header has no data_offsets");
  refused(file_of(R"({"a": {"dtype": "F32", "shape": [-2], "data_offsets": [0, 8]}})", 8),
          "tensor a: an extent of shape is -2, not a whole number");
  refused(file_of(R"({"a": {"dtype": "F32", "shape": [4611686018427387904, 4], "data_offsets": [0, 0]}})", 0),
          "F32 [4611686018427387904, 4] does not take the 0 bytes");
  refused(file_of(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [8, 0]}})", 8), "end at 0, before they begin, at 8");
  refused(
      file_of(
          R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}})",
          8),
      "its header says \"a\" twice");
  refused(
      file_of(
          R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}, "b": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}})",
          12),
      "tensor b begins at byte 4 of the data, and tensor a ends at 8: they overlap");
  refused(file_of(R"({"a": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]}})", 12), "nobody has what is between");
  refused(changed("\"table\"", "\"tabel\""), "is of another model: it lacks table, and it has tabel");
  refused(changed("table.m", "table.q"),
          "is of another optimizer or other frozen parameters: it lacks table.m, and it has table.q");
  refused(changed("[7,6]", "[6,7]"), "tensor table is F32 [6, 7], the trainer's is F32 [7, 6] (word 7 x hidden 6)");
  refused(changed("\"F32\"", "\"I32\""), "tensor block.0.down.weight is I32 [10, 6], the trainer's is F32 [10, 6]");
  refused(changed("\"partita.steps\":\"1\"", "\"partita.steps\":\"-1\""), "partita.steps is -1, below 0");
  refused(changed("\"partita.steps\":\"1\"", "\"partita.steps\":\"one\""), "the note partita.steps is \"one\", no number");
  refused(changed("partita.seed", "partita.sown"), "has no note partita.seed");
  refused(changed("\"0.02\"", "\"inf\""), "the note partita.learning_rate is inf");
  std::string flipped = good;
  flipped[good.size() - 5] ^= 1;
  refused(flipped, "is damaged: the digest of its data is");
  flipped = good;
  for (std::size_t word : {2, 5}) flipped[good.size() - 8 * word - 1] ^= static_cast<char>(0x80);  // two signs
  refused(flipped, "is damaged: the digest of its data is");
  auto larger = make({}, recipe(), 3, 8);
  CHECK_THROWS_WITH_AS(pt::load(larger, here / "good"), Contains("tensor table is F32 [7, 6], the trainer's is F32 [8, 6]"),
                       pt::error);
  CHECK_THROWS_WITH_AS(pt::load(t, here / "nowhere"), Contains("cannot be opened: No such file or directory"), pt::error);
  CHECK_THROWS_WITH_AS(pt::load(t, here.path), Contains("is no file"), pt::error);
  pt::load(t, here / "good");
  CHECK(kept(t) == before);
}

TEST_CASE("any bytes are refused or are the file") {
  const folder here;
  auto t = make({}, recipe(false));
  pt::save(t, here / "good");
  const std::string good = bytes_of(here / "good");
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, good.data(), 8);
  const auto before = kept(t);
  std::mt19937 random(5);
  int refused = 0;
  constexpr int trials = 600;
  for (int trial = 0; trial < trials; ++trial) {
    std::string bad = good;
    auto place = [&](std::size_t end) { return static_cast<std::size_t>(random() % end); };
    for (unsigned n = 1 + random() % 3; n > 0; --n) switch (random() % 6) {
        case 0: bad[place(bad.size())] = static_cast<char>(random()); break;
        case 1: bad[place(8)] = static_cast<char>(random() % 4); break;
        case 2: bad[8 + place(header_bytes)] = "{}[]\",:0123456789-eN\\\xff"[random() % 23]; break;
        case 3: bad.resize(std::max<std::size_t>(place(bad.size() + 1), 1)); break;
        case 4: bad.insert(place(bad.size()), bad.substr(place(bad.size()), random() % 40)); break;
        case 5: bad.erase(place(bad.size()), random() % 10); break;
      }
    if (bad.size() < 8 + header_bytes) bad += good.substr(bad.size());
    write(here / "bad", bad);
    try {
      pt::load(t, here / "bad");
    } catch (pt::error const&) { ++refused; }
    REQUIRE(kept(t) == before);
    t.engine().resume(0, 0.02, 3);  // a digit of a note may have changed into another
  }
  CHECK(refused > trials * 3 / 4);
}

TEST_CASE("the old file stays until the new one is complete") {
  const folder here;
  auto t = make();
  pt::save(t, here / "file");
  const std::string old = bytes_of(here / "file");
  fs::create_directory(here / "file.part");  // nothing can be written there
  step(t, 0);
  CHECK_THROWS_WITH_AS(pt::save(t, here / "file"), Contains("file.part cannot be written: Is a directory"), pt::error);
  CHECK(bytes_of(here / "file") == old);
  fs::remove(here / "file.part");
  fs::create_symlink("file", here / "link");
  pt::save(t, here / "link");
  CHECK(fs::is_symlink(here / "link"));
  CHECK(bytes_of(here / "file") != old);
  CHECK(!fs::exists(here / "file.part"));
  CHECK_THROWS_WITH_AS(pt::save(t, here.path), Contains("is there and is no file"), pt::error);
  CHECK_THROWS_WITH_AS(pt::save(t, "/dev/null"), Contains("/dev/null is there and is no file"), pt::error);
  CHECK_THROWS_WITH_AS(pt::save(t, here / "nowhere" / "file"), Contains("cannot be written: No such file"), pt::error);
  {
    const std::string before = bytes_of(here / "file");
    pt::file_replacement unfinished(here / "file");
    unfinished.write("half", 4);
    CHECK(bytes_of(here / "file") == before);
    CHECK_THROWS_WITH_AS(pt::save(t, here / "file"), Contains("file.part cannot be written: another process writes it"),
                         pt::error);
    unfinished.write("more", 4);  // and goes on
    CHECK(bytes_of(here / "file.part") == "halfmore");
  }
  write(here / "file.part", std::string(10000, 'x'));  // of a process that was ended
  pt::save(t, here / "file");
  CHECK(bytes_of(here / "file").size() < 10000);
  fs::create_directory(here / "other");
  fs::create_symlink("other/late", here / "second");
  fs::create_symlink("second", here / "dangling");
  pt::save(t, here / "dangling");
  CHECK((fs::is_symlink(here / "dangling") && fs::is_symlink(here / "second")));
  CHECK(bytes_of(here / "other" / "late") == bytes_of(here / "file"));
  fs::create_symlink("round", here / "round");
  CHECK_THROWS_WITH_AS(pt::save(t, here / "round"), Contains("is a link that leads to no file"), pt::error);
  CHECK(!fs::exists(here / "file.part"));
  if (fs::exists("/dev/full")) {  // a disk without room
    fs::create_symlink("/dev/full", here / "full.part");
    CHECK_THROWS_WITH_AS(pt::save(t, here / "full"), Contains("full.part cannot be written: No space left on device"), pt::error);
    CHECK(!fs::exists(here / "full"));
  }
}

TEST_CASE("all types that a file of tensors may have, side by side") {
  const folder here;
  using pt::safetensors::entry;
  const std::vector<entry> entries{{.name = "wide", .type = "F64", .shape = {3}},
                                   {.name = "scalar", .type = "F32", .shape = {}},
                                   {.name = "narrow \"quoted\" \xc3\xa9", .type = "BF16", .shape = {3, 1}},
                                   {.name = "half", .type = "F16", .shape = {1}},
                                   {.name = "nothing", .type = "I32", .shape = {0, 4}}};
  const std::vector<std::string> data{std::string(24, 'w'), std::string(4, 's'), "nnnnnn", "hh", ""};
  {
    pt::safetensors::writer out(here / "file", entries, {{"partita.digest\":\"", "\"partita.digest\":\""}});
    for (std::string const& each : data) out.write(reinterpret_cast<std::byte const*>(each.data()), each.size());
    out.put_in_place();
  }
  const pt::safetensors::reader in(here / "file");
  in.check_data();
  for (std::size_t i = 0; i < entries.size(); ++i) {
    auto const* found = in.find(entries[i].name);
    REQUIRE(found != nullptr);
    CHECK(found->type == entries[i].type);
    CHECK(found->shape == entries[i].shape);
    std::string read(data[i].size(), ' ');
    in.read(*found, 0, read.size(), reinterpret_cast<std::byte*>(read.data()));
    CHECK(read == data[i]);
  }
}
