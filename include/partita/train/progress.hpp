// One line a step: what the training does, how fast, and when it will be done. The line is that of llm.c plus an ETA.
#pragma once
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <limits>
#include <optional>
#include <ostream>
#include <string>

#include <partita/core/error.hpp>
#include <partita/core/words.hpp>
#include <partita/train/units.hpp>

namespace partita {

// What one step did. The loss is always shown; of the rest, what is not given is not.
struct step_report {
  std::uint64_t step = 0;  // counted from 1
  double loss = std::numeric_limits<double>::quiet_NaN();
  std::optional<double> gradient_norm = std::nullopt;
  std::optional<double> learning_rate = std::nullopt;
  double seconds = 0;  // the wall time of the step
  double tokens = 0;   // in the whole batch, all devices together
};

struct progress_options {
  std::uint64_t steps = 0;                      // the last step's number; 0 if unknown
  double flops_per_step = 0;                    // the model's floating-point operations, recomputation not counted; 0 if unknown
  double peak_flops = 0;                        // FLOP/s of all devices together; 0 if unknown
  std::uint64_t every = 1;                      // where the output is no terminal, a line each so many steps
  double smoothing = 0.95;                      // of the time per step: the weight of the past, in [0, 1)
  std::optional<bool> terminal = std::nullopt;  // whether to rewrite one line; by default as the stream is found to be
};

// Formats step reports, and writes them if it was given somewhere to write. On a terminal one line is rewritten at
// every step; elsewhere there is a line at the first step, at each step that is a multiple of `every`, and at the
// last. The stream must outlive the object. Not for use by several threads at once.
class progress {
 public:
  // Writes nothing: `line` and `seconds_left` are there for the caller. All constructors throw `error` when an option
  // is out of range.
  explicit progress(progress_options options) : options_(options) {
    if (options.every == 0) throw error("progress: a line every 0 steps was asked for; give at least 1");
    if (!(options.smoothing >= 0 && options.smoothing < 1))
      throw_error({"progress: smoothing is ", options.smoothing, "; give a number of at least 0 and less than 1"});
    if (!(options.flops_per_step >= 0) || !(options.peak_flops >= 0))
      throw error("progress: FLOPs per step and peak FLOP/s are at least 0, and 0 when unknown");
  }
  progress(std::ostream& out, progress_options options) : progress(options) {
    out_ = &out;
    terminal_ = options.terminal.value_or(false);
  }
  progress(std::FILE* file, progress_options options) : progress(options) {
    file_ = file;
    if (file == nullptr) return;
    terminal_ = options.terminal.value_or(isatty(fileno(file)) == 1);
  }
  progress(const progress&) = delete;
  progress& operator=(const progress&) = delete;
  ~progress() {
    try {
      finish();
    } catch (...) {  // a stream that throws
    }
  }

  // Takes note of a step and writes its line if it is due.
  void step(const step_report& report) {
    note(report);
    const bool last = options_.steps > 0 && report.step >= options_.steps;
    if (terminal_) {
      rewrite(line(report));
      if (last) finish();
    } else if (last || noted_ == 1 || report.step % options_.every == 0) {
      write(line(report) + "\n");
    }
  }

  // Writes a message on a line of its own, such as the loss of an evaluation, below the steps so far.
  void message(const std::string& text) {
    finish();
    write(text + "\n");
  }

  // Ends the line that is being rewritten, if there is one.
  void finish() {
    if (width_ == 0) return;
    width_ = 0;
    write("\n");
  }

  // The line of a step, without an end of line. Time, tokens/s and MFU are those of the step itself.
  //   step  120/2000 | loss 3.2146 | norm 1.204 | lr 3.00e-04 | 12.3 ms | 66.4 ktok/s | MFU 41.2% | ETA 2 min 03 s
  std::string line(const step_report& report) const {
    const std::string total = std::to_string(options_.steps), number = std::to_string(report.step);
    std::string text = "step ";
    if (number.size() < total.size()) text.append(total.size() - number.size(), ' ');
    text += number;
    if (options_.steps > 0) text += "/" + total;
    text += formatted(" | loss %.4f", report.loss);
    if (report.gradient_norm) text += formatted(" | norm %.4g", *report.gradient_norm);
    if (report.learning_rate) text += formatted(" | lr %.2e", *report.learning_rate);
    if (report.seconds > 0) {
      text += " | " + duration_text(report.seconds);
      if (report.tokens > 0) text += " | " + quantity_text(report.tokens / report.seconds, "tok/s");
      if (options_.flops_per_step > 0 && options_.peak_flops > 0)
        text += formatted(" | MFU %.1f%%", 100 * options_.flops_per_step / report.seconds / options_.peak_flops);
    }
    if (const double left = seconds_left(report.step); left > 0) text += " | ETA " + duration_text(left);
    return text;
  }

  // Smoothed seconds per step, 0 before the first. The first step, which warms things up, counts only while it is
  // the only one.
  double seconds_per_step() const { return weight_ > 0 ? sum_ / weight_ : first_; }

  // Seconds from the end of step `step` to the end of the last; 0 when nothing is left or known.
  double seconds_left(std::uint64_t step) const {
    return step < options_.steps ? static_cast<double>(options_.steps - step) * seconds_per_step() : 0;
  }

 private:
  void note(const step_report& report) {
    if (++noted_ == 1) {
      first_ = report.seconds;
      return;
    }
    sum_ = options_.smoothing * sum_ + (1 - options_.smoothing) * report.seconds;
    weight_ = options_.smoothing * weight_ + (1 - options_.smoothing);  // corrects the start, as Adam does
  }

  static std::string formatted(const char* format, double value) {
    char text[64];
    std::snprintf(text, sizeof text, format, value);
    return text;
  }

  // A line longer than the terminal would wrap, and a carriage return goes back to its last part only.
  void rewrite(std::string text) {
    winsize size{};
    if (file_ != nullptr && ioctl(fileno(file_), TIOCGWINSZ, &size) == 0 && size.ws_col > 1 && text.size() >= size.ws_col)
      text.resize(size.ws_col - std::size_t{1});
    const std::size_t shown = text.size();
    if (shown < width_) text.append(width_ - shown, ' ');
    width_ = shown;
    write("\r" + text);
  }

  void write(const std::string& text) {
    if (out_ != nullptr) *out_ << text << std::flush;
    if (file_ != nullptr) {
      std::fwrite(text.data(), 1, text.size(), file_);
      std::fflush(file_);
    }
  }

  progress_options options_;
  std::ostream* out_ = nullptr;
  std::FILE* file_ = nullptr;
  bool terminal_ = false;
  std::size_t width_ = 0;  // of the line being rewritten
  std::uint64_t noted_ = 0;
  double first_ = 0, sum_ = 0, weight_ = 0;
};

}  // namespace partita
