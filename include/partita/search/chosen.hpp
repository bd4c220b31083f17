// A choice as a plan, in the three primitives' own words. A policy like any other; `plan.check()` accepts what it makes.
#pragma once
#include <array>
#include <string>
#include <string_view>

#include <partita/policy/interlaced_order.hpp>
#include <partita/policy/schedule.hpp>
#include <partita/policy/zero.hpp>
#include <partita/search/space.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::spaces {

// `Space`: plan_space, or what answers as it does (search/at_compile_time.hpp).
template <class Space> class chosen {
 public:
  constexpr chosen(Space const& s, choice const& x)
      : space_(s),
        x_(x),
        configuration_(s.of().configurations[static_cast<std::size_t>(x.configuration)]),
        shape_(s.shapes()[static_cast<std::size_t>(configuration_.shape)]) {}

  constexpr void operator()(plan_base& plan) {
    graph_data const& g = plan.graph();
    std::vector<int> part_of(static_cast<std::size_t>(g.ops.size), -1);
    cut_batch(plan);
    deal(plan, part_of);
    for (int op = g.ops.size; op-- > 0;)  // what only other sources read, and constants
      if (part_of[static_cast<std::size_t>(op)] < 0 && g.ops[op].when == pass::forward)
        part_of[static_cast<std::size_t>(op)] = first_part(g, op, part_of);
    assign(plan, part_of);
    std::vector<std::vector<int>> caused(static_cast<std::size_t>(g.ops.size));  // by what causes them
    for (int op = 0; op < g.ops.size; ++op)
      if (op_entry const& e = g.ops[op]; e.when == pass::backward || e.when == pass::update)
        caused[static_cast<std::size_t>(e.origin)].push_back(op);
    for (zero_choice const& z : zero_) cut_updates(plan, z, caused);
    if (shape_.micro_batches > 1) order(plan);
  }

 private:
  static constexpr std::string_view modes[grid_dimensions]{"outer", "inner"};
  using extents = std::array<int, grid_dimensions>;  // of a device grid
  struct zero_choice {
    int parameter, stage;
    extents grid;
    bool in_turns;  // what reads it
    bool alone;     // and that there is one reader
    bool shared[grid_dimensions];
    std::vector<int> read_through{};
    std::vector<given_out> outputs{};
  };
  constexpr int stages() const { return static_cast<int>(x_.stages.size()); }
  constexpr int chunks() const { return shape_.schedule.chunks; }
  constexpr int parts() const { return chunks() * stages(); }
  // Part c * stages + s of the model is chunk c of stage s. What is spread is two more: before the first stage, after the last
  // one. `part_of` ops: filled in.
  constexpr void deal(plan_base& plan, std::vector<int>& part_of) {
    int number = 0;
    std::size_t spread = 0;
    for (int c = 0; c < chunks(); ++c)
      for (int s = 0; s < stages(); ++s) {
        stage_choice const& stage = x_.stages[static_cast<std::size_t>(s)];
        const int count = static_cast<int>(stage.segments.size());
        const bool last = s + 1 == stages();
        for (int i = shape_.schedule.begin_of(c, count, last); i < shape_.schedule.begin_of(c + 1, count, last); ++i, ++number)
          if (space_.spreads(number, shape_)) {
            spread_way const& way = way_to_spread();
            const int part = parts() + (number + 1 == space_.segments() ? 1 : 0);
            take(plan, number, part, space_.key_of_spread(number, shape_, way), {}, way.options[spread++], part_of);
          } else {
            segment_choice const& picked = stage.segments[static_cast<std::size_t>(i)];
            take(plan, number, c * stages() + s, space_.key_of(number, shape_, stage.grid, picked.variant),
                 space_.way(number, picked.variant), picked.options, part_of);
          }
      }
  }
  constexpr spread_way const& way_to_spread() const { return space_.ways_to_spread(shape_)[static_cast<std::size_t>(x_.spread)]; }
  constexpr extents grid_of(int part) const {
    auto const& [outer, inner] =
        part < parts() ? shape_.grids[static_cast<std::size_t>(x_.stages[static_cast<std::size_t>(part % stages())].grid)]
                       : way_to_spread().grid;
    return {outer, inner};
  }
  constexpr void order(plan_base& plan) const {
    if (shape_.schedule.own.order != nullptr) return shape_.schedule.own.order(plan, stages(), shape_.micro_batches);
    switch (shape_.schedule.kind) {
      case schedule_kind::gpipe: return schedule::gpipe::order(plan, stages(), shape_.micro_batches);
      case schedule_kind::interleaved: return schedule::interleaved_of::order(plan, stages(), shape_.micro_batches, chunks());
      case schedule_kind::zero_bubble_h1: return schedule::zero_bubble<schedule::h1>::order(plan, stages(), shape_.micro_batches);
      case schedule_kind::zero_bubble_h2: return schedule::zero_bubble<schedule::h2>::order(plan, stages(), shape_.micro_batches);
      case schedule_kind::interlaced:
      case schedule_kind::interlaced_in_step:
        return policy::detail::order_interlaced(plan, stages(), shape_.micro_batches, shape_.schedule.in_step());
      default: return schedule::one_f_one_b::order(plan, stages(), shape_.micro_batches);
    }
  }
  constexpr void cut_batch(plan_base& plan) const {
    if (shape_.micro_batches < 2) return;
    if (auto const* batch = space_.model().batch)
      plan.op_trans(plan.ops(), cut_axis{batch, shape_.micro_batches, mode_name("micro")}, 0);
  }
  static constexpr void cut(plan_base& plan, int op, int letter, extents const& grid, int dimension) {
    dim const& x = plan.graph().ops[op].info->dims[letter];
    if (policy::detail::is_cut_by(plan, op, modes[dimension])) return;
    const int pieces = grid[static_cast<std::size_t>(dimension)];
    plan.op_trans(op_ref{&plan.graph(), op}, cut_axis{x.axis, pieces, mode_name(modes[dimension]), x.letter}, 0);
  }
  constexpr void take(plan_base& plan, int number, int part, table_key const& key, way_to_run how,
                      std::vector<int> const& options, std::vector<int>& part_of) {
    segment const& s = space_.model().segments[static_cast<std::size_t>(number)];
    const extents grid = grid_of(part);
    auto zero_of = [&](int op, int weight, table_key::variable const& v) {
      if (v.stages[static_cast<std::size_t>(weight)] >= 0) return v.stages[static_cast<std::size_t>(weight)];
      for (std::size_t k = 0; k < key.variables.size(); ++k)
        if (auto const& z = key.variables[k]; z.what == table_key::variable::zero && z.op == op && z.weight == weight)
          return z.stages[static_cast<std::size_t>(options[k])];
      return 0;
    };
    for (std::size_t k = 0; k < key.variables.size(); ++k) {
      auto const& v = key.variables[k];
      if (v.what != table_key::variable::cut) continue;
      searched_op const& x = s.ops[static_cast<std::size_t>(v.op)];
      const cut_option c = key.cuts[k][static_cast<std::size_t>(options[k])];
      part_of[static_cast<std::size_t>(x.op)] = part;
      for (int d = 0; d < grid_dimensions; ++d)
        if (c[static_cast<std::size_t>(d)] >= 0) cut(plan, x.op, c[static_cast<std::size_t>(d)], grid, d);
      run_again(plan, x, number, how);
      for (std::size_t w = 0; w < x.weights.size(); ++w) {
        const bool in_turns = shape_.micro_batches > 1 || how.in_turns(x);
        take_weight(plan, x.weights[w], c,
                    {-1, zero_of(v.op, static_cast<int>(w), v), grid, in_turns, x.weights[w].alone(), {}, {}, {}}, part, part_of);
      }
      take_sources(plan, x, c, grid, part, part_of);
    }
  }
  // Regions that run again: a block, or each of its parts that runs in turns.
  static constexpr void run_again(plan_base& plan, searched_op const& x, int segment, way_to_run how) {
    mode_name again("again.");
    const op_ref op{&plan.graph(), x.op};
    const bool turned = how.in_turns(x);
    if (turned) {
      dim const& along = x.info->dims[x.turns_along];
      mode_name turns(along.axis->name.substr(0, 12));
      turns.put("/");
      turns.put(segment);
      plan.op_trans(op, cut_axis{along.axis, how.turns, turns, along.letter}, 0);
      if (!how.rest) again.put(turns.view());
    }
    if (how.rest) again.put(segment);
    if (how.again && (turned || how.rest)) plan.op_trans(op, replicate{2, again.view()}, 0);
  }
  // A parameter lies as its first reader wants it, and so does what casts it.
  constexpr void take_weight(plan_base& plan, searched_weight const& w, cut_option const& c, zero_choice z, int part,
                             std::vector<int>& part_of) {
    graph_data const& g = plan.graph();
    auto place = [&](int op) {
      if (part_of[static_cast<std::size_t>(op)] >= 0) return false;
      part_of[static_cast<std::size_t>(op)] = part;
      return true;
    };
    const extents grid = z.grid;
    z.parameter = w.op;
    z.stage = w.alone() ? z.stage : std::min(z.stage, 2);
    z.read_through = w.read_through;
    z.outputs = w.outputs;
    const bool first = place(w.op);
    for (int d = 0; d < grid_dimensions; ++d) {
      const int letter = c[static_cast<std::size_t>(d)];
      if (letter < 0) continue;
      z.shared[d] = true;
      for (int a = 0; a < g.ops[w.op].info->outputs[0].rank; ++a)
        if (w.letter[a] == letter) {
          z.shared[d] = false;
          if (first) cut(plan, w.op, a, grid, d);
        }
    }
    each_output(w.outputs, [&](op_of_weight const& x) {
      if (place(x.op))
        cut_by_axes(plan, x, grid, [&](int d, int axis) {
          return c[static_cast<std::size_t>(d)] >= 0 && w.letter[axis] == c[static_cast<std::size_t>(d)];
        });
    });
    if (first && w.trained && z.stage > 0 && (z.shared[0] || z.shared[1])) zero_.push_back(z);
    for (int op : w.read_through) {
      if (!place(op)) continue;
      op_info const& f = *g.ops[op].info;
      for (int d = 0; d < grid_dimensions; ++d)
        for (int a = 0; a < g.ops[w.op].info->outputs[0].rank; ++a)
          if (c[static_cast<std::size_t>(d)] >= 0 && w.letter[a] == c[static_cast<std::size_t>(d)])
            for (int l = 0; l < f.dim_count; ++l)
              if (!f.dims[l].whole && f.dims[l].axis->id == g.ops[w.op].info->dims[a].axis->id) cut(plan, op, l, grid, d);
    }
  }
  template <class Visit> static constexpr void each_output(std::vector<given_out> const& outputs, Visit&& visit) {
    for (given_out const& out : outputs) {
      for (op_of_weight const& x : out.through) visit(x);
      visit(out);
    }
  }
  // Along those axes of its parameter that a dimension of the grid cuts.
  template <class Cuts>
  static constexpr void cut_by_axes(plan_base& plan, op_of_weight const& x, extents const& grid, Cuts&& cuts) {
    for (int d = 0; d < grid_dimensions; ++d)
      for (int l = 0; l < x.as.info->dim_count; ++l)
        if (x.as.letter[l] >= 0 && !x.as.info->dims[l].whole && cuts(d, x.as.letter[l])) cut(plan, x.op, l, grid, d);
  }
  // Inputs of the model lie as their first reader wants them. Of a batch that is cut in time every device gets all samples: those
  // that it runs do not follow one another, and cut among devices all would be gathered.
  constexpr void take_sources(plan_base& plan, searched_op const& x, cut_option const& c, extents const& grid, int part,
                              std::vector<int>& part_of) const {
    graph_data const& g = plan.graph();
    for (std::size_t i = 0; i < x.inputs.size(); ++i) {
      const int op = g.tensors[x.inputs[i].tensor].op;
      if (x.inputs[i].activation || x.inputs[i].weight >= 0 || part_of[static_cast<std::size_t>(op)] >= 0) continue;
      part_of[static_cast<std::size_t>(op)] = part;
      for (int d = 0; d < grid_dimensions; ++d)
        if (const int letter = c[static_cast<std::size_t>(d)]; letter >= 0 && !(x.is_batch[letter] && shape_.micro_batches > 1))
          if (const int axis = x.info->input(static_cast<int>(i)).find(letter); axis >= 0) cut(plan, op, axis, grid, d);
    }
  }
  static constexpr int first_part(graph_data const& g, int op, std::vector<int> const& part_of) {
    int first = -1;
    for (int reader = 0; reader < g.ops.size; ++reader)
      for (int i = 0; i < g.ops[reader].input_count; ++i)
        if (g.tensors[g.input(g.ops[reader], i)].op == op && part_of[static_cast<std::size_t>(reader)] >= 0 &&
            (first < 0 || part_of[static_cast<std::size_t>(reader)] < first))
          first = part_of[static_cast<std::size_t>(reader)];
    return first < 0 ? 0 : first;
  }
  constexpr void assign(plan_base& plan, std::vector<int> const& part_of) const {
    for (int part = 0; part < parts() + (shape_.schedule.spreads() ? 2 : 0); ++part) {
      selection here{&plan.graph(), {}, false};
      for (int op = 0; op < plan.graph().ops.size; ++op)
        if (part_of[static_cast<std::size_t>(op)] == part) here.ids.push(op);
      if (part < parts()) plan.op_assign(here, at{"stage", part % stages(), stages()}, 0);
      else plan.op_assign(here, phase{"spread", part == parts() ? 0 : stages()}, 0);
      if (chunks() > 1) plan.op_assign(here, phase{"chunk", part / stages()}, 0);
      const extents grid = grid_of(part);
      plan.op_assign(here, partita::grid{{modes[0], grid[0]}, {modes[1], grid[1]}}, 0);
    }
  }
  // As policy::zero does, for one parameter and the dimensions that hold replicas of it.
  constexpr void cut_updates(plan_base& plan, zero_choice const& z, std::vector<std::vector<int>> const& caused) const {
    graph_data const& g = plan.graph();
    int replicas = 1;
    for (int d = 0; d < grid_dimensions; ++d)
      if (z.shared[d]) replicas *= z.grid[static_cast<std::size_t>(d)];
    int axis = -1;
    for (int d = 0; d < grid_dimensions && axis < 0; ++d)
      if (z.shared[d]) axis = policy::detail::uncut_axis(plan, z.parameter, replicas, mode_name(modes[d]));
    if (axis < 0 || replicas < 2) return;
    if (z.stage == 3) return store_cut(plan, z, axis, caused);
    if (z.stage == 2 && !z.in_turns && z.alone)
      for (int through : z.read_through)
        for (int op : caused[static_cast<std::size_t>(through)])
          if (g.ops[op].when == pass::backward)  // what brings a gradient into the type that is stored
            cut_along(plan, op, g.ops[z.parameter].info->dims[axis].axis, z);
    for (int op : caused[static_cast<std::size_t>(z.parameter)]) {
      op_entry const& e = g.ops[op];
      if (e.when != pass::update || (z.stage == 1 && e.info->kind == "square_sum")) continue;
      for (int l = 0; l < e.info->dim_count; ++l)
        if (e.origin_dims[l] == axis) {
          cut_letter(plan, op, l, z);
          break;
        }
    }
  }
  // What brings the parameter into the type of use works on a part too. Updates, and gradients on their way back, inherit.
  constexpr void store_cut(plan_base& plan, zero_choice const& z, int axis, std::vector<std::vector<int>> const& caused) const {
    graph_data const& g = plan.graph();
    axis_info const* const along = g.ops[z.parameter].info->dims[axis].axis;
    auto cut_by_all = [&](int op, int letter) {
      for (int d = 0; d < grid_dimensions; ++d)
        if (z.shared[d] && z.grid[static_cast<std::size_t>(d)] > 1) cut(plan, op, letter, z.grid, d);
    };
    cut_by_all(z.parameter, axis);
    for (int op : z.read_through)
      for (int l = 0; l < g.ops[op].info->dim_count; ++l)
        if (g.ops[op].info->dims[l].axis->id == along->id && !g.ops[op].info->dims[l].whole) cut_by_all(op, l);
    each_output(z.outputs, [&](op_of_weight const& x) {
      cut_by_axes(plan, x, z.grid,
                  [&](int d, int a) { return z.shared[d] && z.grid[static_cast<std::size_t>(d)] > 1 && a == axis; });
    });
    if (!z.in_turns)
      for (int through : z.read_through)
        for (int op : caused[static_cast<std::size_t>(through)])
          if (g.ops[op].when == pass::backward) inherit(plan, op);  // terms are sent as they are made, and converted in pieces
    if (z.read_through.empty() && !z.in_turns) plan.op_trans(op_ref{&g, z.parameter}, replicate{2, "fetch"}, 0);
  }
  constexpr void cut_letter(plan_base& plan, int op, int letter, zero_choice const& z) const {
    inherit(plan, op);
    for (int d = 0; d < grid_dimensions; ++d)
      if (z.shared[d] && z.grid[static_cast<std::size_t>(d)] > 1) cut(plan, op, letter, z.grid, d);
  }
  constexpr void cut_along(plan_base& plan, int op, axis_info const* axis, zero_choice const& z) const {
    op_info const& f = *plan.graph().ops[op].info;
    int letter = -1, found = 0;
    for (int l = 0; l < f.dim_count; ++l)
      if (f.dims[l].axis->id == axis->id && !f.dims[l].whole) {
        letter = l;
        ++found;
      }
    if (found == 1) cut_letter(plan, op, letter, z);
  }

  Space const& space_;
  choice const& x_;
  configuration const& configuration_;
  shape_info const& shape_;
  std::vector<zero_choice> zero_;
};

}  // namespace partita::spaces

#include <partita/core/end_planning_code.hpp>
