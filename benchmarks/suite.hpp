// The full-size cases of a search.
#pragma once
#include "models/encoder_decoder.hpp"
#include "models/evoformer.hpp"
#include "models/gpt.hpp"
#include "models/llama.hpp"
#include "models/swin.hpp"
#include "suite_case.hpp"

namespace benchmark_model {

inline suite_case gpt_case(std::string name, int devices, int layers, std::size_t hidden, std::size_t heads, std::size_t samples,
                           pt::expert_options grid = {}, pt::constraints given = {}) {
  const gpt_sizes sizes{layers, 51200, hidden, heads, samples, 2048};
  return a_case(std::move(name), a100(devices), gpt<pt::bf16>{layers}, sizes, std::move(grid), std::move(given));
}
// The text of GPT-3 1.3B read byte by byte, in sequences so long that a block's features fill a device.
inline suite_case bytes_case(std::string name, pt::cluster on, std::size_t samples, std::size_t positions) {
  pt::constraints given;
  given.coshard = {2, 4, 8};
  return a_case(std::move(name), std::move(on), gpt<pt::bf16>{24}, gpt_sizes{24, 256, 2048, 16, samples, positions}, {},
                std::move(given));
}
inline suite_case swin_case(std::string name, pt::cluster on) {
  const swin_sizes s{{2, 2, 42, 4}, 512, 16, 64, 576, 128, 22000};
  swin m;
  for (int l = 0; l < 4; ++l) m.layers[l] = s.layers[l];
  return a_case(std::move(name), std::move(on), m, s);
}

// Machines of one V100-32GB each, joined by 25 Gb/s Ethernet.
inline pt::cluster over_ethernet(int devices) {
  pt::cluster c = pt::preset::dgx2(1);
  c.name = std::to_string(devices) + " x V100-32GB over 25 Gb/s Ethernet";
  c.devices.front().count = devices;
  c.links = {
      {"25 Gb/s Ethernet", devices, 14e-6, 1 / 3.125e9, {}, "IEEE 802.3by; latency of NCCL's tuning tables for a network"}};
  c.check();
  return c;
}

// Sizes: GPT-3 of Brown et al. 2020, table 2.1; 1T of Narayanan et al. 2021, table 1; Llama 3 of Dubey et al. 2024, table 3;
// Swin V2-G of Liu et al. 2022 (3B), on images of 768 x 768; mBART of Liu et al. 2020, made deeper and wider, with a
// vocabulary of half a million; AlphaFold2 of Jumper et al. 2021 at its first training's sizes; Mixtral of Jiang et al. 2024.
inline std::vector<suite_case> suite() {
  pt::expert_options large;  // plans of a thousand micro-batches: those alone that may be faster than what was found
  large.faster_than = 0;
  pt::constraints schedules;
  schedules.schedules = {pt::schedule_kind::one_f_one_b, pt::schedule_kind::interleaved, pt::schedule_kind::zero_bubble_h1,
                         pt::schedule_kind::zero_bubble_h2};
  pt::constraints interlaced;
  interlaced.schedules = {pt::schedule_kind::one_f_one_b, pt::schedule_kind::interlaced, pt::schedule_kind::interlaced_in_step};
  return {
      gpt_case("GPT-3 1.3B on 4 A100", 4, 24, 2048, 16, 64),
      gpt_case("GPT-3 1.3B on 8 A100", 8, 24, 2048, 16, 64),
      bytes_case("GPT of bytes, 1.3B, 262,144 positions, on 1 A100", a100(1), 4, 262144),
      bytes_case("GPT of bytes, 1.3B, 163,840 positions, on 4 L40S", l40s_on_ethernet(4), 8, 163840),
      gpt_case("GPT-3 6.7B on 16 A100", 16, 32, 4096, 32, 256),
      gpt_case("GPT-3 175B on 1,024 A100", 1024, 96, 12288, 96, 1536),
      gpt_case("GPT-3 175B on 1,024 A100, more schedules", 1024, 96, 12288, 96, 1536, {}, schedules),
      gpt_case("GPT 1T on 1,024 A100", 1024, 128, 25600, 160, 3072, large),
      a_case("Llama 8B on 16 H100", pt::preset::dgx_h100(2), llama{32}, llama_sizes{}),
      a_case("Llama 70B on 64 H100", pt::preset::dgx_h100(8), llama{80}, llama_sizes{80, 128256, 8192, 8, 8, 28672, 128, 8192}),
      swin_case("Swin V2-G on 4 L40S", l40s_on_ethernet(4)),
      swin_case("Swin V2-G on 8 A100", a100(8)),
      swin_case("Swin V2-G on 32 A100", a100(32)),
      a_case("mBART, vocabulary 500,000, on 8 L40S", l40s_on_ethernet(8), encoder_decoder{24},
             encoder_decoder_sizes{24, 500000, 2048, 32, 256, 1024}),
      a_case("mBART, vocabulary 500,000, on 16 A100", a100(16), encoder_decoder{24},
             encoder_decoder_sizes{24, 500000, 2048, 32, 256, 1024}),
      a_case("mBART, vocabulary 500,000, on 8 V100 over Ethernet", over_ethernet(8), encoder_decoder_in<pt::f16>{12},
             encoder_decoder_sizes{12, 500000, 2048, 16, 64, 1024}, {}, interlaced),
      a_case("Evoformer, 48 blocks, on 4 A100", a100(4), evoformer{48}, evoformer_sizes{}),
      a_case("Evoformer, 48 blocks, on 64 A100", a100(64), evoformer{48}, evoformer_sizes{}),
      a_case("Mixtral 8x7B on 32 H100", pt::preset::dgx_h100(4), mixture{32},
             llama_sizes{32, 32000, 4096, 8, 4, 14336, 128, 4096, 8, 1280}),
  };
}

}  // namespace benchmark_model
