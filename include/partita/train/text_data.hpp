// Text as training data: a token is a byte, so any text is usable as it is and the vocabulary is 256.
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <partita/core/error.hpp>
#include <partita/core/hash.hpp>
#include <partita/core/words.hpp>
#include <partita/train/text_files.hpp>

namespace partita {

struct text_options {
  double held_out = 0.1;              // the part of all bytes kept for evaluation, in [0, 1)
  std::size_t held_out_block = 8192;  // bytes kept at a time, at the end of each of many equal blocks of the text
  std::uint64_t seed = 0;             // of the choice of training windows
  std::size_t most_bytes = std::numeric_limits<std::size_t>::max();  // reading stops after so many bytes

  bool operator==(const text_options&) const = default;
};

// `inputs` and `targets` are row-major [sequences, length], values in [0, 256); a target is the byte after its input.
struct text_batch {
  std::size_t sequences = 0;
  std::size_t length = 0;
  std::vector<std::int32_t> inputs;
  std::vector<std::int32_t> targets;

  bool operator==(const text_batch&) const = default;
};

class held_out_batches;

// The text is divided into equal blocks; the last `held_out` of each block is for evaluation and the rest for
// training. A window, its last target included, lies in one part of one block, so the two never overlap. Windows may
// span files.
//
//   partita::text_data data("corpus", {.seed = 1});
//   partita::text_batch batch = data.batch(step, 8, 256);
//   for (const partita::text_batch& test : data.held_out(8, 256)) ...
class text_data {
 public:
  static constexpr std::size_t vocabulary = 256;

  // Reads a file, or the text files below a folder, as `read_text` does. Throws `error` as `read_text` does, and when
  // an option is out of range.
  explicit text_data(const std::filesystem::path& path, text_options options = {})
      : text_data(read_text(path, options.most_bytes), path.string(), options) {}

  // Text that is already in memory; `name` stands for it in messages. Throws `error` when it is empty or an option
  // is out of range.
  static text_data from_bytes(std::string bytes, text_options options = {}, std::string name = "bytes in memory") {
    text_files text;
    text.bytes = std::move(bytes);
    if (text.bytes.size() > options.most_bytes) text.bytes.resize(options.most_bytes);
    return text_data(std::move(text), std::move(name), options);
  }

  std::string_view bytes() const { return text_.bytes; }
  std::size_t size() const { return text_.bytes.size(); }  // bytes
  const std::vector<std::filesystem::path>& files() const { return text_.files; }
  std::size_t skipped_files() const { return text_.binary + text_.unreadable; }
  const text_options& options() const { return options_; }

  // Bytes of the two parts; they add up to size().
  std::size_t training_size() const { return size() - held_out_size(); }
  std::size_t held_out_size() const { return held_out_size_; }

  // Whether byte `offset` belongs to the part kept for evaluation. Throws `error` when it is not below size().
  bool is_held_out(std::size_t offset) const {
    if (offset >= size())
      throw error("text data: byte " + std::to_string(offset) + " of " + std::to_string(size()) + " was asked for");
    std::size_t block = offset / (size() / blocks_ + 1);  // at or before the right one
    while (block_begin(block + 1) <= offset) ++block;
    return offset >= held_out_part(block).begin;
  }

  // Where in bytes() window `index` of step `step` begins. It depends on the seed, the step and the index alone, so a
  // batch is the same under every plan. Every position is (almost) equally likely, with replacement. Throws `error`
  // when no window of length + 1 bytes fits.
  std::size_t window(std::uint64_t step, std::uint64_t index, std::size_t length) const {
    require_training_window(length);
    const std::uint64_t state = hash(index, hash(step, hash(options_.seed, hash_seed)));
    const part run = training_part(static_cast<std::size_t>(mixed(hash(0, state)) % blocks_));
    return run.begin + static_cast<std::size_t>(mixed(hash(1, state)) % (run.size - length));
  }

  // The sequences [first, first + sequences) of the batch of step `step`, each of `length` tokens. A process that
  // takes part of a batch asks for its own range. Throws `error` when sequences or length is 0, or no window fits.
  text_batch batch(std::uint64_t step, std::size_t sequences, std::size_t length, std::size_t first = 0) const {
    require_training_window(length);
    text_batch result;
    resize(result, sequences, length);
    fill(step, length, result.inputs, result.targets, first);
    return result;
  }

  // The same, written into memory of the caller: both spans hold sequences x length tokens. Throws `error` also when
  // their sizes differ or are no multiple of `length`.
  void fill(std::uint64_t step, std::size_t length, std::span<std::int32_t> inputs, std::span<std::int32_t> targets,
            std::size_t first = 0) const {
    require_training_window(length);
    if (inputs.size() != targets.size() || inputs.size() % length != 0)
      throw error("text data: " + std::to_string(inputs.size()) + " inputs and " + std::to_string(targets.size()) +
                  " targets were to be filled with sequences of " + std::to_string(length) +
                  "; make both the same multiple of the length");
    for (std::size_t row = 0; row < inputs.size() / length; ++row)
      copy_window(window(step, first + row, length), inputs.subspan(row * length, length), targets.subspan(row * length, length));
  }

  // How many windows of `length` tokens, side by side, lie in the held-out part; 0 when none fits.
  std::size_t held_out_window_count(std::size_t length) const {
    if (length == 0) throw error("text data: the length of a sequence is 0; give at least 1");
    std::size_t count = 0;
    for (std::size_t block = 0; block < blocks_; ++block) count += windows_in(held_out_part(block), length);
    return count;
  }

  // The held-out part as a range of full batches, the same each time. Windows do not overlap; those that would make
  // an incomplete batch are left out, and with `most_batches` only so many batches are taken: in both cases the
  // windows taken are spread evenly. Throws `error` when sequences or length is 0 or there is no full batch. The
  // range refers to this object.
  held_out_batches held_out(std::size_t sequences, std::size_t length,
                            std::size_t most_batches = std::numeric_limits<std::size_t>::max()) const;

  // The loss, in nats per byte, of the best guess without context: the mean over the held-out part of
  // -log((count + 1) / (all + 256)), with counts over the training part. A model that learned anything is below it.
  // Throws `error` when nothing is held out.
  double unigram_loss() const {
    std::array<std::size_t, vocabulary> training{}, held{};
    for (std::size_t block = 0; block < blocks_; ++block) {
      count(training_part(block), training);
      count(held_out_part(block), held);
    }
    if (held_out_size() == 0) throw error(where() + " has no held-out part; set text_options::held_out above 0");
    double sum = 0;
    for (std::size_t byte = 0; byte < vocabulary; ++byte)
      sum -= static_cast<double>(held[byte]) *
             std::log((static_cast<double>(training[byte]) + 1) / static_cast<double>(training_size() + vocabulary));
    return sum / static_cast<double>(held_out_size());
  }

 private:
  friend class held_out_batches;
  struct part {
    std::size_t begin, size;
  };

  text_data(text_files text, std::string name, text_options options)
      : text_(std::move(text)), name_(std::move(name)), options_(options) {
    if (size() == 0) throw error(where() + " is empty; give some text");
    if (!(options.held_out >= 0 && options.held_out < 1))
      throw_error(
          {"text data: text_options::held_out is ", options.held_out, "; it is a part of the whole, at least 0 and less than 1"});
    if (options.held_out_block == 0) throw error("text data: text_options::held_out_block is 0; give at least 1 byte");
    if (options.held_out > 0) {
      const double kept = static_cast<double>(size()) * options.held_out;
      const double wanted = kept / static_cast<double>(options.held_out_block);
      blocks_ = std::clamp<std::size_t>(static_cast<std::size_t>(wanted), 1, size());
    }
    least_run_ = size();
    for (std::size_t block = 0; block < blocks_; ++block) {
      least_run_ = std::min(least_run_, training_part(block).size);
      held_out_size_ += held_out_part(block).size;
    }
  }

  // Exact in 64 bits: block * (size / blocks) and the spread of the remainder.
  std::size_t block_begin(std::size_t block) const { return block * (size() / blocks_) + block * (size() % blocks_) / blocks_; }
  part training_part(std::size_t block) const {
    const std::size_t begin = block_begin(block), whole = block_begin(block + 1) - begin;
    const auto kept = static_cast<std::size_t>(std::llround(static_cast<double>(whole) * options_.held_out));
    return {begin, whole - kept};
  }
  part held_out_part(std::size_t block) const {
    const part run = training_part(block);
    return {run.begin + run.size, block_begin(block + 1) - run.begin - run.size};
  }
  static std::size_t windows_in(part run, std::size_t length) { return run.size == 0 ? 0 : (run.size - 1) / length; }

  // The finalizer of MurmurHash3, since the low bits of FNV-1a are weak.
  static std::uint64_t mixed(std::uint64_t x) {
    x = (x ^ (x >> 33)) * 0xff51afd7ed558ccdu;
    x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53u;
    return x ^ (x >> 33);
  }

  std::string where() const { return "text data: '" + name_ + "'"; }

  void require_training_window(std::size_t length) const {
    if (length == 0) throw error("text data: the length of a sequence is 0; give at least 1");
    if (length < least_run_) return;
    std::string message = where() + " is too short: a sequence of " + std::to_string(length) +
                          " bytes and its last target need " + std::to_string(length + 1) +
                          " bytes in a row, and its training part has " + std::to_string(least_run_) + " in a row (" +
                          std::to_string(size()) + " bytes in all); give more text or shorter sequences";
    if (options_.held_out > 0) message += ", or raise text_options::held_out_block, or lower text_options::held_out";
    throw error(message);
  }

  static void resize(text_batch& batch, std::size_t sequences, std::size_t length) {
    if (sequences == 0 || length == 0)
      throw error("text data: a batch of " + std::to_string(sequences) + " sequences of " + std::to_string(length) +
                  " tokens was asked for; give at least 1 of each");
    batch.sequences = sequences;
    batch.length = length;
    batch.inputs.resize(sequences * length);
    batch.targets.resize(sequences * length);
  }

  void copy_window(std::size_t begin, std::span<std::int32_t> inputs, std::span<std::int32_t> targets) const {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      inputs[i] = static_cast<unsigned char>(text_.bytes[begin + i]);
      targets[i] = static_cast<unsigned char>(text_.bytes[begin + i + 1]);
    }
  }

  void count(part run, std::array<std::size_t, vocabulary>& counts) const {
    for (unsigned char byte : bytes().substr(run.begin, run.size)) ++counts[byte];
  }

  text_files text_;
  std::string name_;
  text_options options_;
  std::size_t blocks_ = 1;
  std::size_t held_out_size_ = 0;
  std::size_t least_run_ = 0;  // bytes in the smallest training part of a block; they differ by at most 1
};

// What `text_data::held_out` returns: a range of `size()` batches, and each batch by its number.
class held_out_batches {
 public:
  class iterator {
   public:
    using iterator_category = std::input_iterator_tag;
    using value_type = text_batch;
    using difference_type = std::ptrdiff_t;
    using pointer = void;
    using reference = text_batch;

    iterator() = default;
    iterator(const held_out_batches* all, std::size_t index) : all_(all), index_(index) {}
    text_batch operator*() const { return (*all_)[index_]; }
    iterator& operator++() { return ++index_, *this; }
    iterator operator++(int) { return {all_, index_++}; }
    bool operator==(const iterator&) const = default;

   private:
    const held_out_batches* all_ = nullptr;
    std::size_t index_ = 0;
  };

  std::size_t size() const { return batches_; }
  iterator begin() const { return {this, 0}; }
  iterator end() const { return {this, batches_}; }

  // Batch `index`. Throws `error` when there is none of that number.
  text_batch operator[](std::size_t index) const {
    if (index >= batches_)
      throw error("text data: held-out batch " + std::to_string(index) + " of " + std::to_string(batches_) + " was asked for");
    text_batch result;
    text_data::resize(result, sequences_, length_);
    for (std::size_t row = 0; row < sequences_; ++row)
      data_->copy_window(window(index * sequences_ + row), std::span(result.inputs).subspan(row * length_, length_),
                         std::span(result.targets).subspan(row * length_, length_));
    return result;
  }

  // Where in bytes() sequence `number` begins, counted over all batches: row r of batch b is number
  // b * sequences + r. Throws `error` when there is none of that number.
  std::size_t window(std::size_t number) const {
    if (number >= begins_.size())
      throw error("text data: held-out window " + std::to_string(number) + " of " + std::to_string(begins_.size()) +
                  " was asked for");
    return begins_[number];
  }

 private:
  friend class text_data;
  held_out_batches(const text_data& data, std::size_t sequences, std::size_t length, std::size_t most_batches)
      : data_(&data), sequences_(sequences), length_(length) {
    if (sequences == 0 || length == 0)
      throw error("text data: held-out batches of " + std::to_string(sequences) + " sequences of " + std::to_string(length) +
                  " tokens were asked for; give at least 1 of each");
    const std::size_t windows = data.held_out_window_count(length);
    batches_ = std::min(windows / sequences, most_batches);
    if (windows < sequences)
      throw error(data.where() + " holds out too little: " + std::to_string(windows) + " windows of " + std::to_string(length) +
                  " bytes and a target, and one batch takes " + std::to_string(sequences) + " (" +
                  std::to_string(data.held_out_size()) + " bytes are held out); give more text, fewer or " +
                  "shorter sequences, or raise text_options::held_out or text_options::held_out_block");
    const std::size_t taken = batches_ * sequences;
    std::size_t number = 0;
    for (std::size_t block = 0; block < data.blocks_ && begins_.size() < taken; ++block) {
      const text_data::part run = data.held_out_part(block);
      for (std::size_t i = 0; i < text_data::windows_in(run, length); ++i, ++number)
        if (begins_.size() < taken && number == begins_.size() * windows / taken) begins_.push_back(run.begin + i * length);
    }
  }

  const text_data* data_;
  std::size_t sequences_, length_, batches_ = 0;
  std::vector<std::size_t> begins_;
};

inline held_out_batches text_data::held_out(std::size_t sequences, std::size_t length, std::size_t most_batches) const {
  return held_out_batches(*this, sequences, length, most_batches);
}

}  // namespace partita
