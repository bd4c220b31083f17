// Checkpoints: a training as a file, from which it goes on under the same plan or any other.
//   pt::save(trainer, "run.safetensors");   pt::load(trainer, "run.safetensors");
// The file holds whole tensors under their names in the model (train/safetensors.hpp): "fc1.weight" a parameter,
// "fc1.weight.m" a state of its optimizer. Devices and processes make no difference to its bytes.
#pragma once
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include <partita/comm/processes.hpp>
#include <partita/core/words.hpp>
#include <partita/train/engine.hpp>
#include <partita/train/safetensors.hpp>

namespace partita {

// What a program writes beside its tensors, and reads back: where it is in its data, for instance.
using checkpoint_notes = safetensors::notes;

namespace detail {

// The tensors that a training consists of between steps, by their names in a file.
struct checkpoint_tensor {
  int tensor = -1;  // of the graph
  bool is_state = false;
};
inline std::map<std::string, checkpoint_tensor> checkpoint_tensors(graph_data const& g) {
  std::map<std::string, checkpoint_tensor> all;
  for (const source_kind kind : {source_kind::parameter, source_kind::state})
    for (op_entry const& e : g.ops) {
      if (e.info->source != kind) continue;
      const std::string own(g.name(g.tensors[e.first_output].op).view());
      std::string name = own;
      for (int n = 2; all.contains(name); ++n) name = words({own, "#", n});  // a parameter "w.m" beside a "w" that has a state m
      all[name] = {e.first_output, kind == source_kind::state};
    }
  return all;
}
inline safetensors::entry entry_of(graph_data const& g, std::string const& name, int tensor) {
  operand const& x = g.operand_of(tensor);
  safetensors::entry e{.name = name, .type = std::string(safetensors::name_of(x.type)), .shape = {}};
  for (int a = 0; a < x.rank; ++a) e.shape.push_back(g.extent(x.axes[a]));
  return e;
}

// What a training goes by beside its tensors, as notes.
inline constexpr std::string_view steps_note = "partita.steps", rate_note = "partita.learning_rate", seed_note = "partita.seed",
                                  own_notes = "partita.";
struct training_position {
  std::int64_t steps = 0;
  double rate = 0;
  std::uint64_t seed = 0;
};
template <class N> std::string exact_text(N value) {
  char text[64];
  return {text, std::to_chars(text, text + sizeof text, value).ptr};
}
template <class N> N note_as_number(std::string const& file, checkpoint_notes const& notes, std::string_view key) {
  const auto found = notes.find(std::string(key));
  if (found == notes.end())
    throw_error(
        {file, " has no note ", key, ", so it is of no training of this library; pt::load_parameters takes parameters alone"});
  N value{};
  std::string const& text = found->second;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (failed != std::errc{} || end != text.data() + text.size())
    throw_error({file, ": the note ", key, " is \"", text, "\", no number"});
  return value;
}
inline training_position position_of(std::string const& file, checkpoint_notes const& notes) {
  const training_position at{note_as_number<std::int64_t>(file, notes, steps_note),
                             note_as_number<double>(file, notes, rate_note),
                             note_as_number<std::uint64_t>(file, notes, seed_note)};
  if (at.steps < 0) throw_error({file, ": the note ", steps_note, " is ", at.steps, ", below 0"});
  if (!(std::abs(at.rate) <= std::numeric_limits<float>::max())) throw_error({file, ": the note ", rate_note, " is ", at.rate});
  return at;
}

// f on process 0; what it throws is thrown by all.
template <class F> void by_the_first(processes& together, F f) {
  std::string failure;
  if (together.rank() == 0) try {
      f();
    } catch (std::exception const& e) { failure = e.what(); }
  if (together.size() > 1) failure = broadcast(together, failure);
  if (!failure.empty()) throw error(failure);
}

// The file against what the training consists of. `parameters_only`: of what else is in the file nothing is asked.
class checkpoint_comparison {
 public:
  checkpoint_comparison(graph_data const& g, safetensors::reader const& file, bool parameters_only) {
    const auto wanted = checkpoint_tensors(g);
    for (auto const& [name, t] : wanted) {
      if (parameters_only && t.is_state) continue;
      safetensors::entry const* const found = file.find(name);
      if (found == nullptr) {
        missing_[t.is_state].push_back(name);
        continue;
      }
      const safetensors::entry own = entry_of(g, name, t.tensor);
      if (found->type != own.type || found->shape != own.shape)
        throw_error({file.name(), ": tensor ", name, " is ", found->type, " ", found->shape_text(), ", the trainer's is ",
                     own.type, " ", own.shape_text(), axes_text(g, t.tensor),
                     "; give the extents and the types that the file was written with"});
    }
    if (!parameters_only)
      for (safetensors::entry const& e : file.said().tensors)
        if (!wanted.contains(e.name)) more_.push_back(e.name);
    say(file.name(), wanted);
  }

 private:
  static std::string axes_text(graph_data const& g, int tensor) {
    operand const& x = g.operand_of(tensor);
    std::string text;
    for (int a = 0; a < x.rank; ++a) text += words({a > 0 ? " x " : " (", x.axes[a]->name, " ", g.extent(x.axes[a])});
    return text.empty() ? text : text + ")";
  }
  static std::string some_of(std::vector<std::string> const& names) {
    std::string text;
    const std::size_t shown = std::min<std::size_t>(names.size(), 3);
    for (std::size_t i = 0; i < shown; ++i) text += words({i > 0 ? ", " : "", names[i]});
    if (names.size() > shown) text += words({" and ", names.size() - shown, " more"});
    return text;
  }
  void say(std::string const& file, std::map<std::string, checkpoint_tensor> const& wanted) const {
    std::vector<std::string> more_states, strangers;  // a state's name begins with its parameter's
    for (std::string const& name : more_) {
      const auto owner = wanted.find(name.substr(0, name.rfind('.')));
      (owner != wanted.end() && !owner->second.is_state ? more_states : strangers).push_back(name);
    }
    if (!missing_[false].empty() || !strangers.empty())
      throw_error(
          {file,
           " is of another model: ", missing_[false].empty() ? std::string() : words({"it lacks ", some_of(missing_[false])}),
           missing_[false].empty() || strangers.empty() ? "" : ", and ",
           strangers.empty() ? std::string() : words({"it has ", some_of(strangers), ", which the trainer's model has not"}),
           "; make the trainer of the model that the file was written from"});
    if (!missing_[true].empty() || !more_states.empty())
      throw_error({file, " is of another optimizer or other frozen parameters: ",
                   missing_[true].empty() ? std::string() : words({"it lacks ", some_of(missing_[true])}),
                   missing_[true].empty() || more_states.empty() ? "" : ", and ",
                   more_states.empty() ? std::string() : words({"it has ", some_of(more_states)}),
                   "; make the trainer of the training that the file was written from, or take the parameters alone with "
                   "pt::load_parameters"});
  }
  std::vector<std::string> missing_[2], more_;  // missing: parameters, states
};

// A tensor of the file, from process 0 to all; chunk by chunk where there are several. A failure is kept for the end, because
// the others wait for what comes.
inline void read_everywhere(processes& together, safetensors::reader const* file, std::string const& name, list<std::byte>& whole,
                            std::string& failure) {
  auto read = [&](std::size_t from, std::size_t count, std::byte* to) {
    if (failure.empty()) try {
        file->read(*file->find(name), from, count, to);
      } catch (std::exception const& e) { failure = e.what(); }
  };
  if (together.size() == 1) return read(0, whole.size(), whole.data());
  list<std::byte> chunk;
  list<std::size_t> bytes(static_cast<std::size_t>(together.size()), 0);
  for (std::size_t at = 0; at < whole.size(); at += bytes[0]) {
    bytes[0] = std::min(whole.size() - at, safetensors::detail::chunk_bytes);
    chunk.resize(bytes[0]);
    if (together.rank() == 0) read(at, bytes[0], chunk.data());
    together.all_gather(chunk.data(), whole.data() + at, bytes, name);
  }
}

inline void save_checkpoint(engine const& e, std::filesystem::path const& path, checkpoint_notes notes) {
  graph_data const& g = e.graph();
  processes& together = e.together();
  for (auto const& [key, text] : notes)
    if (key.starts_with(own_notes))
      throw_error({"a note named ", key, ": names that begin with ", own_notes, " are the library's"});
  notes[std::string(steps_note)] = exact_text(e.steps());
  notes[std::string(rate_note)] = exact_text(e.learning_rate());
  notes[std::string(seed_note)] = exact_text(e.seed());
  std::vector<safetensors::entry> entries;
  std::vector<int> tensors;
  const auto all = checkpoint_tensors(g);
  for (const std::size_t width : {8, 4, 2})  // so that each lies at a multiple of its width
    for (auto const& [name, t] : all)
      if (size_of(g.operand_of(t.tensor).type) == width) {
        entries.push_back(entry_of(g, name, t.tensor));
        tensors.push_back(t.tensor);
      }
  std::unique_ptr<safetensors::writer> file;
  by_the_first(together, [&] { file = std::make_unique<safetensors::writer>(path, entries, notes); });
  std::exception_ptr failed;  // the first process makes all the calls that the others make
  for (int tensor : tensors) {
    const host_tensor whole = e.stored(tensor);
    if (together.rank() == 0 && !failed) try {
        file->write(whole.bytes.data(), whole.bytes.size());
      } catch (...) { failed = std::current_exception(); }
  }
  by_the_first(together, [&] {
    if (failed) std::rethrow_exception(failed);
    file->put_in_place();
  });
}

// On all processes, with what the first of those that failed says.
inline void throw_if_taken_in_part(processes& together, std::string failure) {
  const list<char> failed = gather(together, static_cast<char>(!failure.empty()), "whether a file was taken");
  const auto first = std::find(failed.begin(), failed.end(), char{1});
  if (first == failed.end()) return;
  if (together.size() > 1) failure = broadcast(together, failure, static_cast<int>(first - failed.begin()));
  throw_error({failure, "; the trainer has taken a part of the file and has to be made anew"});
}

inline checkpoint_notes load_checkpoint(engine& e, std::filesystem::path const& path, bool parameters_only) {
  graph_data const& g = e.graph();
  processes& together = e.together();
  std::unique_ptr<safetensors::reader> file;
  checkpoint_notes notes;
  std::string packed;  // the notes, for the other processes
  by_the_first(together, [&] {
    file = std::make_unique<safetensors::reader>(path);
    const checkpoint_comparison same(g, *file, parameters_only);
    notes = file->said().said;
    if (!parameters_only) (void)position_of(file->name(), notes);
    file->check_data();
    packed = nlohmann::json(notes).dump();
  });
  if (together.size() > 1) notes = nlohmann::json::parse(broadcast(together, packed)).get<checkpoint_notes>();
  std::string failure;
  list<std::byte> whole;
  for (auto const& [name, t] : checkpoint_tensors(g)) {
    if (parameters_only && t.is_state) continue;
    operand const& x = g.operand_of(t.tensor);
    std::size_t bytes = size_of(x.type);
    for (int a = 0; a < x.rank; ++a) bytes *= g.extent(x.axes[a]);
    whole.resize(bytes);
    read_everywhere(together, file.get(), name, whole, failure);
    if (failure.empty()) try {  // a device may fail on one process alone
        e.set_stored(t.tensor, whole.data());
      } catch (std::exception const& failed) { failure = failed.what(); }
  }
  throw_if_taken_in_part(together, failure);
  if (!parameters_only) {
    const training_position at = position_of(path.string(), notes);
    e.resume(at.steps, at.rate, at.seed);
  }
  std::erase_if(notes, [](auto const& note) { return note.first.starts_with(own_notes); });
  return notes;
}

}  // namespace detail

// Writes what `load` needs to go on: parameters, the optimizer's states, the number of steps done, the learning rate, the
// seed (which dropout goes by). Names of notes do not begin with "partita.". Each tensor is gathered and written before
// the next, by process 0; all processes call it. What was at `path` stays until the new file is complete. Throws error.
template <class Trainer>
void save(Trainer const& trainer, std::filesystem::path const& path, checkpoint_notes const& notes = {}) {
  detail::save_checkpoint(trainer.engine(), path, notes);
}
// Returns the notes. Throws error, and has changed nothing, unless the file is whole and its tensors are those of the
// trainer by name, type and shape. Process 0 reads it; all processes call it.
template <class Trainer> checkpoint_notes load(Trainer& trainer, std::filesystem::path const& path) {
  return detail::load_checkpoint(trainer.engine(), path, false);
}
// Of a file that may hold more, and may come from elsewhere: the parameters, which all have to be there. The optimizer's
// states, the steps and the rate stay.
template <class Trainer> checkpoint_notes load_parameters(Trainer& trainer, std::filesystem::path const& path) {
  return detail::load_checkpoint(trainer.engine(), path, true);
}

}  // namespace partita
