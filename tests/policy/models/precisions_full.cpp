// The models under every policy in single precision and less: rounding is what one device's is.
#include "../../support/matrix.hpp"
#include "../../support/models/encoder_decoder.hpp"
#include "../../support/models/gpt.hpp"
#include "../../support/models/llama.hpp"
#include "../../support/models/u_shaped.hpp"

using namespace partita::testing;

namespace {
template <class Model, class Sequence> void check_in_f32(models::sizes const& sizes, std::string_view blocks = "block.*") {
  const auto plans = common_plans<Sequence, models::head, models::inner>(sizes, blocks);
  tried<Model, partita::f32>(sizes, {}, true).check(plans);
  tried<Model, partita::f32>(sizes, {}, false).check(plans, {.steps = 2, .on_threads = true});
}
const models::sizes uneven{
    .samples = 9, .positions = 11, .sources = 5, .vocabulary = 23, .hidden = 18, .heads = 5, .width = 6, .inner = 31};
}  // namespace

TEST_CASE("a GPT") { check_in_f32<models::gpt, models::position>(uneven); }
// Random plans also cut sums of activations over time, of which what is kept between two terms is bf16.
TEST_CASE("a GPT in bf16") {
  const auto plans = common_plans<models::position, models::head, models::inner>(uneven);
  tried<models::gpt, partita::bf16>(uneven, {}, true).check(plans, {.steps = 2, .on_threads = true});
  tried<models::gpt, partita::bf16>(uneven, {}, false).check_random(1, 20, {.steps = 2, .granted_narrow = 2.5});
}
TEST_CASE("a Llama-like model") { check_in_f32<models::llama, models::position>(uneven); }
TEST_CASE("an encoder and a decoder") { check_in_f32<models::encoder_decoder, models::position>(uneven); }
TEST_CASE("a U") {
  models::sizes even = uneven;
  even.positions = 10;
  check_in_f32<models::u_shaped, models::position>(even, "down.*");
}
