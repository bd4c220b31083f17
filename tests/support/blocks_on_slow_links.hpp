// A small model of blocks, and a cluster on which a search has to weigh its ways against each other.
#pragma once
#include "block_model.hpp"

namespace partita::testing::blocks_on_slow_links {

// With an output layer that takes as long as some blocks.
using model = block_model<block_axes<16, 32, 512, 32, 128>, 6, output_table::its_own>;
using trained = training<model, adamw>;

// Links and devices of about equal weight for a small model; links so many times slower.
inline cluster slow_cluster(double slow = 1) {
  cluster c = preset::dgx_a100(1);
  c.devices[0].count = 4;
  c.kinds[0].flops = {{"f32", 1e9}};
  c.kinds[0].memory_bandwidth = 1e9;
  c.kinds[0].flops_efficiency.reset();
  c.kinds[0].memory_efficiency.reset();
  c.links[0].seconds_per_byte = slow * 1e-9;
  return c;
}

}  // namespace partita::testing::blocks_on_slow_links
