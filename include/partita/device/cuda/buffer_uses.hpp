// How many instructions of a program read and write each of its buffers.
#pragma once
#include <cstddef>

#include <partita/core/list.hpp>
#include <partita/program/program.hpp>

namespace partita::on_cuda {

struct buffer_uses {
  int readers = 0, writers = 0;
};
inline list<buffer_uses> count_uses(program const& p) {
  list<buffer_uses> all(p.buffers.size());
  for (instruction const& i : p.instructions)
    for (int k = 0; k < i.read_count + i.write_count; ++k) {
      buffer_uses& of = all[static_cast<std::size_t>(p.accesses[static_cast<std::size_t>(i.first_access + k)])];
      ++(k < i.read_count ? of.readers : of.writers);
    }
  return all;
}
// One instruction makes it, one other takes it, and nobody outside of the program sees it.
inline bool is_passed_on(buffer const& b, buffer_uses const& of) {
  return b.where == region::arena && !b.to_end && !b.from_start && of.readers == 1 && of.writers == 1;
}

}  // namespace partita::on_cuda
