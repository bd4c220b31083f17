// What the bytes of a buffer hold: patches, each of which is elements of one tensor at regular places, reduced from the
// same pieces.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <partita/program/check/lattice.hpp>
#include <partita/program/check/pieces_summed.hpp>

namespace partita::detail::checking {

// In place of a tensor: what sums, or maxima, begin with.
inline constexpr int zeros = -2, lowest = -3;

struct patch {
  int tensor = -1;  // views count as what they are views of
  int sum = whole;
  dtype type = f32;
  int made_by = -1;  // instruction of the rank that holds it
  lattice where;     // place: bytes from the beginning of the buffer
};
using contents = std::vector<patch>;

inline bool is_neutral(patch const& p) { return p.tensor == zeros || p.tensor == lowest; }
inline std::int64_t bytes_of(dtype type) { return static_cast<std::int64_t>(size_of(type)); }

// Takes out of `held` whatever lies where `region` does, elements of `size` bytes.
inline void forget(contents& held, lattice const& region, std::int64_t size) {
  const std::int64_t begin = region.place, end = region.last() + size;
  const bool dense = is_dense(region, size);
  std::size_t kept = 0;
  contents more;
  for (std::size_t k = 0; k < held.size(); ++k) {
    patch& p = held[k];
    const std::int64_t own = bytes_of(p.type), from = p.where.place, to = p.where.last() + own;
    bool keep = to <= begin || from >= end;
    if (!keep && !(dense && begin <= from && to <= end)) {
      // Of elements of another size, or between the elements of this one, nothing is known any more.
      const bool comparable = own == size && (from - begin) % size == 0;
      const std::int64_t common = comparable ? elements_in_common(p.where, region) : -1;
      if (common == 0) keep = true;
      else if (common > 0 && common < p.where.elements()) {
        std::vector<lattice> left;
        subtract(lattice_view(p.where), lattice_view(region), left);
        for (lattice const& l : left) {
          more.push_back(p);
          more.back().where = l;
        }
      }
    }
    if (keep) {
      if (kept != k) held[kept] = std::move(p);
      ++kept;
    }
  }
  held.resize(kept);
  held.insert(held.end(), more.begin(), more.end());
}
inline void put(contents& held, patch const& p) { held.push_back(p); }

// Whether `held` has exactly the wanted elements of a tensor at the wanted places, and from which pieces they are reduced.
enum class seen : std::uint8_t { good, undefined, other_tensor, other_part, other_type, mixed };
struct reading {
  seen what = seen::good;
  int sum = whole;
  patch const* found = nullptr;  // good: one of them; else the first that is wrong
};
inline reading look(contents const& held, lattice const& wanted, int tensor, dtype type, pieces_summed const& sums) {
  reading r;
  bool any = false;
  std::int64_t left = wanted.elements();
  const std::int64_t end = wanted.last();
  auto wrong = [&](seen what, patch const& p) {
    if (r.what == seen::good) {
      r.what = what;
      r.found = &p;
    }
  };
  auto take = [&](patch const& p, std::int64_t elements) {
    left -= elements;
    const int sum = is_neutral(p) ? nothing : p.sum;
    if (!any) {
      r.sum = sum;
      r.found = r.what == seen::good ? &p : r.found;
    } else if (sum != r.sum && !sums.same(sum, r.sum)) wrong(seen::mixed, p);
    any = true;
  };
  for (patch const& p : held) {
    if (p.where.place > end || p.where.last() < wanted.place) continue;
    if (p.type != type) {
      wrong(seen::other_type, p);
      continue;
    }
    if (p.tensor == tensor && p.where == wanted) {
      take(p, wanted.elements());
      continue;
    }
    meet(p.where, wanted, [&](shared_part const& s) {
      take(p, s.elements());
      if (is_neutral(p)) return;
      if (p.tensor != tensor) wrong(seen::other_tensor, p);
      else if (!s.same_index()) wrong(seen::other_part, p);
    });
  }
  if (r.what == seen::good && left != 0) r.what = seen::undefined;
  return r;
}

// Elements taken from one lattice of places and put on another: `where.place` of the result is the new place.
inline lattice moved(shared_part const& s) {
  shared_loop loops[max_loops];
  for (int l = 0; l < s.depth; ++l) loops[l] = s.loops[l];
  sort_few(loops, s.depth, [](shared_loop const& a, shared_loop const& b) { return a.other > b.other; });
  lattice x;
  x.place = s.other;
  x.index = s.index;
  for (int l = 0; l < s.depth; ++l) x.push(loops[l].count, loops[l].other, loops[l].index);
  return x;
}
// What lies at the places of `from`, whose index says where each element goes. `taken` gets it; returns how many elements
// of `from` were not there.
inline std::int64_t take(contents const& held, lattice const& from, std::int64_t size, contents& taken) {
  std::int64_t left = from.elements();
  const std::int64_t end = from.last();
  for (patch const& p : held) {
    if (p.where.place > end || p.where.last() < from.place || bytes_of(p.type) != size) continue;
    meet(p.where, from, [&](shared_part const& s) {
      left -= s.elements();
      patch copy = p;
      copy.where = moved(s);
      taken.push_back(copy);
    });
  }
  return left;
}
// A run of `bytes` from `begin` on, as places from 0 on. Returns how many bytes of it hold nothing that is known.
inline std::int64_t take_run(contents const& held, std::int64_t begin, std::int64_t bytes, contents& taken) {
  std::int64_t left = bytes;
  for (patch const& p : held) {
    const std::int64_t size = bytes_of(p.type), from = p.where.place, to = p.where.last() + size;
    if (to <= begin || from >= begin + bytes) continue;
    patch copy = p;
    if (begin <= from && to <= begin + bytes) {
      copy.where.place -= begin;
      left -= p.where.elements() * size;
      taken.push_back(copy);
      continue;
    }
    if ((from - begin) % size != 0 || bytes % size != 0) continue;
    lattice run;
    run.place = begin;
    run.push(bytes / size, size, size);
    meet(p.where, run, [&](shared_part const& s) {
      left -= s.elements() * size;
      copy.where = moved(s);
      taken.push_back(copy);
    });
  }
  return left;
}

// Two results at the same places, combined element by element.
enum class combined : std::uint8_t { good, unlike, other_type, twice, otherwise_reduced };
inline combined combine(contents const& a, contents const& b, reduction how, pieces_summed& sums, contents& result) {
  combined r = combined::good;
  auto neutral_of = [&](patch const& p) { return how == reduction::sum ? p.tensor == zeros : p.tensor == lowest; };
  auto one = [&](patch const& x, patch const& y, lattice const& where, bool same_index) {
    if (x.type != y.type) r = combined::other_type;
    patch p = is_neutral(x) ? y : x;
    p.where = where;
    if ((is_neutral(x) && !neutral_of(x)) || (is_neutral(y) && !neutral_of(y))) r = combined::otherwise_reduced;
    else if (!is_neutral(x) && !is_neutral(y)) {
      if (x.tensor != y.tensor || !same_index) r = combined::unlike;
      else switch (sums.join(x.sum, y.sum, how, p.sum)) {
          case joined::good: break;
          case joined::twice: r = combined::twice; break;
          case joined::otherwise_reduced: r = combined::otherwise_reduced; break;
        }
    } else if (!is_neutral(p) && p.sum > 0 && sums.how(p.sum) != how) r = combined::otherwise_reduced;
    result.push_back(p);
  };
  for (patch const& x : a)
    for (patch const& y : b) {
      if (x.where.place == y.where.place && x.where == y.where) {
        one(x, y, x.where, true);
        continue;
      }
      meet(x.where, y.where, [&](shared_part const& s) {
        lattice where;  // the index is that of the one that is not neutral
        const bool second = is_neutral(x);
        where.place = s.place;
        where.index = second ? s.other : s.index;
        for (int l = 0; l < s.depth; ++l)
          where.push(s.loops[l].count, s.loops[l].place, second ? s.loops[l].other : s.loops[l].index);
        one(x, y, where, s.same_index());
      });
    }
  return r;
}

}  // namespace partita::detail::checking
