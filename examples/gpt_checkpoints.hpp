// --save, --save-every and --resume: the checkpoints of train_gpt.
#pragma once
#include <cstdint>
#include <string>

#include <partita/partita.hpp>
#include <partita/train/checkpoint.hpp>

#include "gpt_options.hpp"

// Batches follow from the step, from the text and from these flags: with others a training would go on with other batches.
inline constexpr char const* note_of_text = "text";
inline pt::checkpoint_notes notes_of(gpt_options const& o, pt::text_data const& text) {
  return {{"batch", std::to_string(o.batch)},
          {"length", std::to_string(o.length)},
          {"seed", std::to_string(o.seed)},
          {note_of_text, std::to_string(text.size()) + " bytes, FNV-1a " + std::to_string(pt::hash(text.bytes()))}};
}

class gpt_checkpoints {
 public:
  // A mistake in a name is found before a plan is searched, let alone hours later. `first`: the process that has the files.
  gpt_checkpoints(gpt_options const& o, bool first) : options_(o) {
    if (first && !o.resume.empty()) const pt::safetensors::reader there(o.resume);
    if (first && !o.save.empty()) const pt::file_replacement possible(o.save);
  }

  // The trainer goes on from --resume. Returns what is to be told of it.
  template <class Trainer> std::string resume(Trainer& t, pt::text_data const& data) {
    if (options_.resume.empty()) return {};
    const pt::checkpoint_notes written = pt::load(t, options_.resume);
    const auto done = static_cast<std::uint64_t>(t.steps());
    saved_ = options_.save == options_.resume ? done : ~std::uint64_t{0};  // another file has none
    std::string text = "resumed from " + options_.resume + " after " + std::to_string(done) + " steps";
    for (auto const& [name, now] : notes_of(options_, data)) {
      const auto then = written.find(name);
      if (then == written.end() || then->second == now) continue;
      if (name == note_of_text)
        text += "\nnote: it learned another text (" + then->second + ", now " + now +
                "): the batches that follow are others, and what is held out now it may have learned";
      else text += "\nnote: it was written with --" + name + " " + then->second + ", so that the batches that follow are others";
    }
    if (done >= options_.steps) text += "\nnote: nothing is left of --steps " + std::to_string(options_.steps);
    return text;
  }
  // After a step, or when training ends. Returns what is to be told; empty: nothing was written.
  template <class Trainer> std::string save(Trainer const& t, pt::text_data const& data, bool ends) {
    const auto done = static_cast<std::uint64_t>(t.steps());
    const bool is_due = ends || (options_.save_every > 0 && done % options_.save_every == 0);
    if (options_.save.empty() || !is_due || done == saved_) return {};
    if (notes_.empty()) notes_ = notes_of(options_, data);
    pt::save(t, options_.save, notes_);
    saved_ = done;
    return "after step " + std::to_string(done) + ": saved to " + options_.save;
  }

 private:
  gpt_options const& options_;
  pt::checkpoint_notes notes_;  // once made: a text may be long
  std::uint64_t saved_ = 0;     // steps that the file of --save has
};
