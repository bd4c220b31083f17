// Ring attention, and the cuts that it is made of.
#include "../support/matrix.hpp"
#include "../support/models/gpt.hpp"

namespace pt = partita;
using namespace partita::testing;
using namespace partita::policy;

namespace {
context_parallel_of ring(int pieces, ring_form form = ring_form::plain) {
  return {pieces, &pt::axis_of<models::position>::info, nullptr, form};
}
constexpr ring_form plain = ring_form::plain, folded = ring_form::folded;

// What attention's keys cost on the way, and who does how much.
struct told {
  int rings_of_pieces = 0, rings_of_sums = 0, gathers = 0;
  std::vector<double> pairs;  // of a query and a key that it sees, by rank
};
told tell(tried<models::gpt>& gpt, plan_maker const& make) {
  told t;
  auto const& g = gpt.graph();
  pt::plan_base plan(g);
  make(plan);
  pt::completed c;
  REQUIRE_FALSE(pt::verify_plan(g, plan, c));
  for (pt::node const& n : c.nodes) {
    t.rings_of_pieces += n.ring == pt::ring_kind::pieces;
    t.rings_of_sums += n.ring == pt::ring_kind::sums;
  }
  const pt::lowering shared(g, plan, c);
  for (int rank = 0; rank < c.devices; ++rank) {
    const pt::program p = pt::lower(shared, rank);
    double pairs = 0;
    for (pt::instruction const& i : p.instructions) {
      if (i.kind == pt::instruction_kind::compute) {
        pt::compute_call const& call = p.computes[static_cast<std::size_t>(i.payload)];
        pt::op_info const& f = *g.ops[call.op].info;
        if (f.kind != "attention") continue;
        std::size_t queries = 0, first_query = 0, keys = 0, first_key = 0;
        for (int d = 0; d < f.dim_count; ++d) {
          if (f.dims[d].letter == 's') queries = call.extents[d], first_query = call.offsets[d];
          if (f.dims[d].letter == 't') keys = call.extents[d], first_key = call.offsets[d];
        }
        for (std::size_t q = first_query; q < first_query + queries; ++q)
          for (std::size_t k = first_key; k < first_key + keys; ++k) pairs += k <= q;
      }
      // the sequence put together for attention
      if ((i.kind == pt::instruction_kind::all_gather || i.kind == pt::instruction_kind::reduce_scatter) && i.node >= 0)
        t.gathers += g.ops[c.nodes[i.node].op].info->kind == "linear" || g.ops[c.nodes[i.node].op].info->kind == "attention.grad";
    }
    t.pairs.push_back(pairs);
  }
  return t;
}
}  // namespace

TEST_CASE("ring attention does what one device does") {
  for (std::size_t positions : {std::size_t{5}, std::size_t{8}, std::size_t{11}})
    tried<models::gpt>({.samples = 4, .positions = positions})
        .check({composed("ring 2", ring(2)), composed("ring 3", ring(3)), composed("ring 4", ring(4)),
                composed("folded ring 2", ring(2, folded)), composed("folded ring 3", ring(3, folded)),
                composed("folded ring 4", ring(4, folded)), composed("ring 1", ring(1, folded))});
}

TEST_CASE("a ring beside other policies") {
  const recompute_of again{"block.*"};
  tried<models::gpt>({.samples = 4, .positions = 7})
      .check({composed("data 2, ring 2", data_parallel_of{2}, ring(2)),
              composed("data 2, folded ring 3, zero 3", data_parallel_of{2}, ring(3, folded), zero_of{3, 2}),
              composed("ring 3, 2 micro-batches", ring(3), micro_batches_of{2}),
              composed("tensor 2, folded ring 2", tensor_parallel_of{2}, ring(2, folded)),
              composed("ring 2, recompute", ring(2), again), composed("folded ring 3, recompute", ring(3, folded), again),
              composed("ring 2, 1f1b 2 x 2", ring(2), one_f_one_b(2, 2)),
              composed("folded ring 2, 1f1b 2 x 3, recompute", ring(2, folded), one_f_one_b(2, 3), again)},
             {.steps = 2, .on_threads = true});
}

TEST_CASE("more micro-batches than sequences: some have nothing to merge") {
  tried<models::gpt>({.samples = 1, .positions = 6}).check({composed("ring 2, 2 micro-batches", ring(2), micro_batches_of{2})});
}

TEST_CASE("keys go round one neighbour a step, and their gradients come back as sums") {
  tried<models::gpt> gpt({.samples = 2, .positions = 32}, {.layers = 1});
  const told plainly = tell(gpt, ring(4)), evenly = tell(gpt, ring(4, folded));
  CHECK(plainly.rings_of_pieces == 4);  // keys and values, forward and backward
  CHECK(plainly.rings_of_sums == 2);
  CHECK(plainly.gathers == 0);
  CHECK(evenly.rings_of_pieces == 4);
  CHECK(evenly.gathers == 0);
  CHECK(plainly.pairs[3] > 6 * plainly.pairs[0]);  // the last device sees nearly all keys, the first only its own
  for (double n : evenly.pairs) CHECK(n == evenly.pairs[0]);
}

TEST_CASE("2,999 tokens in a ring of 4") {
  tried<models::gpt> gpt({.samples = 1, .positions = 2999, .vocabulary = 7, .hidden = 4, .heads = 1, .width = 3, .inner = 4},
                         {.layers = 1});
  CHECK(gpt.fault(ring(4), {.steps = 1}) == "");
  CHECK(gpt.fault(ring(4, folded), {.steps = 1}) == "");
}

TEST_CASE("keys cut in time alone") {
  using models::head, models::position, models::sample;
  tried<models::gpt> gpt({.samples = 4, .positions = 7});
  auto keys = [](pt::plan_base& plan, int n, bool fold = false) {
    for (auto op : plan.ops())
      if (op.kind() == "attention") {
        const pt::split<position, 't'> cut{n, "keys"};
        plan.op_trans(op, fold ? pt::folded(cut) : cut);
      }
  };
  for (int n : {2, 3, 8}) {
    CHECK(gpt.fault([&](pt::plan_base& plan) {
      keys(plan, n);
      plan.op_assign(plan.ops(), pt::grid{});
    }) == "");
    CHECK(gpt.fault([&](pt::plan_base& plan) {
      keys(plan, n, true);
      plan.op_assign(plan.ops(), pt::grid{});
      recompute_of{"block.*"}(plan);
    }) == "");
    CHECK(gpt.fault([&](pt::plan_base& plan) {  // queries over devices, keys in time, and heads
      for (auto op : plan.ops())
        if (op.kind() == "attention") {
          plan.op_trans(op, pt::split<position, 's'>{2, "a"});
          plan.op_trans(op, pt::split<head>{2, "b"});
        }
      keys(plan, n);
      plan.op_assign(plan.ops(), pt::grid{{"a", 2}, {"b", 2}});
    }) == "");
    CHECK(gpt.fault([&](pt::plan_base& plan) {
      data_parallel_of{2}(plan);
      one_f_one_b(2, 2)(plan);
      keys(plan, n);
    }) == "");
    CHECK(gpt.fault([&](pt::plan_base& plan) {  // what makes keys and values in turns, too
      for (auto op : plan.ops())
        if (op.kind() == "linear" && op.has(&pt::axis_of<position>::info)) plan.op_trans(op, pt::split<position>{n, "keys"});
      keys(plan, n);
      plan.op_assign(plan.ops(), pt::grid{});
    }) == "");
  }
}

TEST_CASE("folded and skewed cuts of any op") {
  using models::hidden, models::position, models::sample;
  tried<models::gpt> gpt({.samples = 6, .positions = 9});
  auto mixed = [](int every, bool fold_batch) {
    return [=](pt::plan_base& plan) {
      int number = 0;
      for (auto op : plan.ops()) {
        const bool position_once = detail::only_letter(*op.entry().info, &pt::axis_of<position>::info) >= 0,
                   sample_once = detail::only_letter(*op.entry().info, &pt::axis_of<sample>::info) >= 0;
        if (fold_batch && sample_once) {
          const pt::cut_axis c{&pt::axis_of<sample>::info, 3, pt::mode_name("a")};
          plan.op_trans(op, number % every == 0 ? pt::folded(c) : c);
        } else if (position_once) {
          const pt::cut_axis c{&pt::axis_of<position>::info, 3, pt::mode_name("a")};
          plan.op_trans(op, number % every == 0 ? pt::folded(c) : c);
        }
        ++number;
      }
      plan.op_assign(plan.ops(), pt::grid{{"a", 3}});
    };
  };
  for (int every : {1, 2, 3})
    for (bool batch : {false, true}) CHECK(gpt.fault(mixed(every, batch)) == "");
  // in time, skewed by another dimension; a fold of a fold; a folded piece cut again
  for (int n : {2, 4}) {
    CHECK(gpt.fault([&](pt::plan_base& plan) {
      for (auto op : plan.ops()) {
        if (detail::only_letter(*op.entry().info, &pt::axis_of<sample>::info) < 0) continue;
        if (detail::only_letter(*op.entry().info, &pt::axis_of<position>::info) >= 0)
          plan.op_trans(op, pt::split<position>{n, "a"});
        plan.op_trans(op, pt::skewed(pt::split<sample>{3, "turn"}, "a"));
      }
      plan.op_assign(plan.ops(), pt::grid{{"a", n}});
    }) == "");
    CHECK(gpt.fault([&](pt::plan_base& plan) {  // replicas do the same in the same order
      plan.op_trans(plan.ops(pt::with<hidden>), pt::skewed(pt::split<sample>{3, "turn"}, "a"));
      plan.op_assign(plan.ops(), pt::grid{{"a", n}});
    }) == "");
  }
  CHECK(gpt.fault([](pt::plan_base& plan) {
    for (auto op : plan.ops("block.*")) {
      if (detail::only_letter(*op.entry().info, &pt::axis_of<sample>::info) < 0) continue;
      plan.op_trans(op, pt::folded(pt::split<sample>{2, "a"}));
      plan.op_trans(op, op.id % 2 == 0 ? pt::folded(pt::split<sample>{2, "b"}) : pt::split<sample>{2, "b"});
    }
    plan.op_assign(plan.ops(), pt::grid{{"a", 2}, {"b", 2}});
  }) == "");
}

TEST_CASE("keys in time on one device are merged") {
  tried<models::gpt> gpt({.samples = 3, .positions = 7});
  for (int n : {2, 3, 9})  // more pieces than keys: some are empty
    CHECK(gpt.fault([&](pt::plan_base& plan) {
      for (auto op : plan.ops())
        if (op.kind() == "attention") plan.op_trans(op, pt::split<models::position, 't'>{n, "keys"});
      single_device{}(plan);
    }) == "");
}

TEST_CASE("mistakes with skewed and folded cuts are told") {
  using models::position;
  tried<models::gpt> gpt({.samples = 3, .positions = 7});
  auto mistake = [&](auto make) { return gpt.fault([&](pt::plan_base& plan) { make(plan); }); };
  CHECK(mistake([](auto& plan) {
          plan.op_trans(plan.ops("block.0.fc1"), pt::skewed(pt::split<position>{2, "a"}, "b"));
          plan.op_assign(plan.ops(), pt::grid{{"a", 2}, {"b", 2}});
        }).find("is skewed and laid out in space; only a cut in time is skewed") != std::string::npos);
  CHECK(mistake([](auto& plan) {
          plan.op_trans(plan.ops("block.0.fc1"), pt::skewed(pt::split<position>{2, "turn"}, "c"));
          plan.op_assign(plan.ops(), pt::grid{{"a", 2}});
        }).find("is skewed by a dimension on which the op does not stand") != std::string::npos);
  CHECK(mistake([](auto& plan) {
          plan.op_trans(plan.ops("block.0.fc1"), pt::folded(pt::split<position>{2, "a", {3, 4}}));
          plan.op_assign(plan.ops(), pt::grid{{"a", 2}});
        }).find("a folded cut takes no sizes") != std::string::npos);
  CHECK(mistake([](auto& plan) {
          for (auto op : plan.ops())
            if (op.kind() == "attention") plan.op_trans(op, pt::split<position, 't'>{2, "a"});
          plan.op_assign(plan.ops(), pt::grid{{"a", 2}});
        }).find("is whole ('^') and may not be cut") != std::string::npos);
}
