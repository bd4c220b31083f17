// Profiles of the CPU devices at hand:
//   pt::profile p = pt::measure<gpt>(pt::cpu{.devices = 2}, {}, pt::bind<sample>(32));
//   p.save("profile.json");
// The model says which ops, in which sizes; its own ops are measured like the library's.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <partita/grad/training.hpp>
#include <partita/model/extents.hpp>
#include <partita/plan/typed_plan.hpp>
#include <partita/profile/measure.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

namespace on_cpu::detail {

// Of the machine, in bytes; 8 GiB where the system does not say.
inline double physical_memory() {
#if defined(PARTITA_MAPPED_MEMORY) && defined(_SC_PHYS_PAGES)
  const double pages = static_cast<double>(sysconf(_SC_PHYS_PAGES)), page = static_cast<double>(sysconf(_SC_PAGESIZE));
  if (pages > 0 && page > 0) return pages * page;
#endif
  return 8.0 * (1 << 30);
}
inline std::vector<std::size_t> transfer_sizes() { return {64, 1024, 8 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20}; }
// `f(device, rank, bytes)` over the sizes; places are taken anew for every run.
template <class Call> transfer_profile measure_transfer(bench& b, std::string kind, int members, int repetitions, Call call) {
  transfer_profile t{std::move(kind), members, {}};
  for (std::size_t bytes : transfer_sizes()) {
    std::vector<std::pair<std::byte*, std::byte*>> places(static_cast<std::size_t>(b.size()));
    const double seconds = b.measure(
        repetitions,
        [&](bench::device& d, int rank) {
          d.inputs.reserve(bytes);
          d.outputs.reserve(bytes);
          places[static_cast<std::size_t>(rank)] = {d.inputs.take(bytes), d.outputs.take(bytes)};
        },
        [&](bench::device& d, int rank) {
          auto const& [from, to] = places[static_cast<std::size_t>(rank)];
          call(d, rank, from, to, bytes);
        });
    t.samples.push_back({static_cast<double>(bytes), seconds});
  }
  return t;
}
inline std::vector<transfer_profile> measure_transfers(bench& b, int repetitions) {
  std::vector<transfer_profile> all;
  const std::size_t n = static_cast<std::size_t>(b.size());
  // "copy": bytes read and bytes written together, as costs count them.
  all.push_back(
      measure_transfer(b, "copy", 1, repetitions, [](bench::device& d, int, std::byte* from, std::byte* to, std::size_t bytes) {
        box_copy box;
        box.rank = 1;
        box.extents[0] = bytes / 2 / sizeof(float);
        box.from_strides[0] = box.to_strides[0] = 1;
        copy_box(box, f32, from, to, d.team.size() > 1 ? &d.team : nullptr);
      }));
  if (n < 2) return all;
  const int members = b.size();
  auto counts = [n](std::size_t bytes) {
    return std::vector<std::size_t>(n, std::max<std::size_t>(1, bytes / sizeof(float) / n));
  };
  all.push_back(measure_transfer(b, "all_reduce", members, repetitions,
                                 [](bench::device& d, int, std::byte*, std::byte* to, std::size_t bytes) {
                                   d.comm.all_reduce(0, to, bytes / sizeof(float), f32, reduction::sum);
                                 }));
  all.push_back(measure_transfer(b, "all_gather", members, repetitions,
                                 [=](bench::device& d, int, std::byte* from, std::byte* to, std::size_t bytes) {
                                   d.comm.all_gather(0, from, to, counts(bytes), f32);
                                 }));
  all.push_back(measure_transfer(b, "reduce_scatter", members, repetitions,
                                 [=](bench::device& d, int, std::byte* from, std::byte* to, std::size_t bytes) {
                                   d.comm.reduce_scatter(0, from, to, counts(bytes), f32, reduction::sum);
                                 }));
  // What all members together hold.
  all.push_back(measure_transfer(
      b, "all_to_all", members, repetitions, [=](bench::device& d, int, std::byte* from, std::byte* to, std::size_t bytes) {
        const std::vector<std::size_t> each(n, std::max<std::size_t>(1, bytes / sizeof(float) / n / n));
        d.comm.all_to_all(0, from, each, to, each, f32);
      }));
  all.push_back(measure_transfer(
      b, "exchange", 2, repetitions, [n](bench::device& d, int rank, std::byte* from, std::byte* to, std::size_t bytes) {
        const int size = static_cast<int>(n);
        const message out{(rank + 1) % size, from, bytes, 0}, in{(rank + size - 1) % size, to, bytes, 0};
        d.comm.exchange({&out, 1}, {&in, 1});
      }));
  all.push_back(measure_transfer(b, "send", 2, repetitions,
                                 [n](bench::device& d, int rank, std::byte* from, std::byte* to, std::size_t bytes) {
                                   const message out{rank + 1, from, bytes, 0}, in{rank - 1, to, bytes, 0};
                                   if (rank % 2 == 0 && rank + 1 < static_cast<int>(n)) d.comm.exchange({&out, 1}, {});
                                   else if (rank % 2 == 1) d.comm.exchange({}, {&in, 1});
                                 }));
  return all;
}

}  // namespace on_cpu::detail

// Of a traced graph and its kernels. `devices` of so many threads work at the same time, as they would in a step.
inline profile measure(graph_data const& g, std::span<on_cpu::launcher const> kernels, cpu devices,
                       measure_options const& how = {}) {
  check_extents(g);
  profile p;
  p.format = "partita profile";
  p.version = profile_file_version;
  p.machine = words({std::thread::hardware_concurrency(), " cores"});
  p.devices = std::max(1, devices.devices);
  p.threads =
      devices.threads > 0 ? devices.threads : std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / p.devices);
  p.memory = on_cpu::detail::physical_memory() / p.devices;
  on_cpu::bench b(p.devices, p.threads, how.pool);
  const auto begin = on_cpu::bench::clock::now();
  p.transfers = on_cpu::detail::measure_transfers(b, how.repetitions);
  std::map<std::string, std::size_t> known;
  for (piece_to_measure const& piece : pieces_to_measure(g, how.most_batches)) {
    if (std::chrono::duration<double>(on_cpu::bench::clock::now() - begin).count() > how.seconds) break;
    const auto [at, fresh] = known.emplace(piece.key, p.ops.size());
    if (fresh) p.ops.push_back({piece.key, {}, {}});
    const op_sample s = on_cpu::detail::measure_piece(b, g, kernels[static_cast<std::size_t>(piece.op)], piece, how.repetitions);
    (piece.tile ? p.ops[at->second].tiles : p.ops[at->second].samples).push_back(s);
    const op_work w = work_of(*g.ops[piece.op].info, piece.extents);
    if (w.product && !piece.tile) {
      double& best = p.flops[std::string(name_of(w.type))];
      best = std::max(best, w.flops / s.seconds);
    }
  }
  return p;
}

// Of a model: traces it with its kernels, at the extents that are bound.
template <class Model>
profile measure(cpu devices, as_training<Model> const& model, measure_options const& how, std::vector<binding> const& extents) {
  auto g = std::make_unique<recorder<on_cpu::backend, as_training<Model>>>();
  for (binding const& b : extents) g->bindings.push(b);
  trace(*g, model);
  if (const finding f = check_model(*g)) throw error(describe(f));
  return measure(*g, std::span(g->launchers.at, static_cast<std::size_t>(g->launchers.size)), devices, how);
}
template <class Model, std::same_as<binding>... B>
profile measure(cpu devices, as_training<Model> const& model, measure_options const& how, B... extents) {
  return measure<Model>(devices, model, how, std::vector<binding>{extents...});
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
