#include <doctest/doctest.h>

#include <partita/ops/embedding.hpp>

#include "../support/finite_difference.hpp"
#include "../support/pieces.hpp"

namespace pt = partita;
using namespace pt::testing;

namespace {
struct batch : pt::axis<"batch", 3> {};
struct position : pt::axis<"position"> {};
struct vocab : pt::axis<"vocab", 7> {};
struct hidden : pt::axis<"hidden", 37> {};
struct single : pt::axis<"single", 1> {};
const std::vector<pt::binding> bound{pt::bind<position>(5)};

double ids_at(int ids, int input, std::size_t i) { return input == ids ? static_cast<double>(i * 5 % 7) : number(input, i); }

struct lookup {
  constexpr auto operator()(auto& g) const {
    auto ids = pt::input<pt::i32, batch, position>(g, "ids");
    return weighted_sum(pt::embedding(ids, pt::param<pt::f32, vocab, hidden>(g, "table", pt::uniform{-1, 1})));
  }
};
}  // namespace

TEST_CASE("embedding takes rows of the table, and gives them back") {
  const auto fill = [](int input, std::size_t i) { return ids_at(0, input, i); };
  const auto forward =
      lone_op::make<pt::embedding_op, pt::like<pt::i32, batch, position>, pt::like<pt::f32, vocab, hidden>>({}, bound, fill);
  const buffer y = forward.run_whole()[0];
  for (std::size_t r = 0; r < 15; ++r)
    for (std::size_t h = 0; h < 37; ++h) CHECK(y.get(r * 37 + h) == forward.inputs[1].get(r * 5 % 7 * 37 + h));

  const auto back = [](int input, std::size_t i) { return ids_at(1, input, i); };
  const auto gradient = lone_op::make<pt::embedding_grad_op, pt::like<pt::f32, batch, position, hidden>,
                                      pt::like<pt::i32, batch, position>, pt::like<pt::f32, vocab, hidden>>({}, bound, back);
  const buffer table = gradient.run_whole()[0];
  for (std::size_t v = 0; v < 7; ++v)
    for (std::size_t h = 0; h < 37; ++h) {
      double sum = 0;
      for (std::size_t r = 0; r < 15; ++r) sum += r * 5 % 7 == v ? gradient.inputs[0].get(r * 37 + h) : 0;
      CHECK(table.get(v * 37 + h) == doctest::Approx(sum).epsilon(1e-5));
    }
}

TEST_CASE("pieces of embedding and its gradient, the table's rows cut as well") {
  const auto fill = [](int input, std::size_t i) { return ids_at(0, input, i); };
  check_pieces<pt::embedding_op, pt::like<pt::i32, batch, position>, pt::like<pt::f32, vocab, hidden>>({}, bound, fill);
  check_pieces<pt::embedding_op, pt::like<pt::i32>, pt::like<pt::f64, vocab, single>>({}, {}, fill);
  const auto back = [](int input, std::size_t i) { return ids_at(1, input, i); };
  check_pieces<pt::embedding_grad_op, pt::like<pt::f32, batch, position, hidden>, pt::like<pt::i32, batch, position>,
               pt::like<pt::f32, vocab, hidden>>({}, bound, back);
}

TEST_CASE("a number outside the table is an error that names it") {
  auto op = lone_op::make<pt::embedding_op, pt::like<pt::i32, position>, pt::like<pt::f32, vocab, hidden>>(
      {}, bound, [](int input, std::size_t i) { return ids_at(0, input, i); });
  for (int wrong : {-1, 7}) {
    op.inputs[0].set(3, wrong);
    const std::string message = "embedding: number " + std::to_string(wrong) + " at position 3 is outside the table of 7 rows";
    CHECK_THROWS_WITH_AS(op.run_whole(), message.c_str(), pt::error);
  }
}

TEST_CASE("gradient of embedding against differences") {
  std::vector<int> ids(15);
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int>(i * 3 % 7);
  check_gradients<lookup>({{"ids", ids}}, bound);
}
