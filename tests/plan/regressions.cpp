// Plans that went wrong once, found among random ones and made small: each trains like one device.
#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include <partita/ops/ops.hpp>
#include <partita/plan/verify.hpp>
#include <partita/policy/data_parallel.hpp>
#include <partita/policy/pipeline.hpp>
#include <partita/policy/recompute.hpp>
#include <partita/policy/tensor_parallel.hpp>
#include <partita/policy/zero.hpp>
#include <partita/program/lower.hpp>

#include "../support/agreement.hpp"
#include "../support/memory_rule.hpp"
#include "../support/program_interpreter.hpp"
#include "../support/reference.hpp"

namespace pt = partita;
namespace te = partita::testing;

namespace {

struct sample : pt::axis<"sample"> {};
struct word : pt::axis<"word", 6> {};
struct hidden : pt::axis<"hidden", 8> {};
struct inner : pt::axis<"inner", 6> {};
struct head : pt::axis<"head", 3> {};
struct width : pt::axis<"width", 2> {};

struct small {
  constexpr auto operator()(auto& g) const {
    constexpr pt::normal wide{0.4};
    auto ids = pt::input<pt::i32, sample>(g, "ids");
    auto targets = pt::input<pt::i32, sample>(g, "targets");
    auto table = pt::param<pt::f32, word, hidden>(g, "table.weight", wide);
    auto x = pt::embedding(ids, table);
    for (int l = 0; l < 2; ++l) {
      auto s = pt::scope(g, "block", l);
      auto h = pt::gelu(pt::linear(x, pt::param<pt::f32, hidden, inner>(g, "first.weight", wide)));
      // The weight has the inner axis as two: a view of a parameter.
      auto second = pt::merge<head, width, inner>(pt::param<pt::f32, head, width, hidden>(g, "second.weight", wide));
      x = x + pt::linear(h, second);
    }
    auto logits = pt::linear(x, table);
    return pt::outputs(pt::loss("loss", pt::cross_entropy(logits, targets)), pt::output("table", table),
                       pt::output("logits", logits));
  }
};
using training = pt::training<small, pt::adamw, pt::clip_norm>;
using graph_type = pt::recorder<pt::on_cpu::backend, training>;

// Two steps under a plan against one device; empty when they agree.
std::string fault(std::function<void(pt::plan_base&)> const& policy, std::size_t samples = 5) {
  const training t{.model = {}, .optimizer = {}, .clip = {.max = 0.5}, .frozen = {}};
  graph_type g;
  g.bindings.push(pt::bind<sample>(samples));
  pt::trace(g, t);
  pt::plan_base plan(g);
  policy(plan);
  pt::completed c;
  if (const pt::finding f = pt::verify_plan(g, plan, c)) return describe(f);
  try {
    pt::lowering_options options;
    options.keep_gradients = true;
    options.workspace = [&](int op, std::size_t const* e) { return g.launchers[op].workspace(*g.ops[op].info, e, 1); };
    const pt::lowering shared(g, plan, c, options);
    std::vector<pt::program> programs;
    for (int rank = 0; rank < c.devices; ++rank) {
      programs.push_back(pt::lower(shared, rank));
      if (std::string found = te::memory_fault(programs.back()); !found.empty()) return found;
      if (std::string found = te::late_reader(programs.back()); !found.empty()) return found;
      for (pt::outside const& one : programs.back().gradients)
        for (pt::outside const& other : programs.back().gradients)
          if (&one != &other && one.tensor == other.tensor) return "a gradient is shown twice";
    }
    te::values ids, targets;
    for (std::size_t i = 0; i < samples; ++i) {
      ids.all.push_back(static_cast<double>((3 * i + 1) % word::extent));
      targets.all.push_back(static_cast<double>((5 * i + 2) % word::extent));
    }
    const te::named_values inputs{{"ids", ids}, {"targets", targets}};
    te::reference<training> one(t, 1, {pt::bind<sample>(samples)});
    te::program_interpreter<graph_type> all(g, programs, 1);
    te::agreement rule(pt::f32);
    for (int step = 0; step < 2; ++step) {
      const double wanted = one.step(inputs, 0.01);
      all.run([&](std::string const& name) -> te::values const& { return inputs.find(name)->second; }, {0.01, step, 1, true});
      rule.loss(wanted, all.gather(&pt::program::outputs, g.ops[g.losses[0].op].first_output)[0]);
      for (int op = 0; op < g.forward_count; ++op) {
        const std::string name(g.name(op).view());
        const int tensor = g.ops[op].first_output;
        if (g.ops[op].info->is_output && g.ops[op].info->outputs[0].rank > 0)
          rule.tensor("output " + name, one.output(name), all.gather(&pt::program::outputs, tensor), 1e-5);
        if (g.ops[op].info->source != pt::source_kind::parameter) continue;
        rule.tensor("gradient of " + name, one.gradient(name), all.gather(&pt::program::gradients, tensor), 1e-5);
        rule.tensor(name, one.parameter(name), all.gather(&pt::program::stored, tensor), 1e-4);
      }
    }
    return rule.holds() ? "" : rule.where() + " differs";
  } catch (pt::error const& e) { return e.what(); }
}

pt::op_ref backward_of(pt::plan_base& plan, std::string_view name, std::string_view kind) {
  for (auto op : plan.ops(name, pt::pass::backward))
    if (op.kind() == kind) return op;
  throw pt::error("no such op");
}
pt::op_ref forward_of(pt::plan_base& plan, std::string_view name, std::string_view kind) {
  for (auto op : plan.ops(name))
    if (op.kind() == kind) return op;
  throw pt::error("no such op");
}

}  // namespace

TEST_CASE("a slice of partial sums is not reduced in place: another reader wants all of them") {
  CHECK(fault([](pt::plan_base& plan) {
          plan.op_trans(forward_of(plan, "block.1.linear", "linear"), pt::split<inner>{2, "a"});
          plan.op_trans(forward_of(plan, "table", "linear"), pt::split<sample>{2, "b"});
          plan.op_trans(forward_of(plan, "block.1.add", "add"), pt::split<sample>{2, "b"});
          plan.op_assign(plan.ops(), pt::grid{{"a", 2}, {"b", 2}});
        }) == "");
  CHECK(fault([](pt::plan_base& plan) {
          plan.op_trans(forward_of(plan, "table", "embedding"), pt::split<word>{2, "a"});
          plan.op_trans(forward_of(plan, "block.0.first", "linear"), pt::split<sample>{2, "b"});
          plan.op_assign(plan.ops(), pt::grid{{"a", 2}, {"b", 2}});
        }) == "");
}

TEST_CASE("a move that waits for the whole batch serves no micro-batch") {
  // The loss's stage gets the logits by micro-batch; the output there wants them whole.
  CHECK(fault([](pt::plan_base& plan) {
          plan.op_trans(plan.ops(), pt::split<sample>{3, "micro"});
          bool loss = false;
          for (auto op : plan.ops()) {
            loss = loss || op.kind() == "row_max";
            plan.op_assign(op, pt::at{"stage", loss ? 1 : 0, 2});
          }
          pt::schedule::one_f_one_b::order(plan, 2, 3);
        }) == "");
}

TEST_CASE("an update waits for all who read the place of its parameter") {
  // Without a norm over all gradients nothing else orders the two: the other order is a circle.
  using unclipped = pt::training<small, pt::adamw>;
  pt::recorder<pt::planning_only, unclipped> g;
  g.bindings.push(pt::bind<sample>(5));
  pt::trace(g, unclipped{});
  auto reversed = [&](std::string_view parameter, std::string_view name, bool elsewhere) {
    pt::plan_base plan(g);
    plan.op_assign(plan.ops(), pt::grid{{"a", 3}});
    const pt::op_ref reader = backward_of(plan, name, "linear");
    if (elsewhere) {  // devices 0, 2, 4: device 0 sends to itself, which moves nothing
      plan.op_assign(reader, pt::grid{{"b", 3}});
      plan.op_assign(reader, pt::at{"c", 0, 2});
    }
    for (auto op : plan.ops(parameter, pt::pass::update))
      if (op.kind() == "adamw") plan.op_order(op, reader);
    pt::completed c;
    return pt::verify_plan(g, plan, c).what;
  };
  CHECK(reversed("block.1.first.weight", "block.1.first", false) == pt::wrong::cyclic_order);
  CHECK(reversed("block.1.first.weight", "block.1.first", true) == pt::wrong::cyclic_order);
  CHECK(reversed("block.1.second.weight", "block.1.linear", false) == pt::wrong::cyclic_order);  // through a view
}

TEST_CASE("updates are cut otherwise than what they renew") {
  for (int stage : {1, 2, 3})
    CHECK(fault([&](pt::plan_base& plan) {
            pt::policy::data_parallel_of{3}(plan);
            pt::policy::zero_of{stage, 3}(plan);
          }) == "");
  CHECK(fault([](pt::plan_base& plan) {  // on one device alone, whence the others get it
          plan.op_assign(plan.ops(), pt::grid{{"a", 2}});
          for (auto op : plan.ops("table.weight", pt::pass::update))
            if (op.kind() == "adamw") plan.op_assign(op, pt::at{"a", 1, 2});
        }) == "");
}

TEST_CASE("a gradient that the norm and the optimizer read in two layouts is shown as one") {
  CHECK(fault([](pt::plan_base& plan) {
          plan.op_trans(plan.ops(), pt::split<sample>{3, "a"});
          plan.op_assign(plan.ops(), pt::grid{{"a", 3}});
          for (auto op : plan.ops("table.weight", pt::pass::update))
            if (op.kind() == "square_sum") plan.op_trans(op, pt::split<word>{3, "a"});
        }) == "");
}

TEST_CASE("a dimension of one device holds pieces that are empty in time") {
  CHECK(fault(
            [](pt::plan_base& plan) {
              plan.op_trans(plan.ops(), pt::split<sample>{4, "micro"});
              plan.op_trans(plan.ops(), pt::split<sample>{1, "data"});
              plan.op_assign(plan.ops(), pt::grid{{"data", 1}});
            },
            2) == "");
}

TEST_CASE("recompute across the stages of a pipeline makes no circle") {
  for (auto* order : {&pt::schedule::gpipe::order, &pt::schedule::one_f_one_b::order})
    CHECK(fault([&](pt::plan_base& plan) {
            pt::policy::pipeline_of{3, 4, order}(plan);
            pt::policy::recompute_of{"block.*"}(plan);
          }) == "");
}

TEST_CASE("a stage runs again what is its own and keeps what it was sent") {
  pt::recorder<pt::planning_only, training> g;
  g.bindings.push(pt::bind<sample>(5));
  pt::trace(g, training{});
  pt::plan_base plan(g);
  for (auto op : plan.ops())
    plan.op_assign(op, pt::at{"stage", op.id < forward_of(plan, "block.0.linear", "linear").id ? 0 : 1, 2});
  pt::policy::recompute_of{"block.*"}(plan);
  pt::completed c;
  REQUIRE(!pt::verify_plan(g, plan, c));
  int again = 0;
  for (pt::node const& n : c.nodes) {
    again += n.replayed;
    if (n.kind == pt::node_kind::move) CHECK(!c.values[c.input(n, 0)].replayed);
  }
  CHECK(again > 0);
}

TEST_CASE("an op in an order is its first run, not the one for backward readers") {
  CHECK(fault([](pt::plan_base& plan) {
          plan.op_assign(plan.ops(), pt::grid{});
          pt::policy::recompute_of{"block.*"}(plan);
          plan.op_order(forward_of(plan, "block.0.first", "linear"), forward_of(plan, "table", "linear"));
        }) == "");
}

TEST_CASE("gradients along a cut sequence are summed before they are scattered") {
  CHECK(fault([](pt::plan_base& plan) {
          plan.op_trans(plan.ops("block.*"), pt::split<inner>{2, "a"});
          plan.op_trans(forward_of(plan, "table", "embedding"), pt::split<sample>{2, "a"});
          plan.op_trans(plan.ops("block.*add"), pt::split<sample>{2, "a"});
          plan.op_assign(plan.ops(), pt::grid{{"a", 2}});
        }) == "");
}

// Partial maxima along `a`, of pieces of the batch that at one step differ along `a`.
void skew_what_is_partial(pt::plan_base& plan) {
  for (auto op : plan.ops())
    if (op.kind() == "row_max" || op.kind() == "softmax_terms") {
      plan.op_trans(op, pt::skewed(pt::split<sample>{2, "t"}, "a"));
      plan.op_trans(op, pt::split<word>{2, "a"});
    }
  plan.op_assign(plan.ops(), pt::grid{{"a", 2}});
}
TEST_CASE("what is reduced along the dimension that skews it is put together first") {
  CHECK(fault(skew_what_is_partial) == "");
  CHECK(fault([](pt::plan_base& plan) {  // along another one it is reduced step by step
          for (auto op : plan.ops()) {
            const bool terms = op.kind() == "row_max" || op.kind() == "softmax_terms";
            if (terms) plan.op_trans(op, pt::split<word>{2, "b"});
            if (!terms && op.kind() != "linear") continue;
            plan.op_trans(op, pt::split<sample>{2, "a"});
            plan.op_trans(op, pt::skewed(pt::split<sample>{2, "t"}, "a"));
          }
          plan.op_assign(plan.ops(), pt::grid{{"a", 2}, {"b", 2}});
        }) == "");
}
TEST_CASE("a move step by step of what turns along its own dimension is refused") {
  pt::recorder<pt::planning_only, training> g;
  g.bindings.push(pt::bind<sample>(5));
  pt::trace(g, training{});
  pt::plan_base plan(g);
  skew_what_is_partial(plan);
  pt::completed c;
  REQUIRE(!pt::verify_plan(g, plan, c));
  int injected = 0;
  for (pt::node& n : c.nodes) {
    if (n.kind != pt::node_kind::move) continue;
    pt::node const& before = c.nodes[c.values[c.input(n, 0)].node];
    if (before.kind != pt::node_kind::assemble || g.ops[n.op].info->kind != "row_max") continue;
    const int made = c.input(before, 0);  // the move now reads what was to be put together, at the same step
    c.inputs[n.first_input] = made;
    pt::layout turning = c.values[made].lay;
    turning.count = 0;
    for (pt::part const& x : c.values[made].lay.parts)
      if (x.pieces > 1 && !x.partial()) turning.push(x);
    n.over = c.values[n.first_value].lay = turning;
    n.time = pt::times_of(turning);
    CHECK(describe(pt::detail::check_flow(g, plan, c)).find("op row_max") != std::string::npos);
    ++injected;
  }
  CHECK(injected == 1);
}

TEST_CASE("parameters are fetched for every turn, whatever else is ordered") {
  auto staged = [](pt::plan_base& plan) {
    pt::policy::data_parallel_of{2}(plan);
    pt::policy::pipeline_of{2, 3, pt::schedule::one_f_one_b::order}(plan);
  };
  CHECK(fault(
            [&](pt::plan_base& plan) {
              staged(plan);
              pt::policy::zero_of{3, 2}(plan);
            },
            6) == "");
  CHECK(fault(
            [&](pt::plan_base& plan) {
              staged(plan);
              pt::policy::recompute_of{"block.*"}(plan);
              pt::policy::zero_of{3, 2}(plan);
            },
            7) == "");
  for (int micro : {1, 3})
    CHECK(fault(
              [&](pt::plan_base& plan) {  // the last block's weight first, and the turns the other way round
                plan.op_trans(plan.ops(), pt::split<sample>{micro, "micro"});
                pt::policy::data_parallel_of{2}(plan);
                pt::policy::zero_of{3, 2}(plan);
                plan.op_order(forward_of(plan, "block.1.second", "merge"), forward_of(plan, "block.0.first", "linear"));
                for (int i = 0; i + 1 < micro; ++i) {
                  const int first = forward_of(plan, "block.0.first", "linear").id;
                  pt::moment later = pt::moment{}.index("micro", i + 1), sooner = pt::moment{}.index("micro", i);
                  later.op = sooner.op = first;
                  plan.op_order(later, sooner);
                }
              },
              6) == "");
}

TEST_CASE("a program that waits for what nobody sends is an error that names the instruction") {
  const training t{};
  graph_type g;
  g.bindings.push(pt::bind<sample>(4));
  pt::trace(g, t);
  pt::plan_base plan(g);
  pt::policy::data_parallel_of{2}(plan);
  pt::completed c;
  REQUIRE(!pt::verify_plan(g, plan, c));
  const pt::lowering shared(g, plan, c);
  std::vector<pt::program> programs{pt::lower(shared, 0), pt::lower(shared, 1)};
  pt::list<pt::instruction>& all = programs[1].instructions;
  std::size_t last = all.size() - 1;
  while (!pt::is_communication(all[last].kind)) --last;
  all.erase(all.begin() + static_cast<std::ptrdiff_t>(last));
  const te::values words_of_batch(std::vector<int>{1, 2, 3, 0});
  const te::named_values inputs{{"ids", words_of_batch}, {"targets", words_of_batch}};
  te::program_interpreter<graph_type> both(g, programs, 1);
  std::string words;
  try {
    both.run([&](std::string const& name) -> te::values const& { return inputs.find(name)->second; }, {0.01, 0, 1, true});
  } catch (pt::error const& e) { words = e.what(); }
  CHECK(words.find("rank 0 is stuck at instruction") != std::string::npos);
}

TEST_CASE("more modes in time than a program counts are refused") {
  const std::string found = fault([](pt::plan_base& plan) {
    plan.op_assign(plan.ops(), pt::grid{});
    for (int k = 0; k < 5; ++k)
      plan.op_trans(forward_of(plan, "block.0.first", "linear"),
                    pt::split<sample>{2, std::string_view("abcde").substr(static_cast<std::size_t>(k), 1)});
  });
  CHECK(found.find("more than 4") != std::string::npos);
}
