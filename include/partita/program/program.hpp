// The program of one rank: instructions in two lanes over buffers whose addresses are planned. It is what an executor
// runs, the simulator times and the report draws.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

#include <partita/core/list.hpp>
#include <partita/model/graph_entries.hpp>

namespace partita {

enum class lane : std::uint8_t { compute, communication };

enum class instruction_kind : std::uint8_t {
  compute,     // an op on a piece
  chain,       // ops, each on the rows that the one before has just made
  copy,        // boxes copied, or combined, between buffers of this rank
  fill,        // a buffer set to one value
  all_reduce,  // in place
  all_gather,  // pieces in member order, contiguous
  reduce_scatter,
  all_to_all,
  exchange  // grouped sends and receives
};

enum class region : std::uint8_t {
  state,  // parameters, optimizer state, constants: kept over steps
  arena,  // everything else: planned by liveness
};
struct buffer {
  std::size_t bytes = 0;
  dtype type = f32;
  region where = region::arena;
  int tensor = -1;            // of the graph, for reports; -1: staging or scratch
  std::size_t offset = 0;     // in its region
  int first = -1, last = -1;  // positions in `instructions` between which it is live
  bool from_start = false;    // filled before the first instruction (inputs)
  bool to_end = false;        // read after the last one (outputs)
};
struct reference {  // a place inside a buffer
  int buffer = -1;
  std::size_t offset = 0;  // bytes
};

// A box inside a dense row-major array, as strides: `rank` loops over `extents` elements.
struct box_copy {
  reference from, to;
  int rank = 0;
  std::size_t extents[max_rank]{}, from_strides[max_rank]{}, to_strides[max_rank]{};  // elements
  bool combine = false;  // to = reduce(to, from) instead of to = from
  reduction reduce = reduction::sum;
};
struct compute_call {
  int op = -1;
  int first_input = 0, input_count = 0;                                      // into program::references
  int first_output = 0, output_count = 0;                                    // into program::references
  std::size_t extents[max_dims]{}, offsets[max_dims]{}, wholes[max_dims]{};  // per letter
  bool accumulate = false;
  reference scratch{};
};
// Ops whose operands share their first axes run tile by tile over these, so that what one makes is in the cache when the
// next reads it. What nobody else reads never leaves the tile.
enum class tile_operand : std::uint8_t { whole, rows, internal };
struct chain_link {
  int compute = -1;                                   // into program::computes
  signed char letters[max_rank]{};                    // of the op: those of the shared axes
  tile_operand operands[max_inputs + max_outputs]{};  // inputs, then outputs
  std::size_t row_bytes[max_inputs + max_outputs]{};  // rows: from one row to the next
  std::size_t slots[max_inputs + max_outputs]{};      // internal: where in the tile's scratch
};
struct chain_call {
  int first_link = 0, link_count = 0;        // into program::links
  int depth = 0;                             // shared axes; all but the last are taken one index at a time
  std::size_t outer[max_rank]{}, inner = 0;  // extents of the shared axes
  std::size_t tile_rows = 0;                 // of the last shared axis
  reference scratch{};                       // for each worker as much as a tile's internal operands take
  std::size_t scratch_bytes = 0;             // of one worker
};
struct fill_call {
  reference to;
  std::size_t elements = 0;
  double value = 0;
};
struct collective_call {
  int group = -1;                    // into program::groups
  reference from, to;                // all_reduce: `to` alone
  list<std::size_t> counts;          // all_reduce: one; else elements per member (all_to_all: sent to each)
  list<std::size_t> receive_counts;  // all_to_all
  reduction reduce = reduction::sum;
  int step = 0;  // of its move: the same number on all ranks
};
struct transfer {
  int peer = 0;
  reference at;
  std::size_t bytes = 0;
  std::uint64_t tag = 0;
};
struct exchange_call {
  list<transfer> sends, receives;
  int step = 0;  // of its move
};

struct instruction {
  instruction_kind kind = instruction_kind::compute;
  lane where = lane::compute;
  dtype type = f32;
  int node = -1, index = 0;          // of the completed plan, for names and reports
  int payload = -1;                  // into the table of its kind
  int call_count = 1;                // collectives: so many, from the payload on, made as one; `node` is of the first
  int first_box = 0, box_count = 0;  // copy: into program::boxes
  int wait = 0;                      // starts when the other lane has completed so many instructions
  // Which buffers it touches: into program::accesses, reads first, then writes.
  int first_access = 0, read_count = 0, write_count = 0;
};

// A tensor, or a piece of one, that the world outside the program sees: inputs, outputs, parameters, state, gradients.
struct outside {
  int tensor = -1;
  reference at;
  int rank = 0;
  std::size_t begin[max_rank]{}, extents[max_rank]{}, whole[max_rank]{};  // the box in the whole tensor
};

struct program {
  int rank = 0;
  list<instruction> instructions;  // one order; each lane runs its part of it
  list<buffer> buffers;
  list<reference> references;
  list<int> accesses;  // buffer ids
  list<compute_call> computes;
  list<chain_call> chains;
  list<chain_link> links;
  list<box_copy> boxes;
  list<fill_call> fills;
  list<collective_call> collectives;
  list<exchange_call> exchanges;
  list<list<int>> groups;                            // sorted ranks; the same list in every rank's program
  list<outside> inputs, outputs, stored, gradients;  // stored: parameters, state and constants
  std::size_t arena_bytes = 0, state_bytes = 0;
  std::uint64_t digest = 0;  // of graph, plan and order: equal on all ranks
};

}  // namespace partita
