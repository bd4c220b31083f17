// A traced model as a chain of segments: what searches know of its ops, its parameters and the tensors between them.
#pragma once
#include <algorithm>
#include <utility>
#include <vector>

#include <partita/core/text.hpp>
#include <partita/model/graph_entries.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita::spaces {

// An op that runs because of a forward op, its letters in that one's.
struct caused_op {
  op_info const* info = nullptr;
  int letter[max_dims]{};  // of the forward op, or -1
  std::size_t wholes[max_dims]{};
  bool of_weights = false;         // the gradients of parameters alone wait for it
  bool waits_with[max_inputs]{};   // an input that is a gradient
  bool waits_again[max_inputs]{};  // one of them with which the op waits that makes what the forward op reads: the same or its
                                   // copy
  bool operator==(caused_op const&) const = default;
};
// What stands between a parameter and an output, and the output: its letters are the parameter's axes, along which it is cut as
// the parameter is.
struct op_of_weight {
  int op = -1;
  caused_op as{};
  bool operator==(op_of_weight const&) const = default;
};
// An output of the model that is a parameter, or a cast or view of it.
struct given_out : op_of_weight {
  std::vector<op_of_weight> through{};  // what is made of the parameter for it alone, in this order
  bool moved = false;                   // it may be cut along fewer axes than what it is made of
  bool operator==(given_out const&) const = default;
};
struct searched_weight {
  int op = -1;                    // the parameter
  std::vector<int> read_through;  // casts and views of it, which lie as it does
  int letter[max_rank]{};         // per axis of the parameter: the reader's letter, or -1
  bool owned = false;             // this reader is the first one: what is stored counts here
  int readers = 1;
  constexpr bool alone() const { return readers == 1; }  // it may be stored cut (ZeRO 3)
  // used: as it is read, where that is another type; gradient: as it is summed; term: as one is made
  double stored_bytes = 0, used_bytes = 0, gradient_bytes = 0, term_bytes = 0, state_bytes = 0;
  // Letters of all these are the parameter's axes.
  std::vector<caused_op> updates;
  std::vector<caused_op> conversions;       // to the type of use, once a step; the first that reads them has them
  std::vector<given_out> outputs;           // of the model; the first reader has them
  std::vector<caused_op> term_conversions;  // of a term of the gradient, made by this reader, to the type in which it is summed
  bool trained = false;
  bool operator==(searched_weight const&) const = default;
};
struct searched_input {
  int tensor = -1;
  bool activation = false;      // made by an op of the chain
  int weight = -1;              // into searched_op::weights
  bool backward_reads = false;  // an op that this one causes reads it
  bool weights_read = false;    // one that the gradients of parameters alone wait for does
  bool given = false;           // an input of the model, which counts here: all of the batch is there, the whole step long
  bool operator==(searched_input const&) const = default;
};
struct searched_op {
  int op = -1;
  op_info const* info = nullptr;
  std::size_t wholes[max_dims]{};
  bool is_batch[max_dims]{};
  bool may_cut[max_dims]{};
  std::vector<searched_input> inputs;
  std::vector<searched_weight> weights;
  std::vector<caused_op> backward;
  bool output_kept[max_outputs]{};         // some backward op reads it
  bool output_read_by_own[max_outputs]{};  // one that this op causes does, as it is made
  bool output_read_inside[max_outputs]{};  // that, or one that a reader in the same segment causes
  // The same of backward ops that the gradients of parameters alone wait for.
  bool weights_read_output[max_outputs]{};
  bool own_weights_read_output[max_outputs]{};
  int turns_along = -1;     // the letter along which its block can be cut in time (co-shard), or -1
  bool turns_last = false;  // no later op of the block has a letter of another axis for it
  int rule = 0;             // which constraints it has: kinds of segments differ where these do
  bool operator==(searched_op const&) const = default;
};
struct searched_tensor {
  int tensor = -1;
  operand const* as = nullptr;
  std::size_t wholes[max_rank]{};
  bool is_batch[max_rank]{};
  bool differentiable = false;
  bool operator==(searched_tensor const&) const = default;
};
// Of several owners, none of them on another thread. (std::shared_ptr is no constant expression in C++20.)
template <class T> class shared {
 public:
  constexpr explicit shared(T x) : held_(new counted{std::move(x), 1}) {}
  constexpr shared(shared const& o) noexcept : held_(o.held_) {
    if (held_ != nullptr) ++held_->owners;
  }
  constexpr shared(shared&& o) noexcept : held_(std::exchange(o.held_, nullptr)) {}
  constexpr shared& operator=(shared o) noexcept {
    std::swap(held_, o.held_);
    return *this;
  }
  constexpr ~shared() {
    if (held_ != nullptr && --held_->owners == 0) delete held_;
  }
  constexpr T& operator*() const { return held_->value; }
  constexpr T* operator->() const { return &held_->value; }

 private:
  struct counted {
    T value;
    int owners;
  };
  counted* held_;
};

// The ops of a segment. A block that differs from an earlier one in ids alone has that one's until it is asked for its own: a
// thousand blocks are read in little more time than one. One thread at a time asks an object.
class segment_ops {
 public:
  using list = std::vector<searched_op>;
  constexpr segment_ops() : here_(place{shared<list>(list{}), {}}) {}
  segment_ops(segment_ops&&) = default;
  segment_ops& operator=(segment_ops&&) = default;
  constexpr segment_ops(segment_ops const& o) : here_(place{shared<list>(list(o.alike())), o.here_->away}) {}
  constexpr segment_ops& operator=(segment_ops const& o) { return *this = segment_ops(o); }
  // Those of a block, with ids so much higher: of ops, and of tensors but for the inputs of the model, below `first_tensor`.
  constexpr segment_ops(segment_ops const& like, int ops, int tensors, int first_tensor)
      : here_(place{like.here_->ops,
                    {like.here_->away.ops + ops, like.tensors_higher() + tensors,
                     like.repeats() ? like.here_->away.first_tensor : first_tensor}}) {}

  // Ids are still those of an earlier block.
  constexpr bool repeats() const { return here_->away.ops != 0; }
  constexpr int tensors_higher() const { return here_->away.tensors; }
  // What holds for the block and for the earlier one: all but ids.
  constexpr list const& alike() const { return *here_->ops; }
  constexpr list const& own() const {
    if (repeats()) take_own();
    return *here_->ops;
  }
  constexpr list& own() {
    std::as_const(*this).own();
    return *here_->ops;
  }
  constexpr auto begin() const { return own().begin(); }
  constexpr auto end() const { return own().end(); }
  constexpr auto begin() { return own().begin(); }
  constexpr auto end() { return own().end(); }
  constexpr std::size_t size() const { return alike().size(); }
  constexpr bool empty() const { return alike().empty(); }
  constexpr searched_op const& operator[](std::size_t i) const { return own()[i]; }
  constexpr searched_op& operator[](std::size_t i) { return own()[i]; }
  constexpr void push_back(searched_op x) { own().push_back(std::move(x)); }

 private:
  struct distance {
    int ops = 0, tensors = 0, first_tensor = 0;
  };
  struct place {
    shared<list> ops;
    distance away;
  };
  constexpr void take_own() const {
    distance const& away = here_->away;
    list mine = alike();
    for (searched_op& x : mine) {
      x.op += away.ops;
      for (searched_input& in : x.inputs)
        if (in.activation || in.weight >= 0 || in.tensor >= away.first_tensor) in.tensor += away.tensors;
      for (searched_weight& w : x.weights) {
        w.op += away.ops;
        for (int& through : w.read_through) through += away.ops;
        for (given_out& out : w.outputs) {
          out.op += away.ops;
          for (op_of_weight& each : out.through) each.op += away.ops;
        }
      }
    }
    *here_ = {shared<list>(std::move(mine)), {}};
  }
  shared<place> here_;  // one owner: what is const may still take its own ids
};
struct segment {
  text<96> name;   // "block.3", or "" between blocks
  int block = -1;  // index of the scope, or -1
  segment_ops ops;
  std::vector<int> enters, leaves;  // tensors that cross its first and last boundary
  int like = -1;                    // an earlier segment that differs in ids alone, and is like no other; or -1
  int kind = -1;
  int rule = 0;  // whether it may, must or must not be run again
};
constexpr bool has_turns(segment const& s) {
  segment_ops::list const& ops = s.ops.alike();
  return std::any_of(ops.begin(), ops.end(), [](searched_op const& x) { return x.turns_along >= 0; });
}
struct segmented_model {
  graph_data const* graph = nullptr;
  axis_info const* batch = nullptr;
  std::size_t samples = 1;  // the batch's extent
  std::vector<segment> segments;
  std::vector<int> first_of_kind;        // a segment of each kind
  double unread = 0;                     // bytes of parameters and inputs that no op of the chain reads: the first stage has them
  std::vector<searched_tensor> tensors;  // by tensor id of the graph, of those that forward ops make; filled for activations
};

// Whose backward ops read a tensor: those of its own segment, or of a later one, whose entry it is.
constexpr void find_reads_inside(segmented_model& m) {
  for (segment& s : m.segments) {
    if (s.like >= 0) continue;
    for (searched_op& x : s.ops)
      for (int o = 0; o < x.info->output_count; ++o) {
        bool& any = x.output_read_inside[o] = x.output_read_by_own[o];
        for (searched_op const& reader : s.ops)
          for (searched_input const& in : reader.inputs)
            any = any || (in.backward_reads && in.tensor == m.graph->ops[x.op].first_output + o);
      }
  }
}

// Inputs of the model count where they are read first. One that a block reads first, and others after it, counts in each segment
// that reads it: so blocks that are alike stay so.
constexpr void find_given(segmented_model& m) {
  struct reader {
    std::size_t segment;
    searched_input* in;
  };
  std::vector<std::vector<reader>> readers(static_cast<std::size_t>(m.graph->tensors.size));
  for (std::size_t s = 0; s < m.segments.size(); ++s) {
    if (m.segments[s].like >= 0) continue;  // it reads what the earlier block reads
    for (searched_op& x : m.segments[s].ops)
      for (searched_input& in : x.inputs)
        if (m.graph->ops[m.graph->tensors[in.tensor].op].info->source == source_kind::input)
          readers[static_cast<std::size_t>(in.tensor)].push_back({s, &in});
  }
  for (std::vector<reader> const& all : readers)
    for (std::size_t r = 0; r < all.size(); ++r) {
      const bool again = r > 0 && all[r].segment == all[r - 1].segment;
      all[r].in->given = r == 0 || (!again && m.segments[all.front().segment].block >= 0);
    }
}

}  // namespace partita::spaces

#include <partita/core/end_planning_code.hpp>
