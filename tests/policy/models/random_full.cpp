// The models under many random plans.
#include "../../support/matrix.hpp"
#include "../../support/models/encoder_decoder.hpp"
#include "../../support/models/gpt.hpp"
#include "../../support/models/mixture.hpp"
#include "../../support/models/u_shaped.hpp"
#include "../../support/number_of.hpp"

using namespace partita::testing;

namespace {
const unsigned most = drawn(30, 150), fewer = drawn(20, 100);
}  // namespace

TEST_CASE("a GPT under random plans") { tried<models::gpt>({.samples = 7, .hidden = 9}, {}, false).check_random(100, most); }
TEST_CASE("a Llama-like model under random plans") { tried<models::llama>({.heads = 2, .share = 3}).check_random(300, most); }
TEST_CASE("an encoder and a decoder under random plans") {
  tried<models::encoder_decoder>({.sources = 7}).check_random(500, most);
}
TEST_CASE("a U under random plans") { tried<models::u_shaped>({.positions = 6}, {}, false).check_random(700, most); }
TEST_CASE("a mixture of experts under random plans") {
  tried<models::mixture>({.samples = 5, .slots = 2}).check_random(900, fewer);
  tried<models::mixture>({.experts = 6, .slots = 1}, {.normalised = false, .choices = 1}, false).check_random(1100, fewer);
}
