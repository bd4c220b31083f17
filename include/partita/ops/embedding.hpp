// Rows of a table by number: y[..., h] = table[ids[...], h].
#pragma once
#include <algorithm>
#include <cstddef>
#include <string>

#include <partita/core/words.hpp>
#include <partita/model/apply.hpp>

namespace partita {

namespace detail {
// A number that no row has is the data's mistake; one that another piece of the table has is not.
inline void check_id(long long id, std::size_t row, std::size_t rows_of_table) {
  if (id < 0 || static_cast<std::size_t>(id) >= rows_of_table)
    throw_error({"embedding: number ", id, " at position ", row, " is outside the table of ", rows_of_table,
                 " rows"});
}
}  // namespace detail

// dtable[v, h] = sum over the rows with ids = v of dy. The table gives its shape alone, it is not read. Every worker
// takes columns, so that the rows are added in their order whatever the number of workers.
struct embedding_grad_op {
  static constexpr std::string_view name = "embedding.grad", annotation = "...+ h, ...+, v h -> v h",
                                    dtypes = "T, i32, T -> T";
  static constexpr bool accumulates = true;
  static constexpr double flops_per_point = 0;  // one addition a row and column, however many rows the table has
  template <class Call> static void kernel(Call& call) {
    auto const* dy = call.template input<0>();
    auto const* ids = call.template input<1>();
    auto* out = call.template output<0>();
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
  static constexpr auto gradient(auto dy, auto, auto ids, auto table) {
    return gradients{none{}, [=] { return apply<embedding_grad_op>(dy, ids, table); }};
  }
  template <class Call> static void kernel(Call& call) {
    auto const* ids = call.template input<0>();
    auto const* table = call.template input<1>();
    auto* y = call.template output<0>();
    using value = std::remove_pointer_t<decltype(y)>;
    const std::size_t rows = call.rest(), h = call.extent('h'), v = call.extent('v'), from = call.offset('v'),
                      whole = call.whole('v');
    call.parallel(rows, std::max<std::size_t>(1, call.grain / std::max<std::size_t>(1, h)),
                  [=](std::size_t begin, std::size_t end, std::size_t) {
                    for (std::size_t row = begin; row < end; ++row) {
                      detail::check_id(ids[row], row, whole);
                      const std::size_t at = static_cast<std::size_t>(ids[row]) - from;
                      if (at < v) std::copy_n(table + at * h, h, y + row * h);
                      else std::fill_n(y + row * h, h, value(0));
                    }
                  });
  }
};

namespace ops {
template <handle Ids, handle Table> constexpr auto embedding(Ids ids, Table table) {
  return apply<embedding_op>(ids, table);
}
}  // namespace ops
using namespace ops;

}  // namespace partita
