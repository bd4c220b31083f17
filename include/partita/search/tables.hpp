// The table of a segment on one grid: which cuts every op may have, what each costs, and what lies between two ops.
#pragma once
#include <algorithm>
#include <array>
#include <utility>

#include <partita/search/known_changes.hpp>
#include <partita/search/option_costs.hpp>

namespace partita::spaces {

// What the variables of a table stand for.
struct table_key {
  struct variable {
    enum kind { boundary, cut, gathered, zero } what = boundary;
    int op = -1;                // index in the segment
    int tensor = -1;            // gathered: of the segment's first of its kind
    int weight = -1;            // zero: of the op's
    std::vector<int> stages{};  // ZeRO stages. zero: per option; cut: per weight, -1 where there is a choice
  };
  std::vector<variable> variables;
  std::vector<std::vector<cut_option>> cuts;  // per variable: of an op, or of a boundary by axis (below)
};

template <class Costs> class table_builder {
 public:
  constexpr table_builder(segmented_model const& m, rules_on_cuts rules, grid_costs<Costs> const& grid, table_options how,
                          std::vector<axis_info const*> const& boundary_axes)
      : m_(m),
        grid_(grid),
        cuts_(m, rules, grid, how.micro_batches, boundary_axes),
        costs_(m, cuts_, grid, how),
        changes_(grid) {}
  table_builder(table_builder const&) = delete;

  // One for each of `table_options::fills`; in turns gradients of weights fill nothing.
  constexpr std::vector<table> build(segment const& s, bool first, bool last, way_to_run how = {}, table_key* key = nullptr) {
    std::vector<int> fills = costs_.fills();
    if (how.turns > 1) fills.assign(1, 0);
    const bool splits = fills.back() > 0;
    std::vector<table> t(fills.size());
    table_key k;
    auto add_to_each = [&](table_key::variable v, std::vector<cut_option> cuts, std::vector<std::vector<cost>> const& own) {
      k.variables.push_back(v);
      k.cuts.push_back(std::move(cuts));
      for (std::size_t f = 0; f < t.size(); ++f) t[f].add_variable(own[f]);
      return t.front().variables() - 1;
    };
    auto add = [&](table_key::variable v, std::vector<cut_option> cuts, std::vector<cost> const& own) {
      return add_to_each(std::move(v), std::move(cuts), std::vector<std::vector<cost>>(t.size(), own));
    };
    // where tensors come from and who reads them
    struct use {
      int op, input;
    };
    struct made {
      int tensor, from_op, output;  // from_op -1: it enters
      std::vector<use> readers;
      bool leaves = false;
    };
    std::vector<made> tensors;
    auto find = [&](int tensor) -> made* {
      for (made& x : tensors)
        if (x.tensor == tensor) return &x;
      return nullptr;
    };
    for (int tensor : s.enters) tensors.push_back({tensor, -1, 0, {}, false});
    for (std::size_t i = 0; i < s.ops.size(); ++i)
      for (int o = 0; o < s.ops[i].info->output_count; ++o)
        tensors.push_back({m_.graph->ops[s.ops[i].op].first_output + o, static_cast<int>(i), o, {}, false});
    for (std::size_t i = 0; i < s.ops.size(); ++i)
      for (std::size_t n = 0; n < s.ops[i].inputs.size(); ++n)
        if (made* x = s.ops[i].inputs[n].activation ? find(s.ops[i].inputs[n].tensor) : nullptr)
          x->readers.push_back({static_cast<int>(i), static_cast<int>(n)});
    for (int tensor : s.leaves)
      if (made* x = find(tensor)) x->leaves = true;
    auto is_turned = [&](int op) { return op >= 0 && how.in_turns(s.ops[static_cast<std::size_t>(op)]); };
    // Made and read in turns: the axis of the tensor, or -1.
    auto axis_of_turns = [&](made const& x) {
      if (!is_turned(x.from_op) || x.leaves) return -1;
      for (use const& u : x.readers)
        if (!is_turned(u.op)) return -1;
      searched_op const& maker = s.ops[static_cast<std::size_t>(x.from_op)];
      return maker.info->outputs[x.output].find(maker.turns_along);
    };
    // Where a block runs in turns: what is read in turns again must be kept as what backward ops read; and what does not
    // run again takes its time once.
    auto in_turns_cost = [&](int op, cut_option const& c, cost r) {
      searched_op const& x = s.ops[static_cast<std::size_t>(op)];
      r.kept = 0;
      for (made const& output : tensors) {
        if (output.from_op != op || x.info->is_view) continue;
        const double bytes = cuts_.held_bytes(output.tensor, cuts_.operand_lies(x.info->outputs[output.output], c, false));
        const bool read_again =
            std::any_of(output.readers.begin(), output.readers.end(), [&](use const& u) { return is_turned(u.op); });
        if (axis_of_turns(output) >= 0) r.kept += x.output_kept[output.output] ? bytes / how.turns : 0;
        else if (x.output_kept[output.output] || read_again) (how.rest ? r.kept : r.entry) += bytes;
      }
      if (!how.rest && !is_turned(op)) r.backward += std::exchange(r.forward, 0.0);
      return r;
    };
    const std::vector<cut_option> edges = cuts_.boundary_options();
    // entry
    {
      std::vector<cut_option> cuts = edges;
      if (first) cuts.assign(1, {-1, -1});
      std::vector<cost> own;
      for (cut_option const& c : cuts) {
        cost x;
        if (first) x.held = m_.unread;
        for (int tensor : s.enters) x.entry += cuts_.held_bytes(tensor, cuts_.boundary_lies(tensor, c));
        own.push_back(x);
      }
      add({table_key::variable::boundary, -1, -1}, std::move(cuts), own);
    }
    // ops
    struct open_choice {
      int op, weight;
      weight_table costs;
    };
    std::vector<open_choice> zero;
    std::vector<int> variable_of;
    const hiding behind = costs_.hiding_of(s);
    for (std::size_t i = 0; i < s.ops.size(); ++i) {
      std::vector<cut_option> cuts = cuts_.op_options(s.ops[i]);
      std::vector<cost> of_op;
      std::vector<made_apart> apart(splits ? cuts.size() : 0);
      const int op = static_cast<int>(i);
      for (std::size_t c = 0; c < cuts.size(); ++c) {
        of_op.push_back(costs_.op_cost(s.ops[i], cuts[c], is_turned(op) ? how.turns : 1, splits ? &apart[c] : nullptr));
        if (how.turns > 1) of_op.back() = in_turns_cost(op, cuts[c], of_op.back());
      }
      std::vector<std::vector<cost>> own(t.size(), of_op);
      for (std::size_t f = 0; f < t.size(); ++f)
        for (std::size_t c = 0; c < cuts.size() && fills[f] > 0; ++c) own[f][c] = costs_.filling(of_op[c], apart[c], fills[f]);
      table_key::variable v{table_key::variable::cut, static_cast<int>(i), -1};
      for (std::size_t w = 0; w < s.ops[i].weights.size(); ++w) {
        weight_table made =
            costs_.weight_costs(s.ops[i].weights[w], cuts, behind, is_turned(op) ? how.turns : 1, s.ops[i].turns_along);
        for (std::size_t z = 0; z < made.costs.size(); ++z)  // what is gathered is there beside what the op needs itself
          if (made.costs[z].transient > 0) made.costs[z].transient += of_op[z / made.stages.size()].transient;
        if (made.stages.size() == 1) {
          v.stages.push_back(made.stages.front());
          for (std::vector<cost>& of_table : own)
            for (std::size_t c = 0; c < cuts.size(); ++c) of_table[c] += made.costs[c];
        } else {
          v.stages.push_back(-1);  // a variable of its own
          zero.push_back({static_cast<int>(i), static_cast<int>(w), std::move(made)});
        }
      }
      variable_of.push_back(add_to_each(std::move(v), std::move(cuts), own));
    }
    struct pending {
      int a, b;
      std::vector<cost> costs;
      std::vector<cost> apart{};  // what is there beside that where gradients of weights are made apart
    };
    std::vector<pending> pairs;
    for (open_choice& z : zero) {
      const std::size_t n = z.costs.stages.size();
      const int v =
          add({table_key::variable::zero, z.op, -1, z.weight, z.costs.stages}, std::vector<cut_option>(n), std::vector<cost>(n));
      pairs.push_back({variable_of[static_cast<std::size_t>(z.op)], v, std::move(z.costs.costs)});
    }
    // the exit comes last
    std::vector<std::pair<int, made const*>> exits;  // variable, tensor
    auto join = [&](int a, int b, std::vector<cost> costs) -> pending& {
      for (pending& p : pairs)
        if (p.a == a && p.b == b) {
          for (std::size_t i = 0; i < costs.size(); ++i) p.costs[i] += costs[i];
          return p;
        }
      return pairs.emplace_back(pending{a, b, std::move(costs)});
    };
    auto join_layouts = [&](int a, int b, std::vector<cost> costs) {
      std::vector<cost> apart(splits ? costs.size() : 0);
      for (std::size_t i = 0; i < apart.size(); ++i) {
        apart[i].held = std::exchange(costs[i].held, 0.0);
        apart[i].waiting = std::exchange(costs[i].waiting, 0.0);
      }
      pending& p = join(a, b, std::move(costs));
      if (p.apart.empty()) p.apart = std::move(apart);
      else
        for (std::size_t i = 0; i < apart.size(); ++i) p.apart[i] += apart[i];
    };
    for (made const& x : tensors) {
      searched_tensor const& about = m_.tensors[static_cast<std::size_t>(x.tensor)];
      const double bytes = cuts_.bytes_of(x.tensor);
      const std::size_t users = x.readers.size() + (x.leaves ? 1 : 0);
      if (users == 0) continue;
      const int along = axis_of_turns(x);
      const double times = along >= 0 ? how.turns : 1;
      const std::array<std::size_t, max_rank> extents = cuts_.extents_of(x.tensor, along, how.turns);
      changes<Costs>& change = changes_.of(bytes / times, extents, about.as->rank);
      auto held_in_turns = [&](std::vector<lies> const& all) {
        std::vector<double> held;
        for (lies const& l : all) held.push_back(bytes / times * grid_.share(l, extents.data()));
        return held;
      };
      const int from = x.from_op < 0 ? 0 : variable_of[static_cast<std::size_t>(x.from_op)];
      // As it is made, and as the maker reads the gradient: where the value was partial, whole.
      std::vector<lies> made_as, gradient_wanted;
      for (cut_option const& c : k.cuts[static_cast<std::size_t>(from)]) {
        made_as.push_back(x.from_op < 0
                              ? cuts_.boundary_lies(x.tensor, c)
                              : cuts_.operand_lies(s.ops[static_cast<std::size_t>(x.from_op)].info->outputs[x.output], c, true));
        gradient_wanted.push_back(made_as.back());
        for (auto& by : gradient_wanted.back().by)
          if (by == lies::partial) by = lies::none;
      }
      // As a reader wants it, and the gradient that it makes: partial over cuts that the tensor lacks.
      auto reader_lies = [&](use const& u, bool makes) {
        std::vector<lies> all;
        operand const& as = s.ops[static_cast<std::size_t>(u.op)].info->input(u.input);
        for (cut_option const& c : k.cuts[static_cast<std::size_t>(variable_of[static_cast<std::size_t>(u.op)])])
          all.push_back(cuts_.operand_lies(as, c, makes));
        return all;
      };
      auto is_kept = [&](use const& u) {
        return is_turned(u.op) || s.ops[static_cast<std::size_t>(u.op)].inputs[static_cast<std::size_t>(u.input)].backward_reads;
      };
      // Bytes of what is kept where it is read as it was made, and of what waits; for an op that reads it again itself they are
      // counted already, and of what enters those that are kept.
      std::vector<double> as_made, as_it_waits;
      if (x.from_op >= 0 && how.turns < 2) {
        if (searched_op const& maker = s.ops[static_cast<std::size_t>(x.from_op)]; !maker.info->is_view)
          for (cut_option const& c : k.cuts[static_cast<std::size_t>(from)]) {
            const double made = costs_.output_bytes(maker, c, x.output);
            as_made.push_back(maker.output_read_by_own[x.output] ? 0 : made);
            as_it_waits.push_back(maker.own_weights_read_output[x.output] ? 0 : made);
          }
      } else if (x.from_op < 0)
        for (lies const& as : made_as) as_it_waits.push_back(cuts_.held_bytes(x.tensor, as));
      auto waits = [&](use const& u) {
        return splits && s.ops[static_cast<std::size_t>(u.op)].inputs[static_cast<std::size_t>(u.input)].weights_read;
      };
      struct keeping {
        bool kept, waits, first;       // first: from where it is made, or enters
        std::vector<double> copies{};  // by option of the reader: gradients that wait once more where they lie in another way
      };
      auto gradients_wait_again = [&](use const& u) {
        std::vector<double> copies;
        if (splits)
          for (cut_option const& c : k.cuts[static_cast<std::size_t>(variable_of[static_cast<std::size_t>(u.op)])])
            copies.push_back(costs_.waiting_gradients(s.ops[static_cast<std::size_t>(u.op)], c, true));
        return copies;
      };
      // From every way that it lies at one variable to every way at another, and the gradient back.
      auto arrivals = [&](std::vector<lies> const& have, std::vector<lies> const& want, keeping const& how_kept,
                          std::vector<lies> const& back, std::vector<lies> const& back_to) {
        std::vector<cost> costs(have.size() * want.size());
        const std::vector<double> bytes_had = held_in_turns(have), bytes_wanted = held_in_turns(want),
                                  bytes_back = held_in_turns(back), bytes_back_to = held_in_turns(back_to);
        for (std::size_t i = 0, at = 0; i < have.size(); ++i)
          for (std::size_t j = 0; j < want.size(); ++j, ++at) {
            cost& c = costs[at];
            c.forward = times * change.seconds(have[i], want[j]);
            if (c.forward > 0) {  // what is sent, what arrives, and what it is packed in on the way
              const double sent = bytes_had[i], arrives = bytes_wanted[j];
              c.transient = sent + (how_kept.kept ? 1 : 2) * arrives;
              if (how_kept.kept) c.kept = arrives;
              if (how_kept.waits) c.waiting = arrives;
            } else if (how_kept.first) {
              if (how_kept.kept && !as_made.empty()) c.kept = as_made[i];
              if (how_kept.waits && !as_it_waits.empty()) c.waiting = as_it_waits[i];
            }
            if (about.differentiable) c.backward = times * change.seconds(back[j], back_to[i]);
            if (c.backward > 0) c.transient = std::max(c.transient, 2 * bytes_back[j] + bytes_back_to[i]);
            if (!how_kept.copies.empty() && !(how_kept.first && x.from_op >= 0 && back[j] == back_to[i])) {
              c.waiting += how_kept.copies[j];
              c.held += how_kept.copies[j];
            }
            if (how.turns < 2) continue;
            if (along >= 0 && !same_on(along, have[i], want[j])) c.forward += impossible;  // turns are parts of what a device has
            if (along < 0 && !how.rest) {                                                  // not of what runs again
              c.backward += std::exchange(c.forward, 0.0);
              c.entry += std::exchange(c.kept, 0.0);
            }
          }
        return costs;
      };
      for (use const& u : x.readers)
        if (s.ops[static_cast<std::size_t>(u.op)].info->is_output)
          join(from, variable_of[static_cast<std::size_t>(u.op)],
               costs_of_giving_out(m_, cuts_, grid_, x.tensor, made_as, reader_lies(u, false)));
      if (users == 1 && !x.leaves) {
        use const& u = x.readers.front();
        join_layouts(from, variable_of[static_cast<std::size_t>(u.op)],
                     arrivals(made_as, reader_lies(u, false), {is_kept(u), waits(u), true, gradients_wait_again(u)},
                              reader_lies(u, true), gradient_wanted));
      } else if (users == 1) exits.push_back({from, &x});
      else {
        // Gathered once for all readers, and the sum of their gradients changed once.
        const std::vector<cut_options::gathered_option> forms = cuts_.gathered_options(x.tensor);
        std::vector<cut_option> cuts;
        std::vector<lies> values, gradients;
        std::vector<cost> sums(forms.size());
        for (std::size_t f = 0; f < forms.size(); ++f) {
          cuts.push_back({forms[f].value.by[0], forms[f].value.by[1]});
          values.push_back(forms[f].value);
          gradients.push_back(forms[f].gradient);
          if (about.differentiable)
            sums[f].backward =
                (static_cast<double>(users) - 1) * grid_.of().pass_over(3 * cuts_.held_bytes(x.tensor, forms[f].gradient));
        }
        const int hub = add({table_key::variable::gathered, -1, x.tensor}, std::move(cuts), sums);
        const bool kept = std::any_of(x.readers.begin(), x.readers.end(), is_kept),
                   some_wait = std::any_of(x.readers.begin(), x.readers.end(), waits);
        join_layouts(from, hub, arrivals(made_as, values, {kept, some_wait, true, {}}, gradients, gradient_wanted));
        for (use const& u : x.readers)
          join_layouts(hub, variable_of[static_cast<std::size_t>(u.op)],
                       arrivals(values, reader_lies(u, false), {is_kept(u), waits(u), false, gradients_wait_again(u)},
                                reader_lies(u, true), gradients));
        if (x.leaves) exits.push_back({hub, &x});
      }
    }
    {
      std::vector<cut_option> cuts = edges;
      if (last) cuts.assign(1, {-1, -1});
      const int exit = add({table_key::variable::boundary, -1, -1}, cuts, std::vector<cost>(cuts.size()));
      for (auto const& way_out : exits) {
        const int from = way_out.first;
        made const* const x = way_out.second;
        const double bytes = cuts_.bytes_of(x->tensor);
        searched_tensor const& about = m_.tensors[static_cast<std::size_t>(x->tensor)];
        changes<Costs>& change = changes_.of(bytes, cuts_.extents_of(x->tensor), about.as->rank);
        const bool differentiable = about.differentiable;
        const bool from_hub = k.variables[static_cast<std::size_t>(from)].what == table_key::variable::gathered;
        std::vector<cut_options::gathered_option> forms;
        if (from_hub) forms = cuts_.gathered_options(x->tensor);
        std::vector<cost> costs;
        for (std::size_t i = 0; i < k.cuts[static_cast<std::size_t>(from)].size(); ++i) {
          lies have, gradient;
          if (from_hub) {
            have = forms[i].value;
            gradient = forms[i].gradient;
          } else {
            cut_option const& c = k.cuts[static_cast<std::size_t>(from)][i];
            have = x->from_op < 0
                       ? cuts_.boundary_lies(x->tensor, c)
                       : cuts_.operand_lies(s.ops[static_cast<std::size_t>(x->from_op)].info->outputs[x->output], c, true);
            gradient = have;
            for (auto& by : gradient.by)
              if (by == lies::partial) by = lies::none;
          }
          for (cut_option const& to : cuts) {
            const lies want = cuts_.boundary_lies(x->tensor, to);
            cost c;
            c.forward = change.seconds(have, want);
            if (differentiable) c.backward = change.seconds(want, gradient);
            if (how.turns > 1 && !how.rest) c.backward += std::exchange(c.forward, 0.0);
            costs.push_back(c);
          }
        }
        join(from, exit, std::move(costs));
      }
    }
    std::size_t entries = 0;
    for (pending const& p : pairs) entries += p.costs.size();
    for (table& x : t) x.pair_costs.expect(entries);
    for (pending& p : pairs)
      for (std::size_t f = 0; f < t.size(); ++f) {  // those that nothing waits in stand first
        for (std::size_t i = 0; i < p.apart.size() && fills[f] > 0; ++i) p.costs[i] += std::exchange(p.apart[i], {});
        t[f].add_pair(p.a, p.b, p.costs);
      }
    if (key != nullptr) *key = std::move(k);
    return t;
  }

 private:
  static constexpr bool same_on(int axis, lies const& a, lies const& b) {
    for (std::size_t d = 0; d < grid_dimensions; ++d)
      if ((a.by[d] == axis) != (b.by[d] == axis)) return false;
    return true;
  }
  segmented_model const& m_;
  grid_costs<Costs> const& grid_;
  cut_options cuts_;
  option_costs<Costs> costs_;
  known_changes<Costs> changes_;
};

}  // namespace partita::spaces
