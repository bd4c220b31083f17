// Instructions moved next to the product that can take them in (device/cuda/epilogues.hpp), before memory is planned.
#pragma once
#include <algorithm>
#include <cstddef>
#include <span>

#include <partita/device/cuda/launcher.hpp>
#include <partita/program/program.hpp>

namespace partita::on_cuda {

// Between a product of the backward pass and the gradient of gelu that reads it stands the gradient of the product's weight: what
// moves ahead of it reads nothing that it makes. The order within the other lane stays as it is.
class follower_gatherer {
 public:
  follower_gatherer(program& p, std::span<launcher const> launchers) : p_(p), launchers_(launchers) {}
  void run() {
    for (std::size_t at = 0; at < p_.instructions.size(); ++at) {
      if (!is(at, after_product::gelu_gradient)) continue;
      const std::size_t place = move_behind_maker(at);
      if (place == 0 || maker_of(place) != place - 1) continue;
      write_early(place - 1, place);
      for (std::size_t next = place + 1; next < p_.instructions.size(); ++next)
        if (is(next, after_product::sums_rows) && maker_of(next) == place) {
          if (move_behind_maker(next) == place + 1) write_early(place - 1, place + 1);
          break;
        }
    }
  }

 private:
  static constexpr std::size_t none = ~std::size_t{0};
  bool is(std::size_t at, after_product what) const {
    instruction const& i = p_.instructions[at];
    if (i.kind != instruction_kind::compute || i.where != lane::compute) return false;
    compute_call const& c = p_.computes[static_cast<std::size_t>(i.payload)];
    return !c.accumulate && launchers_[static_cast<std::size_t>(c.op)].after == what;
  }
  std::span<int const> accesses(instruction const& i, bool writes) const {
    return std::span<int const>(p_.accesses.data(), p_.accesses.size())
        .subspan(static_cast<std::size_t>(i.first_access + (writes ? i.read_count : 0)),
                 static_cast<std::size_t>(writes ? i.write_count : i.read_count));
  }
  static bool meet(std::span<int const> a, std::span<int const> b) {
    return std::any_of(a.begin(), a.end(), [&](int x) { return std::find(b.begin(), b.end(), x) != b.end(); });
  }
  // The last instruction that writes input 0.
  std::size_t maker_of(std::size_t at) const {
    compute_call const& c = p_.computes[static_cast<std::size_t>(p_.instructions[at].payload)];
    const int id = p_.references[static_cast<std::size_t>(c.first_input)].buffer;
    for (std::size_t before = at; before-- > 0;) {
      const auto written = accesses(p_.instructions[before], true);
      if (std::find(written.begin(), written.end(), id) != written.end()) return before;
    }
    return none;
  }
  // Where it stands then.
  std::size_t move_behind_maker(std::size_t at) {
    const std::size_t maker = maker_of(at);
    if (maker == none || p_.instructions[maker].where != lane::compute) return at;
    instruction const& mine = p_.instructions[at];
    for (std::size_t between = maker + 1; between < at; ++between) {
      instruction const& other = p_.instructions[between];
      if (meet(accesses(mine, true), accesses(other, true)) || meet(accesses(mine, true), accesses(other, false)) ||
          meet(accesses(mine, false), accesses(other, true)))
        return at;
    }
    std::rotate(p_.instructions.begin() + maker + 1, p_.instructions.begin() + at, p_.instructions.begin() + at + 1);
    return maker + 1;
  }

  // What `later` makes may be made by `early`: so it lies where neither reads.
  void write_early(std::size_t early, std::size_t later) {
    instruction& i = p_.instructions[early];
    const int first = static_cast<int>(p_.accesses.size());
    for (int k = 0; k < i.read_count + i.write_count; ++k) {
      const int id = p_.accesses[static_cast<std::size_t>(i.first_access + k)];
      p_.accesses.push_back(id);
    }
    for (int k = 0; k < p_.instructions[later].write_count; ++k) {
      const int id =
          p_.accesses[static_cast<std::size_t>(p_.instructions[later].first_access + p_.instructions[later].read_count + k)];
      p_.accesses.push_back(id);
      ++i.write_count;
    }
    i.first_access = first;
  }

  program& p_;
  std::span<launcher const> launchers_;
};

inline void gather_followers(program& p, std::span<launcher const> launchers) { follower_gatherer(p, launchers).run(); }

}  // namespace partita::on_cuda
