// What a plan would take on the CPU devices of this machine, as pt::trainer would run it:
//   pt::simulation s = pt::simulate_on_host(plan, pt::costs(pt::host_cluster(measured), measured));
#pragma once
#include <memory>
#include <utility>

#include <partita/device/cpu/backend.hpp>
#include <partita/simulate/simulate.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

struct host_options {
  int threads = 1;   // of each device
  bool fuse = true;  // as pt::trainer_options has them
  bool keep_gradients = true;
};

// The programs are the trainer's: with the scratch that kernels want, in the order that its default rates make, and in the
// lanes that its devices run where every core has one. Throws error where the plan does not verify.
template <class Model> simulation simulate_on_host(plan<Model> const& p, costs const& k, host_options const& how = {}) {
  using kernels = recorder<on_cpu::backend, as_training<Model>>;
  struct everything {
    explicit everything(plan<Model> const& q) : made(q) {}
    plan<Model> made;
    kernels traced;  // the same ops in the same order as the plan's own trace
    completed done;
    std::unique_ptr<lowering> shared;
  };
  auto all = std::make_shared<everything>(p);
  for (binding const& b : p.traced().bindings) all->traced.bindings.push(b);
  trace(all->traced, p.model());
  if (const finding f = verify_plan(all->made.traced(), all->made, all->done, false)) throw error(describe(f));
  check_extents(all->made.traced());
  lowering_options options;
  options.keep_gradients = how.keep_gradients;
  options.fuse = how.fuse;
  options.workers = how.threads;
  options.workspace = [a = all.get(), workers = static_cast<std::size_t>(how.threads)](int op, std::size_t const* extents) {
    return a->traced.launchers[op].workspace(*a->traced.ops[op].info, extents, workers);
  };
  all->shared = std::make_unique<lowering>(all->made.traced(), all->made, all->done, std::move(options));
  simulation s = simulate(*all->shared, k, simulate_options{.lanes = 0, .seconds = {}});
  s.lowered = std::shared_ptr<lowering const>(all, all->shared.get());
  return s;
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
