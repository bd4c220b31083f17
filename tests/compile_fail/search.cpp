// A search while compiling that finds nothing.
#include <partita/ops/cross_entropy.hpp>
#include <partita/ops/linear.hpp>
#include <partita/search/at_compile_time.hpp>

namespace pt = partita;

struct batch : pt::axis<"batch", 32> {};
struct in : pt::axis<"in", 784> {};
struct label : pt::axis<"class", 10> {};

struct model {
  constexpr auto operator()(auto& g) const {
    auto x = pt::input<pt::f32, batch, in>(g, "x");
    auto y = pt::input<pt::i32, batch>(g, "y");
    return pt::cross_entropy(pt::linear(x, pt::param<pt::f32, in, label>(g, "fc.weight")), y);
  }
};
struct machine {
#if MISTAKE == 1
  static constexpr pt::plain_machine of{.memory = 1000};  // expect 1: mistake::no_plan_of_these_constraints_fits_the_memory_of_the_machine<model, machine>
#else
  static constexpr pt::plain_machine of{.memory = 1e9};
#endif
};
#if MISTAKE == 2
// expect 2: mistake::too_many_tables_for_compile_time_so_give_fewer_devices_per_stage_micro_batches_schedules_or_zero<
using only = pt::only::axes<"*", batch>;
template <class Only> using found = pt::searched_at_compile_time<model, machine, 1024, Only>;
#elif MISTAKE == 3
// expect 3: mistake::a_constraint_names_what_the_model_does_not_have<model>
using only = pt::only::axes<"fb", batch>;
template <class Only> using found = pt::searched_at_compile_time<model, machine, 2, Only>;
#elif MISTAKE == 4
// expect 4: mistake::interleaved_interlaced_own_orders_and_coshard_are_searched_at_run_time<model>
using only = pt::only::schedules<pt::schedule_kind::interleaved>;
template <class Only> using found = pt::searched_at_compile_time<model, machine, 2, Only>;
#else
using only = pt::only::axes<"*", batch>;
template <class Only> using found = pt::searched_at_compile_time<model, machine, 4, Only, pt::only::micro_batches<1>>;
#endif
static_assert(pt::verify<model, found<only>>());
