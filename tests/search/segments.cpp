// Chains of segments that are read of traced models.
#include <doctest/doctest.h>

#include <partita/cost/presets.hpp>
#include <partita/search/crossings.hpp>
#include <partita/search/kinds.hpp>
#include <partita/search/spread.hpp>

#include "../../benchmarks/models/encoder_decoder.hpp"
#include "../../benchmarks/models/evoformer.hpp"
#include "../../benchmarks/models/gpt.hpp"
#include "../../benchmarks/models/llama.hpp"
#include "../../benchmarks/models/swin.hpp"

namespace {
using namespace benchmark_model;
using namespace partita;

// How many blocks are taken for repeats of others. That each of them is what it is when it is read by itself is checked.
template <class Model, class Sizes> int repeated_blocks(Model const& model, Sizes const& sizes) {
  using trained = training<Model, adamw, clip_norm>;
  const plan<trained> traced(trained{model, {}, {}, {}}, sizes.bindings());
  auto const& g = traced.traced();
  spaces::segmented_model some = spaces::find_segments(g, g.forward_count),
                          apart = spaces::find_segments(g, g.forward_count, true);
  spaces::name_kinds(some);
  spaces::name_kinds(apart);
  CHECK(some.first_of_kind == apart.first_of_kind);
  CHECK(some.tensors == apart.tensors);
  REQUIRE(some.segments.size() == apart.segments.size());
  int repeated = 0;
  for (std::size_t i = 0; i < some.segments.size(); ++i) {
    spaces::segment const &a = some.segments[i], &b = apart.segments[i];
    CAPTURE(b.name);
    repeated += a.ops.repeats();
    CHECK(b.like < 0);
    CHECK(a.name.view() == b.name.view());
    CHECK(a.block == b.block);
    CHECK(a.kind == b.kind);
    CHECK(a.enters == b.enters);
    CHECK(a.leaves == b.leaves);
    CHECK(a.ops.own() == b.ops.own());
  }
  return repeated;
}
}  // namespace

TEST_CASE("blocks that repeat others are read once") {
  // All but the first and the last one, whose gradient comes from elsewhere; a block that reads what all others read is read
  // by itself.
  CHECK(repeated_blocks(gpt<bf16>{8}, gpt_sizes{}) == 6);
  CHECK(repeated_blocks(gpt<bf16>{8, 0.1}, gpt_sizes{}) == 6);
  CHECK(repeated_blocks(llama{6}, llama_sizes{}) == 4);
  CHECK(repeated_blocks(mixture{6}, llama_sizes{}) >= 0);  // whatever is taken for repeated is what it would be by itself
  CHECK(repeated_blocks(encoder_decoder{6}, encoder_decoder_sizes{}) == 4);
  CHECK(repeated_blocks(evoformer{6}, evoformer_sizes{}) == 3);
  swin deep;
  for (int& layers : deep.layers) layers = 6;
  CHECK(repeated_blocks(deep, swin_sizes{}) >= 4);
}
TEST_CASE("of what is spread what passes by neither enters nor leaves: of a decoder's embedding the encoder's output") {
  using trained = training<encoder_decoder, adamw, clip_norm>;
  const plan<trained> traced(trained{encoder_decoder{6}, {}, {}, {}}, encoder_decoder_sizes{}.bindings());
  auto const& g = traced.traced();
  const spaces::segmented_model m = spaces::find_segments(g, g.forward_count);
  const spaces::spread_segments spread(m);
  int between = 0;
  for (std::size_t i = 1; i + 1 < m.segments.size(); ++i) {
    if (!spread.contains(static_cast<int>(i))) continue;
    ++between;
    CHECK(m.segments[i].enters.size() == 1);
    CHECK(m.segments[i].leaves.size() == 2);
    const spaces::segment alone = spaces::spread_segments::alone(m.segments[i]);
    CHECK(alone.enters.empty());
    CHECK(alone.leaves.size() == 1);
  }
  CHECK(between == 1);
}

TEST_CASE("from stage to stage the dearest link counts that some stage sends over") {
  const cluster c = preset::dgx_a100(2);  // of 8 each
  const auto senders = [&](int stages, int devices) { return spaces::one_sender_per_level(c, stages, devices); };
  CHECK(senders(2, 8) == std::vector<int>{0});
  CHECK(senders(4, 4) == std::vector<int>{0, 4});
  CHECK(senders(5, 3) == std::vector<int>{0, 5});
  CHECK(senders(2, 4) == std::vector<int>{0});  // the other node is not used
  CHECK(senders(1, 4).empty());

  const plan<training<gpt<bf16>, adamw, clip_norm>> traced({gpt<bf16>{2}, {}, {}, {}}, gpt_sizes{}.bindings());
  spaces::segmented_model m = spaces::find_segments(traced.traced(), traced.traced().forward_count);
  spaces::name_kinds(m);
  const costs k(c);
  const auto crossing = [&](int stages, int devices) {
    // One grid, one layout of every boundary: 1 MB of each tensor.
    std::vector<std::vector<std::vector<double>>> shares;
    for (int first : m.first_of_kind)
      shares.push_back({std::vector<double>(m.segments[static_cast<std::size_t>(first)].enters.size(), 1e6)});
    const auto all = spaces::crossings_between(m, k, stages, devices, 1, shares, [](std::size_t, std::size_t) { return true; });
    return all.back().at(0);
  };
  CHECK(crossing(4, 4) == doctest::Approx(crossing(2, 8) * k.send(0, 8, 1e6, 4) / k.send(0, 8, 1e6, 8)));
  CHECK(crossing(4, 4) > 2 * crossing(2, 4));
}
