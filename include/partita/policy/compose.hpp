// Policies one inside the other: the dimensions of a later policy lie inside those of earlier ones.
#pragma once
#include <boost/hana/for_each.hpp>
#include <boost/hana/tuple.hpp>

#include <partita/plan/plan.hpp>

namespace partita::policy {

template <class... Policies> struct compose {
  constexpr void operator()(auto& plan) const {
    boost::hana::for_each(boost::hana::tuple<Policies...>{}, [&](auto one) { one(plan); });
  }
};

}  // namespace partita::policy
