// Random plans that are legal: compositions of the ready-made policies, and cuts, places and orders drawn op by op.
#pragma once
#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <partita/plan/verify.hpp>
#include <partita/policy/context_parallel.hpp>
#include <partita/policy/coshard.hpp>
#include <partita/policy/data_parallel.hpp>
#include <partita/policy/expert_parallel.hpp>
#include <partita/policy/interlaced_pipeline.hpp>
#include <partita/policy/pipeline.hpp>
#include <partita/policy/recompute.hpp>
#include <partita/policy/sequence_parallel.hpp>
#include <partita/policy/tensor_parallel.hpp>
#include <partita/policy/zero.hpp>

#include <partita/program/lowering.hpp>

#include "random_nodes.hpp"
#include "random_orders.hpp"

namespace partita::testing {

// Buckets of the usual size, none, small ones and tiny ones.
inline double random_bucket_bytes(unsigned seed) {
  const double sizes[]{lowering_options{}.bucket_bytes, 0, 4096, 300};
  return sizes[hash(std::uint64_t{seed}, hash_seed) % 4];
}

// Every op's cuts and levels, for a failure's report.
inline std::string describe_plan(graph_data const& g, plan_base const& plan) {
  std::string words;
  auto put = [&](std::string_view s) { words += s; };
  for (int op = 0; op < g.ops.size; ++op) {
    op_plan const& p = plan.of(op);
    if (p.cut_count == 0 && !p.assigned) continue;
    op_info const& f = *g.ops[op].info;
    put("  " + std::to_string(op) + " " + std::string(g.name(op).view()) + " (" + std::string(f.kind) + ", " +
        (g.ops[op].when == pass::forward    ? "forward"
         : g.ops[op].when == pass::backward ? "backward"
                                            : "update") +
        "):");
    for (int c = 0; c < p.cut_count; ++c) {
      op_cut const& x = p.cuts[c];
      put(" " + (x.dim < 0 ? std::string("replicas") : std::string(f.dims[x.dim].axis->name) + "'" + f.dims[x.dim].letter) + "/" +
          std::to_string(x.pieces) + ":" + std::string(plan.modes()[x.mode].view()) + (x.fold ? " folded" : "") +
          (x.skew >= 0 ? " skewed by " + std::string(plan.modes()[x.skew].view()) : ""));
      if (x.sizes >= 0) {
        put("{");
        for (int i = 0; i < x.pieces; ++i) put(std::to_string(plan.sizes(x.sizes)[i]) + (i + 1 < x.pieces ? "," : "}"));
      }
    }
    for (int k = 0; k < p.phase_count; ++k)
      put(" " + std::string(plan.modes()[p.phases[k].mode].view()) + "@" + std::to_string(p.phases[k].index));
    if (p.assigned) put(" on");
    for (int l = 0; l < p.level_count; ++l)
      put(" " + std::string(plan.modes()[p.levels[l].mode].view()) +
          (p.levels[l].coordinate >= 0 ? "=" + std::to_string(p.levels[l].coordinate) : "") + "/" +
          std::to_string(p.levels[l].extent));
    if (p.list >= 0) {
      put(" devices");
      for (int d : plan.devices_of_list(p.list)) put(" " + std::to_string(d));
    }
    put("\n");
  }
  for (node_plan const& n : plan.nodes()) {
    const int op = g.tensors[n.key.tensor].op;
    put("  " + std::string(n.key.what == between::move ? "move" : "sum") + " of " + std::to_string(op) + " " +
        std::string(g.name(op).view()) + " output " + std::to_string(g.tensors[n.key.tensor].output) +
        (n.key.reader >= 0 ? " to " + std::to_string(n.key.reader) : "") + ":");
    for (int c = 0; c < n.own.cut_count; ++c) {
      op_cut const& x = n.own.cuts[c];
      put(" " + (x.dim < 0 ? std::string("again") : std::string(g.operand_of(n.key.tensor).axes[static_cast<int>(x.dim)]->name)) +
          "/" + std::to_string(x.pieces) + ":" + std::string(plan.modes()[x.mode].view()));
    }
    if (n.own.assigned) put(" on");
    for (int l = 0; l < n.own.level_count; ++l)
      put(" " + std::string(plan.modes()[n.own.levels[l].mode].view()) +
          (n.own.levels[l].coordinate >= 0 ? "=" + std::to_string(n.own.levels[l].coordinate) : "") + "/" +
          std::to_string(n.own.levels[l].extent));
    for (int d = 0; n.own.list >= 0 && d < plan.devices_of_list(n.own.list).size; ++d)
      put((d == 0 ? " devices " : " ") + std::to_string(plan.devices_of_list(n.own.list)[d]));
    put("\n");
  }
  for (wish const& w : plan.wishes())
    if (w.first.op >= 0 && w.second.op >= 0)
      put("  order " + std::to_string(w.first.op) + " " + std::string(g.name(w.first.op).view()) + " before " +
          std::to_string(w.second.op) + " " + std::string(g.name(w.second.op).view()) + "\n");
  return words;
}

class random_plan {
 public:
  random_plan(plan_base& plan, std::mt19937& random, int most_devices)
      : plan_(plan), g_(plan.graph()), random_(random), most_(most_devices) {}

  // Returns what it did, in words.
  std::string make() {
    switch (below(5)) {
      case 0: composition(); break;
      case 1:
        // A schedule speaks of a stage's backward ops at an index, so that theirs stay as they are.
        override_some(!composition());
        break;
      default:
        op_by_op();
        if (chance(50)) override_some(true);
        if (chance(40)) order_some();
    }
    random_nodes beside(plan_, random_, most_);
    if (chance(30)) words_ += beside.lists();
    if (chance(40)) words_ += beside.nodes();
    if (chance(20)) words_ += random_orders(plan_, random_).make();
    return words_;
  }

 private:
  int below(int n) { return std::uniform_int_distribution<int>(0, n - 1)(random_); }
  bool chance(int percent) { return below(100) < percent; }
  void say(std::string const& s) { words_ += (words_.empty() ? "" : ", ") + s; }

  // ---- compositions of policies
  bool composition() {  // returns whether it has a schedule
    const int axis_room = static_cast<int>(g_.extent(plan_.batch_axis()));
    int devices = 1, room = axis_room;
    std::vector<int> order{0, 1, 2};
    std::shuffle(order.begin(), order.end(), random_);
    bool staged = false;
    int replicas = 1, tensor = 1, context = 1;
    for (int kind : order) {
      const int most = std::min(4, most_ / devices);
      if (chance(25)) continue;
      if (kind == 0) {
        const int n = 1 + below(std::min(most, std::max(1, room)));
        policy::data_parallel_of{n}(plan_);
        devices *= n;
        room /= n;
        replicas = n;
        say("data " + std::to_string(n));
      } else if (kind == 1) {
        if (wide_cut_ > 1) continue;  // its axis is cut already, perhaps into all that there is
        const int n = 1 + below(most);
        if (chance(25) && extent("position") > 0 && extent("head") > 0) {
          const int along = std::min(n, std::min(extent("position"), extent("head")));
          const policy::ring_form rings[]{policy::ring_form::none, policy::ring_form::plain, policy::ring_form::folded};
          const int form = below(3);
          policy::context_parallel_of{along, axis("position"), chance(80) ? axis("head") : nullptr, rings[form]}(plan_);
          devices *= along;
          context = along;
          say((form == 0 ? "context " : form == 1 ? "ring " : "folded ring ") + std::to_string(along));
          continue;
        }
        policy::tensor_parallel_of{n}(plan_);
        devices *= n;
        tensor = n;
        say("tensor " + std::to_string(n));
      } else if (chance(30)) {
        const int n = micro_batches(room);
        policy::micro_batches_of{n}(plan_);
        say("micro " + std::to_string(n));
      } else {
        const int stages = 1 + below(most), n = micro_batches(room);
        axis_info const* wide = policy::detail::heaviest_axis(g_, stages * tensor * context);
        if (wide != nullptr && chance(15)) {
          policy::interlaced_pipeline_of{stages, n, wide, chance(50)}(plan_);
          devices *= stages;
          staged = true;
          wide_cut_ = stages;
          say("interlaced " + std::to_string(stages) + " x " + std::to_string(n));
          continue;
        }
        const auto [name, how] = any_schedule();
        policy::pipeline_of{stages, n, how}(plan_);
        devices *= stages;
        staged = true;
        say(name + " " + std::to_string(stages) + " x " + std::to_string(n));
      }
    }
    if (has_op_with("expert") && chance(60)) {
      const int n = 1 + below(std::max(1, std::min({most_ / devices, room, extent("expert")})));
      policy::expert_parallel_of{n, axis("expert")}(plan_);
      devices *= n;
      say("experts " + std::to_string(n));
    }
    if (tensor > 1 && tensor <= extent("position") && chance(40)) {
      policy::sequence_parallel_of{tensor}(plan_);
      say("sequence");
    }
    bool again = false;
    if (chance(20) && !matching("block.*").empty()) {
      again = true;
      const char* patterns[]{"block.*", "block.*.unit*", "block.0*"};
      const char* chosen = patterns[below(3)];
      if (!matching(chosen).empty()) {
        policy::recompute_of{chosen}(plan_);
        say("recompute " + std::string(chosen));
      }
    }
    if (!again && chance(15) && axis("inner") != nullptr && !matching("block.*.unit*").empty()) {
      const int n = 1 + below(3);
      policy::coshard_of{axis("inner"), n, "block.*.unit*"}(plan_);
      again = true;
      say("coshard " + std::to_string(n));
    }
    if (replicas > 1 && chance(40)) {
      const int stage = 1 + below(3);
      policy::zero_of{stage, replicas}(plan_);
      say("zero " + std::to_string(stage));
    }
    for (int op = 0; op < g_.ops.size; ++op)
      if (g_.ops[op].when == pass::forward && !plan_.of(op).assigned) plan_.op_assign(ref(op), grid{});
    if (!staged && chance(30)) order_some();
    return staged;
  }
  std::pair<std::string, schedule::recipe> any_schedule() {
    switch (below(9)) {
      case 0: return {"gpipe", schedule::gpipe{}};
      case 1: {
        const int chunks = 1 + below(3);
        return {"interleaved by " + std::to_string(chunks), schedule::interleaved_of{chunks}};
      }
      case 2: return {"zero bubble h1", schedule::zero_bubble<schedule::h1>{}};
      case 3: return {"zero bubble h2", schedule::zero_bubble<schedule::h2>{}};
      case 4: return {"zero bubble v", schedule::zero_bubble<schedule::v_shaped>{}};
      case 5: return {"3f1b", schedule::three_f_one_b{}};
      default: return {"1f1b", schedule::one_f_one_b{}};
    }
  }
  // Cuts of the batch in time; what cuts it in space later needs room.
  int micro_batches(int& room) {
    const int n = 1 + below(5);
    if (chance(70)) room /= n;
    else if (n > room) room = 0;
    else room /= n;
    return n;
  }

  axis_info const* axis(std::string_view name) const {
    for (binding const& b : g_.bindings)
      if (b.axis->name == name) return b.axis;
    return nullptr;
  }
  int extent(std::string_view name) const {  // 0: the model has no such axis
    axis_info const* known = axis(name);
    return known == nullptr ? 0 : static_cast<int>(g_.extent(known));
  }
  bool has_op_with(std::string_view name) const {
    axis_info const* known = axis(name);
    for (int op = 0; op < g_.ops.size && known != nullptr; ++op)
      if (op_ref{&g_, op}.has(known)) return true;
    return false;
  }
  std::vector<int> matching(std::string_view pattern) const {
    std::vector<int> all;
    for (int op = 0; op < g_.ops.size; ++op)
      if (g_.ops[op].when == pass::forward && matches(pattern, g_.name(op).view())) all.push_back(op);
    return all;
  }

  // ---- op by op
  struct axis_of_grid {
    std::string name;
    int extent;
  };
  void op_by_op() {
    std::vector<axis_of_grid> dimensions;
    int devices = 1;
    const char* names[]{"a", "b", "c"};
    for (int d = 0, n = 1 + below(3); d < n; ++d) {
      const int extent = 1 + below(std::min(4, most_ / devices));
      dimensions.push_back({names[d], extent});
      devices *= extent;
    }
    if (chance(30)) draw_turning(dimensions);
    const bool apart = turning_.axis == nullptr || chance(30), ragged = apart && chance(30), stages = apart && chance(50);
    const int time = turning_.axis != nullptr ? 60 + below(40)
                     : below(3) == 0          ? 0
                                              : 10 + below(50),
              space = 30 + below(70), micro = chance(40) ? 1 + below(4) : 0;
    say("op by op on " + std::to_string(devices) + " devices");
    if (micro > 0 && chance(50)) plan_.op_trans(plan_.ops(), cut_axis{plan_.batch_axis(), micro, mode_name("micro")});
    int coordinate = 0, region = chance(25) ? 1 : 0;  // of ops that are run again
    if (region > 0) say("recompute");
    for (int op = 0; op < g_.ops.size; ++op) {
      if (g_.ops[op].when != pass::forward) continue;
      std::vector<axis_of_grid> mine = dimensions;
      if (ragged && chance(40)) {
        std::shuffle(mine.begin(), mine.end(), random_);
        mine.resize(static_cast<std::size_t>(1 + below(static_cast<int>(mine.size()))));
      }
      if (chance(30)) coordinate = below(8);
      place(op, mine, stages ? 40 : 0, coordinate);
      cut(op, mine, space, time);
      if (region > 0 && chance(20)) region = 1 + below(3);
      if (region > 0 && chance(70)) plan_.op_trans(ref(op), replicate{2, "again." + std::to_string(region)});
    }
  }
  // One cut in time that many ops share, skewed by one dimension, and what lies along that: within a step of it there are
  // then moves over the other dimensions.
  void draw_turning(std::vector<axis_of_grid> const& dimensions) {
    axis_info const* known[]{plan_.batch_axis(), axis("position"), axis("hidden")};
    axis_of_grid const& over = dimensions[static_cast<std::size_t>(below(static_cast<int>(dimensions.size())))];
    turning_ = cut_axis{known[below(2)], chance(50) ? over.extent : 2 + below(3), mode_name("t")};
    turning_.fold = chance(30);
    turning_.skew = mode_name(over.name);
    along_ = cut_axis{known[below(3)], over.extent, mode_name(over.name)};
    if (turning_.axis != nullptr) say("turning");
  }
  int only_letter(int op, axis_info const* of) const {
    op_info const& f = *g_.ops[op].info;
    int letter = -1;
    for (int d = 0; d < f.dim_count && of != nullptr; ++d) {
      if (f.dims[d].axis->id != of->id) continue;
      if (letter >= 0 || f.dims[d].whole) return -1;
      letter = d;
    }
    return letter;
  }
  // The cut that others have under the same mode, if the op can have it.
  cut_axis const* common_cut(int op, std::string const& mode, int pieces) const {
    if (turning_.axis == nullptr) return nullptr;
    cut_axis const& c = mode == "t" ? turning_ : along_;
    const int letter = only_letter(op, c.axis);
    if (letter < 0 || mode != c.mode.view()) return nullptr;
    if (mode != "t") return pieces == c.pieces && least(op, letter) >= c.pieces ? &c : nullptr;
    for (int l = 0; l < plan_.of(op).level_count; ++l)
      if (plan_.modes()[plan_.of(op).levels[l].mode].view() == c.skew.view()) return folds(op, letter) < 2 ? &c : nullptr;
    return nullptr;
  }
  void place(int op, std::vector<axis_of_grid>& on, int percent_fixed, int coordinate) {
    std::vector<axis_of_grid> free;
    for (axis_of_grid const& d : on) {
      if (chance(percent_fixed)) plan_.op_assign(ref(op), at{d.name, coordinate % d.extent, d.extent});
      else {
        plan_.op_assign(ref(op), grid{{d.name, d.extent}});
        free.push_back(d);
      }
    }
    on = free;
  }
  // Cuts of one op: along every dimension of its grid a letter or none, and some in time, one inside the other in any
  // order.
  void cut(int op, std::vector<axis_of_grid> const& on, int percent_space, int percent_time) {
    struct wanted {
      std::string mode;
      int pieces;
      bool in_space;
    };
    std::vector<wanted> all;
    for (axis_of_grid const& d : on) {
      if (chance(percent_space)) all.push_back({d.name, d.extent, true});
    }
    for (int k = 0; k < 2; ++k)
      if (chance(percent_time)) {
        const bool shared = chance(turning_.axis != nullptr ? 90 : 60);
        all.push_back(
            {shared ? std::string(k == 0 ? "t" : "u") : "t" + std::to_string(op) + "." + std::to_string(k), 1 + below(4), false});
      }
    std::shuffle(all.begin(), all.end(), random_);
    for (wanted const& w : all) {
      if (has_mode(op, w.mode)) continue;
      if (cut_axis const* common = common_cut(op, w.mode, w.pieces); common != nullptr && chance(85)) {
        plan_.op_trans(ref(op), *common);
        continue;
      }
      std::vector<int> letters;
      op_info const& f = *g_.ops[op].info;
      for (int d = 0; d < f.dim_count; ++d)
        if (!f.dims[d].whole && (!w.in_space || least(op, d) >= w.pieces)) letters.push_back(d);
      if (letters.empty()) {
        if (w.in_space && chance(30)) plan_.op_trans(one(op), replicate{w.pieces, w.mode});
        continue;
      }
      const int d = letters[static_cast<std::size_t>(below(static_cast<int>(letters.size())))];
      cut_axis c{f.dims[d].axis, w.pieces, mode_name(w.mode), f.dims[d].letter};
      std::vector<int> sizes;
      if (!is_cut(op, d) && chance(25)) {
        sizes = random_sizes(static_cast<int>(g_.extent(c.axis)), w.pieces, w.in_space);
        c.sizes = sizes.data();
        c.size_count = w.pieces;
      } else if (chance(20) && folds(op, d) < 2) c.fold = true;
      if (!w.in_space && !on.empty() && chance(25))
        c.skew = mode_name(on[static_cast<std::size_t>(below(static_cast<int>(on.size())))].name);
      plan_.op_trans(ref(op), c);
    }
  }
  std::vector<int> random_sizes(int extent, int pieces, bool all_full) {
    std::vector<int> sizes(static_cast<std::size_t>(pieces), all_full ? 1 : 0);
    for (int left = extent - (all_full ? pieces : 0); left > 0; --left) ++sizes[static_cast<std::size_t>(below(pieces))];
    return sizes;
  }
  // The smallest piece of a letter so far, as the rules of the plan count it.
  int least(int op, int d) const {
    op_plan const& p = plan_.of(op);
    int n = static_cast<int>(g_.extent(g_.ops[op].info->dims[d].axis));
    for (int c = 0; c < p.cut_count; ++c) {
      if (p.cuts[c].dim != d) continue;
      if (!in_space(p, p.cuts[c].mode) && partita::detail::is_whole_in_time(g_, op)) continue;
      if (int const* sizes = plan_.sizes(p.cuts[c].sizes)) n = *std::min_element(sizes, sizes + p.cuts[c].pieces);
      else n /= p.cuts[c].pieces;
    }
    return n;
  }
  bool in_space(op_plan const& p, short mode) const {
    for (int l = 0; l < p.level_count; ++l)
      if (p.levels[l].mode == mode) return true;
    return false;
  }
  int folds(int op, int d) const {
    int n = 0;
    op_plan const& p = plan_.of(op);
    for (int c = 0; c < p.cut_count; ++c) n += p.cuts[c].dim == d && p.cuts[c].fold;
    return n;
  }
  bool is_cut(int op, int d) const {
    op_plan const& p = plan_.of(op);
    for (int c = 0; c < p.cut_count; ++c)
      if (p.cuts[c].dim == d) return true;
    return false;
  }
  bool has_mode(int op, std::string const& name) const {
    op_plan const& p = plan_.of(op);
    for (int c = 0; c < p.cut_count; ++c)
      if (plan_.modes()[p.cuts[c].mode].view() == name) return true;
    return false;
  }

  // ---- backward and update ops that do not inherit
  void override_some(bool backward) {
    const int percent = 5 + below(30);
    say("some of the backward and update ops with cuts of their own");
    for (int op = 0; op < g_.ops.size; ++op) {
      op_entry const& e = g_.ops[op];
      if (e.when == pass::forward || e.origin == op || !chance(percent)) continue;
      if (!backward && e.when == pass::backward) continue;
      bool said = plan_.of(op).assigned || plan_.of(op).cut_count > 0;
      for (node_plan const& n : plan_.nodes()) said = said || g_.tensors[n.key.tensor].op == op;
      if (said) continue;                       // a policy has been here
      op_plan const from = plan_.of(e.origin);  // a copy: the list of modes grows
      std::vector<axis_of_grid> on;
      if (chance(40)) {  // elsewhere
        int devices = 1;
        for (const char* name : {"a", "b", "data", "other"})
          if (chance(40)) {
            const int extent = 1 + below(std::min(4, most_ / devices));
            on.push_back({name, extent});
            devices *= extent;
          }
        if (on.empty()) plan_.op_assign(ref(op), grid{});
        place(op, on, 30, below(8));
      } else {  // the same place, said again, so that it is known which modes lie in space
        for (int l = 0; l < from.level_count; ++l) {
          level const& x = from.levels[l];
          const std::string name(plan_.modes()[x.mode].view());
          if (x.coordinate >= 0) plan_.op_assign(ref(op), at{name, x.coordinate, x.extent});
          else {
            plan_.op_assign(ref(op), grid{{name, x.extent}});
            on.push_back({name, x.extent});
          }
        }
        if (from.level_count == 0) plan_.op_assign(ref(op), grid{});
      }
      cut(op, on, 80, 30);
      if (plan_.of(op).cut_count == 0) plan_.op_trans(one(op), replicate{1, "none"});  // nothing is inherited
    }
  }

  // ---- orders: neighbours of a random topological order
  void order_some() {
    const int n = g_.ops.size;
    std::vector<std::vector<int>> after(static_cast<std::size_t>(n));
    std::vector<int> waits(static_cast<std::size_t>(n), 0), order, ready;
    auto edge = [&](int from, int to) {
      after[static_cast<std::size_t>(from)].push_back(to);
      ++waits[static_cast<std::size_t>(to)];
    };
    std::vector<int> renewed(static_cast<std::size_t>(g_.tensors.size), -1);
    for (int t = 0; t < g_.tensors.size; ++t)
      if (g_.tensors[t].carried >= 0) renewed[static_cast<std::size_t>(g_.tensors[t].carried)] = g_.tensors[t].op;
    std::vector<int> stored(static_cast<std::size_t>(g_.tensors.size), -1);  // what a view of a parameter is a view of
    for (int t = 0; t < g_.tensors.size; ++t) {
      op_entry const& e = g_.ops[g_.tensors[t].op];
      stored[static_cast<std::size_t>(t)] = e.info->source != source_kind::none ? t
                                            : e.info->is_view                   ? stored[static_cast<std::size_t>(g_.input(e, 0))]
                                                                                : -1;
    }
    for (int op = 0; op < n; ++op)
      for (int i = 0; i < g_.ops[op].input_count; ++i) {
        const int t = g_.input(g_.ops[op], i), of = stored[static_cast<std::size_t>(t)];
        edge(g_.tensors[t].op, op);
        if (of < 0) continue;
        if (const int writer = renewed[static_cast<std::size_t>(of)]; writer >= 0 && writer != op) edge(op, writer);
      }
    for (int op = 0; op < n; ++op)
      if (waits[static_cast<std::size_t>(op)] == 0) ready.push_back(op);
    while (!ready.empty()) {
      const std::size_t k = static_cast<std::size_t>(below(static_cast<int>(ready.size())));
      const int op = ready[k];
      ready.erase(ready.begin() + static_cast<std::ptrdiff_t>(k));
      order.push_back(op);
      for (int next : after[static_cast<std::size_t>(op)])
        if (--waits[static_cast<std::size_t>(next)] == 0) ready.push_back(next);
    }
    int last = -1, made = 0;
    const int percent = 2 + below(40);
    for (int op : order)
      if (g_.ops[op].info->source == source_kind::none && chance(percent)) {
        if (last >= 0) {
          plan_.op_order(ref(last), ref(op));
          ++made;
        }
        last = op;
      }
    say(std::to_string(made) + " orders");
  }

  op_ref ref(int op) const { return {&g_, op}; }
  selection one(int op) const {
    selection s{&g_, {}, true};
    s.ids.push(op);
    return s;
  }

  plan_base& plan_;
  graph_data const& g_;
  std::mt19937& random_;
  int most_;
  cut_axis turning_{}, along_{};  // cuts that many ops share
  int wide_cut_ = 1;              // pieces of what an interlaced pipeline has spread
  std::string words_;
};

}  // namespace partita::testing
