// Compiled once for the quick, full and long tests of random plans.
#include "../support/plan_trial.hpp"

namespace partita::testing {

trial_result run_trial(unsigned seed, trial_options how) {
  if (seed % 2 != 0) return plan_trial<trial_double>(seed, how).run();
  trial_options once = how;
  once.minimise = false;
  const trial_result r = plan_trial<trial_single>(seed, once).run();
  if (r.fault.empty()) return r;
  if (r.worst > 1) {
    // Is it rounding? The same pair in double has as much of it, 29 bits lower. The bounds are 1e-5 and 1e-11 of the
    // largest gradient; ten times that is granted, since rounding is a matter of chance.
    trial_result d = plan_trial<trial_double>(seed, once).run();
    if (d.fault.empty() && r.worst * 1e-5 <= 10 * d.worst * 1e-11 * 0x1p29) return d;
  }
  return how.minimise ? plan_trial<trial_single>(seed, how).run() : r;
}

}  // namespace partita::testing
