// What planning needs, and nothing else: models, gradients, plans, policies. Boost.Hana is the one library behind it.
#pragma once
#include <partita/ops/ops.hpp>
#include <partita/plan/typed_plan.hpp>
#include <partita/policy/compose.hpp>
#include <partita/policy/context_parallel.hpp>
#include <partita/policy/coshard.hpp>
#include <partita/policy/data_parallel.hpp>
#include <partita/policy/expert_parallel.hpp>
#include <partita/policy/interlaced_pipeline.hpp>
#include <partita/policy/narrow_sums.hpp>
#include <partita/policy/pipeline.hpp>
#include <partita/policy/recompute.hpp>
#include <partita/policy/sequence_parallel.hpp>
#include <partita/policy/tensor_parallel.hpp>
#include <partita/policy/zero.hpp>
