// Clusters that others measure on. Peaks are from the makers' data sheets; latencies are those that NCCL plans with (tuning
// tables of its src/graph/tuning.cc, protocol Simple: 4 microseconds over NVLink, 14 over a network).
#pragma once
#include <utility>

#include <partita/cost/cluster.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

namespace preset {

namespace detail {
// Of peak FLOP/s and of peak bandwidth. With these an A100 takes the published step times of models of 22B and 530B
// parameters to 3.1% (Korthikanti et al. 2022, table 5; tests/simulate/published_full.cpp); no others are fitted to it.
inline void set_efficiency(device_kind& kind) {
  kind.flops_efficiency = efficiency_curve{0.73, 2e10};
  kind.memory_efficiency = efficiency_curve{0.8, 0};
}
inline cluster nodes_of(std::string name, device_kind kind, int nodes, int per_node, link_level inside, link_level between) {
  cluster c;
  c.format = "partita cluster";
  c.version = cluster_file_version;
  c.name = std::move(name);
  set_efficiency(kind);
  c.devices = {{kind.name, nodes * per_node}};
  c.kinds = {std::move(kind)};
  inside.devices = per_node;
  between.devices = nodes * per_node;
  c.links = {std::move(inside)};
  if (nodes > 1) c.links.push_back(std::move(between));
  c.check();
  return c;
}
}  // namespace detail

// Nodes of 16 V100-SXM3-32GB (DGX-2), two of them unless told otherwise.
inline cluster dgx2(int nodes = 2) {
  device_kind v100{};
  v100.name = "V100-32GB";
  v100.flops = {{"f32", 15.7e12}, {"f64", 7.8e12}, {"f16", 125e12}};
  v100.memory = 32e9;
  v100.memory_bandwidth = 900e9;
  v100.launch = 5e-6;
  v100.source = "NVIDIA V100 data sheet, 2020: 15.7 TFLOP/s f32, 125 in tensor cores, 32 GB HBM2 at 900 GB/s";
  link_level nvlink{"NVLink 2 and NVSwitch", 0, 4e-6, 1 / 150e9, {}, "NVIDIA DGX-2 data sheet: 300 GB/s a GPU, both directions"};
  link_level infiniband{"InfiniBand EDR", 0, 14e-6, 1 / 12.5e9, 1 / 100e9, "NVIDIA DGX-2 data sheet: 8 x 100 Gb/s for 16 GPUs"};
  return detail::nodes_of(std::to_string(nodes) + " x DGX-2", v100, nodes, 16, nvlink, infiniband);
}

inline cluster dgx_a100(int nodes = 1) {
  device_kind a100{};
  a100.name = "A100-80GB";
  a100.flops = {{"f32", 19.5e12}, {"f64", 9.7e12}, {"bf16", 312e12}, {"f16", 312e12}};
  a100.memory = 80e9;
  a100.memory_bandwidth = 2.039e12;
  a100.launch = 5e-6;
  a100.source = "NVIDIA A100 data sheet, 2021, SXM: 312 TFLOP/s bf16, 19.5 f32, 80 GB HBM2e at 2,039 GB/s";
  link_level nvlink{
      "NVLink 3 and NVSwitch", 0, 4e-6, 1 / 300e9, {}, "NVIDIA DGX A100 data sheet: 600 GB/s a GPU, both directions"};
  link_level infiniband{"InfiniBand HDR", 0, 14e-6, 1 / 25e9, {}, "NVIDIA DGX A100 data sheet: 8 x 200 Gb/s for 8 GPUs"};
  return detail::nodes_of(std::to_string(nodes) + " x DGX A100", a100, nodes, 8, nvlink, infiniband);
}

inline cluster dgx_h100(int nodes = 1) {
  device_kind h100{};
  h100.name = "H100-80GB";
  h100.flops = {{"f32", 67e12}, {"f64", 34e12}, {"bf16", 989e12}, {"f16", 989e12}};
  h100.memory = 80e9;
  h100.memory_bandwidth = 3.35e12;
  h100.launch = 5e-6;
  h100.source = "NVIDIA H100 data sheet, 2023, SXM, without sparsity: 989 TFLOP/s bf16, 67 f32, 80 GB HBM3 at 3.35 TB/s";
  link_level nvlink{
      "NVLink 4 and NVSwitch", 0, 4e-6, 1 / 450e9, {}, "NVIDIA DGX H100 data sheet: 900 GB/s a GPU, both directions"};
  link_level infiniband{"InfiniBand NDR", 0, 14e-6, 1 / 50e9, {}, "NVIDIA DGX H100 data sheet: 8 x 400 Gb/s for 8 GPUs"};
  return detail::nodes_of(std::to_string(nodes) + " x DGX H100", h100, nodes, 8, nvlink, infiniband);
}

}  // namespace preset

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
