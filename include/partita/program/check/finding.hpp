// What is wrong with programs, as a value.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <partita/core/words.hpp>

namespace partita {

enum class program_fault : std::uint8_t {
  none,
  malformed,        // a number that points outside its table, counts that contradict each other
  out_of_bounds,    // a place outside its buffer, a buffer outside its region
  ranks_disagree,   // digest, groups, attributes or random keys differ between ranks
  calls_disagree,   // the members of one collective call, or the two ends of a message, say different things
  deadlock,         // some ranks wait for ever
  race,             // two lanes use the same bytes, one of them writes, and neither waits for the other
  shared_bytes,     // bytes that two buffers need at the same time, or that an instruction overwrites while it reads them
  wrong_piece,      // an op is called for what is no piece of it
  wrong_type,       // elements of one type are used as another
  undefined,        // what is read was never written
  wrong_contents,   // what is read is another tensor, or another part of it
  incomplete,       // a partial result is used as if it were whole
  counted_twice,    // a sum has one of its pieces more than once
  wrong_reduction,  // partial results are combined in another way than the op's
  not_renewed,      // after the step a stored tensor is not what the next step starts from
  missing           // no rank stores, or gives out, some part of a tensor
};
constexpr std::string_view name_of(program_fault f) {
  constexpr std::string_view names[]{"none",        "malformed",      "out of bounds", "ranks disagree", "calls disagree",
                                     "deadlock",    "race",           "shared bytes",  "wrong piece",    "wrong type",
                                     "undefined",   "wrong contents", "incomplete",    "counted twice",  "wrong reduction",
                                     "not renewed", "missing"};
  return names[static_cast<int>(f)];
}

struct program_finding {
  program_fault what = program_fault::none;
  int rank = -1, instruction = -1;  // -1: of no single one; an instruction: its position in the rank's list
  std::string words;                // what, where, what to look at
  explicit operator bool() const { return what != program_fault::none; }
};

namespace detail::checking {
// Thrown inside the check and caught where it returns.
struct stop {
  program_finding found;
};
[[noreturn, gnu::noinline, gnu::cold]] inline void fail(program_fault what, int rank, int instruction, std::string words) {
  throw stop{{what, rank, instruction, std::move(words)}};
}
}  // namespace detail::checking

}  // namespace partita
