// Draws the schedules: for each the order that its program is made from, run with equal times of a forward turn, of the
// gradients of inputs and of the gradients of weights. Prints how long a step takes, how long a stage waits and what it
// holds; with the name of a folder as argument it writes a picture of each into it.
#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <partita/planning.hpp>
#include <partita/program/order.hpp>

namespace pt = partita;

struct sample : pt::axis<"sample", 64> {};
struct hidden : pt::axis<"hidden", 16> {};
struct word : pt::axis<"word", 4096> {};

// Layers of one size.
struct chain {
  int layers = 4;
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, sample, hidden>(g, "x");
    auto h = pt::bias(x, pt::param<pt::f32, hidden>(g, "first.bias"));
    for (int l = 0; l < layers; ++l) {
      auto s = pt::scope(g, "layer", l);
      auto w = pt::param<pt::f32, hidden, hidden>(g, "fc.weight");
      h = pt::linear(h, w);
    }
    return pt::sum(h);
  }
};
// [recycled]
// Three passes over four layers; what a pass makes goes into the next one without gradient.
struct recycled {
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, sample, hidden>(g, "x");
    auto begun = pt::bias(x, pt::param<pt::f32, hidden>(g, "first.bias"));
    auto weight = [&](int l) {
      auto s = pt::scope(g, "layer", l);
      return pt::param<pt::f32, hidden, hidden>(g, "fc.weight");
    };
    std::array weights{weight(0), weight(1), weight(2), weight(3)};
    auto h = begun;
    for (int pass = 0; pass < 3; ++pass) {
      auto s = pt::scope(g, "pass", pass);
      if (pass > 0) h = begun + pt::detach(h);
      for (auto w : weights) h = pt::linear(h, w);
    }
    return pt::sum(h);
  }
};
// [/recycled]
// Layers between an embedding and the logits, which have one table.
struct speaker {
  constexpr auto operator()(auto& g) const {
    auto tokens = pt::input<pt::i32, sample>(g, "tokens");
    auto targets = pt::input<pt::i32, sample>(g, "targets");
    auto table = pt::param<pt::f32, word, hidden>(g, "table.weight");
    auto h = pt::embedding(tokens, table);
    for (int l = 0; l < 4; ++l) {
      auto s = pt::scope(g, "layer", l);
      h = pt::linear(h, pt::param<pt::f32, hidden, hidden>(g, "fc.weight"));
    }
    return pt::cross_entropy(pt::linear(h, table), targets);
  }
};

// Four stages, eight micro-batches.
// [gpipe]
using gpipe = pt::policy::pipeline<4, pt::schedule::gpipe, 8>;
// [/gpipe]
// [1f1b]
using one_f_one_b = pt::policy::pipeline<4, pt::schedule::one_f_one_b, 8>;
// [/1f1b]
// [interleaved]
using interleaved = pt::policy::pipeline<4, pt::schedule::interleaved<2>, 8>;
// [/interleaved]
// [zero]
using h1 = pt::policy::pipeline<4, pt::schedule::zero_bubble<pt::schedule::h1>, 8>;
using h2 = pt::policy::pipeline<4, pt::schedule::zero_bubble<pt::schedule::h2>, 8>;
using v_shaped = pt::policy::pipeline<4, pt::schedule::zero_bubble<pt::schedule::v_shaped>, 8>;
// [/zero]
// [3f1b]
using three_f_one_b = pt::policy::pipeline<4, pt::schedule::three_f_one_b, 8>;
// [/3f1b]
// [interlaced]
using interlaced = pt::policy::interlaced_pipeline<4, 8>;           // finds the vocabulary
using in_step = pt::policy::interlaced_pipeline<4, 8, word, true>;  // a named one; all stages forward, then all backward
// [/interlaced]
// [own]
// A schedule of one's own: pairs of micro-batches, forward and backward, one pair after the other.
struct pairs {
  static constexpr void order(pt::plan_base& plan, int stages, int micro_batches) {
    for (int s = 0; s < stages; ++s) {
      pt::schedule::turns stage(plan, s, micro_batches);
      for (int i = 0; i < micro_batches; i += 2) {
        for (int k = i; k < i + 2 && k < micro_batches; ++k) stage.forward(k);
        for (int k = i; k < i + 2 && k < micro_batches; ++k) stage.backward(k);
      }
    }
  }
};
using in_pairs = pt::policy::pipeline<4, pairs, 8>;
static_assert(pt::verify<chain, in_pairs>());
// [/own]

namespace {

enum colour { forward, inputs, weights, spread, spread_back };
struct bar {
  int device, micro, part;  // part: a chunk, or a pass
  colour what;
  double begin, end;  // in turns
};
struct run {
  std::string name, file;
  int stages = 4;
  std::vector<bar> bars;
  double length() const {
    double last = 0;
    for (bar const& b : bars) last = std::max(last, b.end);
    return last;
  }
  double longest_wait() const {  // of a stage, between its first turn and its last
    double most = 0;
    for (int d = 0; d < stages; ++d) {
      double first = 1e9, last = 0, busy = 0;
      for (bar const& b : bars)
        if (b.device == d) first = std::min(first, b.begin), last = std::max(last, b.end), busy += b.end - b.begin;
      most = std::max(most, last - first - busy);
    }
    return most;
  }
  // The most that a stage holds at a time for the backward pass: micro-batches, of a chunk as much as a chunk is of a stage.
  double most_held(int chunks, int last_pass) const {
    double most = 0;
    for (int d = 0; d < stages; ++d) {
      std::map<std::pair<int, int>, std::pair<double, double>> held;  // (micro, part): from, to
      for (bar const& b : bars) {
        if (b.device != d || b.what == spread || b.what == spread_back || (b.what == forward && b.part < last_pass)) continue;
        const auto key = std::pair{b.micro, last_pass > 0 ? 0 : b.part};
        auto& [from, to] = held.try_emplace(key, b.begin, b.end).first->second;
        from = std::min(from, b.begin), to = std::max(to, b.end);
      }
      for (auto const& [key, span] : held) {
        int now = 0;
        for (auto const& [other, also] : held) now += also.first <= span.first && span.first < also.second;
        most = std::max(most, static_cast<double>(now) / chunks);
      }
    }
    return most;
  }
};

// One turn of a layer takes a million ticks, all else one.
template <class Policy, class Model> run play(std::string name, std::string file, Model const& model, int layers_a_stage = 1) {
  constexpr std::int64_t turn = 1000000;
  const auto p = pt::plan<Model>::by(Policy{}, {model, {}, {}, {}});
  pt::graph_data const& g = p.traced();
  pt::completed c;
  pt::instance_graph ig;
  if (const pt::finding f = pt::verify_plan(p.traced(), p, c)) throw pt::error(pt::describe(f));
  (void)pt::build_instances(g, p, c, ig);
  const short chunk = p.find_mode(pt::mode_name("chunk")), pass = p.find_mode(pt::mode_name("pass")),
              on_all = p.find_mode(pt::mode_name("spread"));
  run r{std::move(name), std::move(file), c.devices, {}};
  auto kind_of = [&](pt::node const& n) {
    const std::string_view kind = g.ops[n.op].info->kind;
    if (n.kind != pt::node_kind::compute || (kind.find("linear") != 0 && kind.find("embedding") != 0))
      return std::pair{false, forward};
    const bool back = g.ops[n.op].when == pt::pass::backward;
    if (on_all >= 0 && pt::detail::coordinate_of(g, p, n.op, on_all) >= 0) return std::pair{true, back ? spread_back : spread};
    return std::pair{true, !back ? forward : kind == "linear.weight" ? weights : inputs};
  };
  const auto order = pt::order_instances(g, c, ig, [&](pt::node const& n) {
    const auto [drawn, what] = kind_of(n);
    return !drawn ? 1 : what == spread || what == spread_back ? turn / 2 : turn / layers_a_stage;
  });
  for (pt::instance const& i : order) {
    pt::node const& n = c.nodes[i.node];
    if (!kind_of(n).first) continue;
    const int part = std::max(0, pt::detail::coordinate_of(g, p, n.op, chunk >= 0 ? chunk : pass));
    for (int k = 0; k < n.over.where.size(); ++k)
      r.bars.push_back({n.over.where.device_at(k), i.index, part, kind_of(n).second, static_cast<double>(i.begin) / turn,
                        static_cast<double>(i.end) / turn});
  }
  std::printf("%-26s %6.1f %8.1f %8.1f\n", r.name.c_str(), r.length(), r.longest_wait(),
              r.most_held(layers_a_stage, pass >= 0 ? 2 : 0));
  return r;
}

// A row a stage, time to the right, in every bar the number of its micro-batch.
std::string picture(run const& r, std::vector<std::pair<std::string, std::string>> const& legend, bool split, bool by_parts) {
  static const char* const forwards[]{"#4c78a8", "#7ba3cc", "#b3cde3"};
  static const char* const of_inputs[]{"#e6761a", "#f5a55f"};
  static const char* const of_weights[]{"#4a9a42", "#86c57e"};
  auto fill = [&](bar const& b) -> std::string {
    const int part = by_parts ? b.part : 0;
    const int chunk = part % 2;  // the last of three passes is the only one with gradients
    switch (b.what) {
      case forward: return forwards[part];
      case inputs: return of_inputs[chunk];
      case weights: return split ? of_weights[chunk] : of_inputs[chunk];
      case spread: return "#7d5a9e";
      case spread_back: return "#b79ccf";
    }
    return "";
  };
  const double left = 64, top = 34, row = 26, scale = 22;
  char text[400];
  std::string svg;
  const double width = left + r.length() * scale + 12, height = top + row * r.stages + 12;
  std::snprintf(text, sizeof text,
                "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %.0f %.0f\" width=\"%.0f\" height=\"%.0f\" "
                "font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"#ffffff\"/>\n",
                width, height, width, height);
  svg += text;
  double at = left;
  for (auto const& [colour, words] : legend) {
    std::snprintf(text, sizeof text,
                  "<rect x=\"%.0f\" y=\"10\" width=\"12\" height=\"12\" fill=\"%s\"/><text x=\"%.0f\" y=\"20\">%s</text>\n", at,
                  colour.c_str(), at + 17, words.c_str());
    svg += text;
    at += 34 + 6.6 * static_cast<double>(words.size());
  }
  for (int d = 0; d < r.stages; ++d) {
    std::vector<bar> mine;
    for (bar const& b : r.bars)
      if (b.device == d) mine.push_back(b);
    std::sort(mine.begin(), mine.end(), [](bar const& a, bar const& b) { return a.begin < b.begin; });
    std::vector<bar> joined;  // halves of one turn are one bar
    for (bar const& b : mine)
      if (!joined.empty() && joined.back().micro == b.micro && fill(joined.back()) == fill(b) &&
          b.begin - joined.back().end < 0.01)
        joined.back().end = b.end;
      else joined.push_back(b);
    std::snprintf(text, sizeof text, "<text x=\"8\" y=\"%.0f\" fill=\"#444\">stage %d</text>\n", top + row * d + 17, d);
    svg += text;
    for (bar const& b : joined) {
      const double x = left + b.begin * scale, w = (b.end - b.begin) * scale;
      const std::string colour = fill(b);
      const bool light = colour == forwards[1] || colour == forwards[2] || colour == of_inputs[1] || colour == of_weights[1] ||
                         colour == "#b79ccf";
      std::snprintf(text, sizeof text, "<rect x=\"%.1f\" y=\"%.0f\" width=\"%.1f\" height=\"22\" fill=\"%s\" stroke=\"#fff\"/>",
                    x, top + row * d, w, colour.c_str());
      svg += text;
      std::snprintf(text, sizeof text,
                    "<text x=\"%.1f\" y=\"%.0f\" text-anchor=\"middle\" font-size=\"11\" fill=\"%s\">%d</text>\n", x + w / 2,
                    top + row * d + 15, light ? "#222" : "#fff", b.micro);
      svg += text;
    }
  }
  return svg + "</svg>\n";
}

}  // namespace

int main(int argc, char** argv) try {
  using legend = std::vector<std::pair<std::string, std::string>>;
  const legend plain{{"#4c78a8", "forward"}, {"#e6761a", "backward"}},
      halves{{"#4c78a8", "forward"}, {"#e6761a", "gradients of inputs"}, {"#4a9a42", "gradients of weights"}},
      chunks{{"#4c78a8", "forward, first chunk"},
             {"#7ba3cc", "second"},
             {"#e6761a", "backward, first chunk"},
             {"#f5a55f", "second"}},
      both{{"#4c78a8", "forward"}, {"#e6761a", "gradients of inputs"}, {"#4a9a42", "of weights; pale: second chunk"}},
      passes{{"#4c78a8", "first pass"}, {"#7ba3cc", "second"}, {"#b3cde3", "last"}, {"#e6761a", "backward"}},
      wide{{"#4c78a8", "forward"}, {"#e6761a", "backward"}, {"#7d5a9e", "vocabulary, forward"}, {"#b79ccf", "backward"}};
  std::printf("%-26s %6s %8s %8s\n", "4 stages, 8 micro-batches", "turns", "waits", "holds");
  std::vector<std::pair<run, std::string>> all;
  auto add = [&](run r, legend const& words, bool split, bool parts) {
    std::string svg = picture(r, words, split, parts);
    all.emplace_back(std::move(r), std::move(svg));
  };
  add(play<gpipe>("gpipe", "gpipe", chain{4}), plain, false, false);
  add(play<one_f_one_b>("1f1b", "1f1b", chain{4}), plain, false, false);
  add(play<interleaved>("interleaved by 2", "interleaved", chain{8}, 2), chunks, false, true);
  add(play<h1>("zero bubble h1", "zero-bubble-h1", chain{4}), halves, true, false);
  add(play<h2>("zero bubble h2", "zero-bubble-h2", chain{4}), halves, true, false);
  add(play<v_shaped>("zero bubble v", "zero-bubble-v", chain{8}, 2), both, true, true);
  add(play<three_f_one_b>("3f1b", "3f1b", recycled{}), passes, false, true);
  add(play<interlaced>("interlaced", "interlaced", speaker{}), wide, false, false);
  add(play<in_step>("interlaced, in step", "interlaced-in-step", speaker{}), wide, false, false);
  add(play<in_pairs>("in pairs", "in-pairs", chain{4}), plain, false, false);
  if (argc > 1)
    for (auto const& [r, svg] : all) {
      std::ofstream out(std::string(argv[1]) + "/schedule-" + r.file + ".svg", std::ios::binary);
      out << svg;
      if (!out) throw pt::error("a picture cannot be written into " + std::string(argv[1]));
    }
} catch (pt::error const& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
