// Instructions moved next to the product that can take them in (device/cuda/epilogues.hpp), before memory is planned.
#pragma once
#include <algorithm>
#include <cstddef>
#include <span>

#include <partita/core/list.hpp>
#include <partita/device/cuda/buffer_uses.hpp>
#include <partita/device/cuda/epilogues.hpp>
#include <partita/device/cuda/launcher.hpp>
#include <partita/device/cuda/products.hpp>
#include <partita/program/memory.hpp>
#include <partita/program/program.hpp>

namespace partita::on_cuda {

// Between a product of the backward pass and the gradient of gelu that reads it stands the gradient of the product's weight: what
// moves ahead of it reads nothing that it makes. The order within the other lane stays as it is. No instruction has more bytes
// live than the one before with the most: the gradient of gelu is made in the place of what it reads, and what is made earlier
// than it was, the sum of its rows, only where there is room.
class follower_gatherer {
 public:
  follower_gatherer(program& p, graph_data const& graph, std::span<launcher const> launchers)
      : p_(p), graph_(&graph), launchers_(launchers), uses_(count_uses(p)) {}
  void run() {
    for (std::size_t at = 0; at < p_.instructions.size(); ++at) {
      if (!is(at, after_product::gelu_gradient)) continue;
      const std::size_t maker = maker_of(at);
      if (maker == none || !may_move(at, maker + 1)) continue;
      const product what = taking_in(maker, at);
      if (what.n == 0) continue;
      if (live_.empty()) find_live_bytes();
      make_in_place(maker, at);
      move(at, maker + 1);
      live_[maker + 1] = live_[maker];
      gather_sums(maker, what.n * size_of(what.type));
    }
  }

 private:
  static constexpr std::size_t none = epilogue_finder::none;
  compute_call const& call(std::size_t at) const { return p_.computes[static_cast<std::size_t>(p_.instructions[at].payload)]; }
  bool is_compute(std::size_t at) const {
    instruction const& i = p_.instructions[at];
    return i.kind == instruction_kind::compute && i.where == lane::compute && !call(at).accumulate;
  }
  bool is(std::size_t at, after_product what) const {
    return is_compute(at) && launchers_[static_cast<std::size_t>(call(at).op)].after == what;
  }
  reference& input(std::size_t at, int k = 0) { return p_.references[static_cast<std::size_t>(call(at).first_input + k)]; }
  reference& output(std::size_t at) { return p_.references[static_cast<std::size_t>(call(at).first_output)]; }
  buffer const& buffer_at(reference const& r) const { return p_.buffers[static_cast<std::size_t>(r.buffer)]; }
  std::span<int> accesses(instruction const& i, bool writes) const {
    return std::span<int>(p_.accesses.data(), p_.accesses.size())
        .subspan(static_cast<std::size_t>(i.first_access + (writes ? i.read_count : 0)),
                 static_cast<std::size_t>(writes ? i.write_count : i.read_count));
  }
  static bool meet(std::span<int const> a, std::span<int const> b) {
    return std::any_of(a.begin(), a.end(), [&](int x) { return std::find(b.begin(), b.end(), x) != b.end(); });
  }
  // The last instruction that writes input 0.
  std::size_t maker_of(std::size_t at) {
    const int id = input(at).buffer;
    for (std::size_t before = at; before-- > 0;) {
      const auto written = accesses(p_.instructions[before], true);
      if (std::find(written.begin(), written.end(), id) != written.end()) return before;
    }
    return none;
  }
  // The product `maker`, where it can take in the gradient of gelu at `at`, which alone reads it; else one of nothing.
  product taking_in(std::size_t maker, std::size_t at) {
    if (!is_compute(maker) || call(maker).output_count != 1) return {};
    reference const &made = output(maker), &dy = input(at, 0), &x = input(at, 1), &to = output(at);
    buffer const &from = buffer_at(made), &target = buffer_at(to);
    if (made.buffer != dy.buffer || made.buffer == x.buffer || made.offset != 0 || dy.offset != 0 || to.offset != 0) return {};
    if (!is_passed_on(from, uses_[static_cast<std::size_t>(made.buffer)])) return {};
    if (target.where != region::arena || target.from_start || target.bytes != from.bytes || target.type != from.type ||
        uses_[static_cast<std::size_t>(to.buffer)].writers != 1)
      return {};
    const product what = product_of(call(maker));
    if (what.m * what.n * size_of(what.type) != from.bytes || what.k == 0 || !may_take_more(what)) return {};
    product_shape shape = shape_of(what);
    shape.gelu_gradient = true;
    return shape.has_possible_epilogue() ? what : product{};
  }
  // The product that a call is, where it is one and nothing else; else one of nothing.
  product product_of(compute_call const& c) const {
    launcher const& l = launchers_[static_cast<std::size_t>(c.op)];
    if (l.record == nullptr) return {};
    alignas(64) std::byte nowhere[64];  // ops count from where their scratch begins, and follow nothing here
    kernel_arguments a;
    const step_context step;
    a.scratch = nowhere;
    a.input_count = c.input_count;
    a.info = *graph_->ops[c.op].info;
    a.given = graph_->ops[c.op].given;
    a.step = &step;
    std::copy_n(c.extents, max_dims, a.extents);
    std::copy_n(c.offsets, max_dims, a.offsets);
    std::copy_n(c.wholes, max_dims, a.wholes);
    recording r;
    l.record(a, r);
    return r.count == 1 && r.steps[0].is_product && r.steps[0].loop_count == 0 ? r.steps[0].multiply : product{};
  }

  bool may_move(std::size_t at, std::size_t to) const {
    instruction const& mine = p_.instructions[at];
    for (std::size_t between = to; between < at; ++between) {
      instruction const& other = p_.instructions[between];
      if (meet(accesses(mine, true), accesses(other, true)) || meet(accesses(mine, true), accesses(other, false)) ||
          meet(accesses(mine, false), accesses(other, true)))
        return false;
    }
    return true;
  }
  void move(std::size_t at, std::size_t to) {
    const auto rotate = [&](auto& all) {
      const auto begin = all.begin();
      std::rotate(begin + static_cast<std::ptrdiff_t>(to), begin + static_cast<std::ptrdiff_t>(at),
                  begin + static_cast<std::ptrdiff_t>(at) + 1);
    };
    rotate(p_.instructions);
    rotate(live_);
  }
  // By instruction: at most so many bytes of the arena.
  void find_live_bytes() {
    partita::detail::memory::find_lives(p_);
    list<partita::detail::memory::life> lives;
    for (buffer const& b : p_.buffers)
      if (b.where == region::arena && b.bytes > 0 && b.first >= 0)
        lives.push_back({partita::detail::memory::aligned(b.bytes), b.first, b.last});
    live_ = partita::detail::memory::live_bytes(lives);
    live_.resize(p_.instructions.size());
    most_ = *std::max_element(live_.begin(), live_.end());
  }
  // What `at` reads is made where `at` writes, whose buffer lives from then on: two of the same size are one.
  void make_in_place(std::size_t maker, std::size_t at) {
    const reference to = output(at), from = output(maker);
    for (int& id : accesses(p_.instructions[maker], true))
      if (id == from.buffer) id = to.buffer;
    for (int& id : accesses(p_.instructions[at], false))
      if (id == from.buffer) id = to.buffer;
    output(maker) = input(at) = to;
  }
  // The sum, of so many bytes, of the rows of the gradient of gelu that stands behind `maker`.
  void gather_sums(std::size_t maker, std::size_t bytes) {
    const std::size_t slope = maker + 1;
    const int rows = output(slope).buffer;
    for (std::size_t at = slope + 1; at < p_.instructions.size(); ++at) {
      if (!is(at, after_product::sums_rows) || input(at).buffer != rows) continue;
      compute_call const& sums = call(at);
      const int made = output(at).buffer;
      if (partita::detail::elements(graph_->ops[sums.op].info->outputs[0], sums.extents) * size_of(p_.instructions[at].type) !=
          bytes)
        return;
      const auto room = [&](std::size_t here, std::size_t wanted) { return live_[here] + wanted <= most_; };
      const std::size_t more = aligned_bytes(made), scratch = sums.scratch.buffer < 0 ? 0 : aligned_bytes(sums.scratch.buffer);
      bool fits = room(slope, more + scratch);
      for (std::size_t before = maker; before < at; ++before) fits = fits && room(before, more);
      if (!fits || maker_of(at) != slope || !may_move(at, slope + 1)) return;
      write_early(p_.instructions[maker], made);
      move(at, slope + 1);
      live_[slope + 1] = live_[slope] + scratch;
      for (std::size_t between = maker; between <= at; ++between) live_[between] += more;
      return;
    }
  }
  std::size_t aligned_bytes(int id) const {
    return partita::detail::memory::aligned(p_.buffers[static_cast<std::size_t>(id)].bytes);
  }
  // What a later instruction makes may be made by `early`: so it lies where neither reads.
  void write_early(instruction& early, int made) {
    list<int> all;
    for (const bool writes : {false, true})
      for (int id : accesses(early, writes)) all.push_back(id);
    all.push_back(made);
    early.first_access = static_cast<int>(p_.accesses.size());
    ++early.write_count;
    p_.accesses.append(all);
  }

  program& p_;
  graph_data const* graph_;
  std::span<launcher const> launchers_;
  list<buffer_uses> uses_;  // of the program as it was
  list<std::size_t> live_;  // by instruction
  std::size_t most_ = 0;    // of live_, before
};

inline void gather_followers(program& p, graph_data const& graph, std::span<launcher const> launchers) {
  follower_gatherer(p, graph, launchers).run();
}

}  // namespace partita::on_cuda
