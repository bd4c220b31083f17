// Whether the processes of a training were given the same, before the first step: a mistake there would be a hang.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string_view>

#include <partita/comm/processes.hpp>
#include <partita/core/list.hpp>
#include <partita/core/words.hpp>

namespace partita::detail {

struct common {
  std::string_view name;
  std::uint64_t value;
};

// Throws error on every process where one differs from process 0.
inline void check_same(processes& together, list<common> const& mine) {
  list<std::uint64_t> values;
  for (common const& each : mine) values.push_back(each.value);
  const auto all = gather_lists(together, values, "what is trained");
  for (std::size_t p = 1; p < all.size(); ++p)
    for (std::size_t i = 0; i < mine.size(); ++i)
      if (all[p][i] != all[0][i])
        throw_error({"process ", p, " was given another ", mine[i].name,
                     " than process 0; give every process the same program and the same arguments"});
}

}  // namespace partita::detail
