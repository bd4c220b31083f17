// Rows of a table by number: y[..., h] = table[ids[...], h].
#pragma once
#include <algorithm>
#include <cstddef>
#include <string>
#include <type_traits>

#include <partita/core/data_fault.hpp>
#include <partita/core/packs.hpp>
#include <partita/core/words.hpp>
#include <partita/model/apply.hpp>
#include <partita/ops/sorted_rows.hpp>

namespace partita {

namespace detail {
// A number that no row has is the data's mistake; one that another piece of the table has is not.
template <class Op, class Call>
PARTITA_HOST_DEVICE void check_id(Call const& call, long long id, std::size_t row, std::size_t rows_of_table) {
  if (id < 0 || static_cast<std::size_t>(id) >= rows_of_table)
    call.template refuse<Op>({static_cast<double>(id), row, rows_of_table});
}
}  // namespace detail

// dtable[v, h] = sum over the rows with ids = v of dy. The table gives its shape alone, it is not read. On the CPU
// every worker takes columns, so that the rows are added in their order whatever the number of workers; a GPU sorts
// the rows.
struct embedding_grad_op {
  static constexpr std::string_view name = "embedding.grad", annotation = "...+ h, ...+, v h -> v h", dtypes = "T, i32, T -> T";
  static constexpr bool accumulates = true;
  static constexpr double flops_per_point = 0;  // one addition a row and column, however many rows the table has
  template <class Shape> static std::size_t workspace(Shape const& s) {
    return s.workers > 0 ? 0 : detail::sorted_rows(s.rest(), s.extent('h'), s.extent('v') + 1).bytes(s.element_size);
  }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    if constexpr (Call::on_host) add_rows(call);
    else
      detail::add_sorted_rows(call, call.template input<0>(), call.template input<1>(), call.template output<0>(), call.rest(),
                              call.extent('h'), call.extent('v'), call.offset('v'), call.accumulate());
  }

 private:
  template <class Call> static void add_rows(Call& call) {
    auto* out = call.template output<0>();
    auto const* dy = call.template input<0>();
    auto const* ids = call.template input<1>();
    using value = std::remove_pointer_t<decltype(out)>;
    const std::size_t rows = call.rest(), h = call.extent('h'), v = call.extent('v'), from = call.offset('v');
    const bool add = call.accumulate();
    call.parallel(h, 16, [=](std::size_t begin, std::size_t end, std::size_t) {
      const std::size_t width = end - begin;
      if (!add)
        for (std::size_t i = 0; i < v; ++i) std::fill_n(out + i * h + begin, width, value(0));
      for (std::size_t row = 0; row < rows; ++row) {
        const std::size_t at = static_cast<std::size_t>(ids[row]) - from;  // a number below `from` wraps to a large one
        if (at >= v) continue;
        value const* source = dy + row * h + begin;
        value* to = out + at * h + begin;
        for (std::size_t j = 0; j < width; ++j) to[j] += source[j];
      }
    });
  }
};

// The table may be cut over its rows: numbers outside the piece give zeros, and the pieces are summed.
struct embedding_op {
  static constexpr std::string_view name = "embedding", annotation = "..., v+ h -> ... h", dtypes = "i32, T -> T";
  static constexpr double flops_per_point = 0;
  static std::string words_of(data_fault const& f) {
    return words({"embedding: number ", static_cast<long long>(f.value), " at position ", f.position, " is outside the table of ",
                  f.limit, " rows"});
  }
  static constexpr auto gradient(auto dy, auto, auto ids, auto table) {
    return gradients{none{}, [=] { return apply<embedding_grad_op>(dy, ids, table); }};
  }
  template <class Call> PARTITA_HOST_DEVICE static void kernel(Call& call) {
    auto const* ids = call.template input<0>();
    auto const* table = call.template input<1>();
    auto* y = call.template output<0>();
    using value = std::remove_pointer_t<decltype(y)>;
    const std::size_t rows = call.rest(), h = call.extent('h'), v = call.extent('v'), from = call.offset('v'),
                      whole = call.whole('v');
    const Call checked = call;
    call.rows(
        rows,
        [=](std::size_t row, auto const& team) {
          detail::check_id<embedding_op>(checked, ids[row], row, whole);
          const std::size_t at = static_cast<std::size_t>(ids[row]) - from;
          value* const to = y + row * h;
          if (at < v)
            each_of(
                team, h, [](value x) { return x; }, to, table + at * h);
          else
            each_of(
                team, h, [] { return value(0); }, to);
        },
        h);
  }
};

namespace ops {
template <handle Ids, handle Table> constexpr auto embedding(Ids ids, Table table) { return apply<embedding_op>(ids, table); }
}  // namespace ops
using namespace ops;

}  // namespace partita
