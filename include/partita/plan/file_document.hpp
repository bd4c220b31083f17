// What a plan file holds: its keys, as structs that are reflected into JSON and back.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <boost/hana/define_struct.hpp>

namespace partita {

inline constexpr int plan_file_version = 3;  // 2 had no nodes and no lists of devices

namespace plan_file {
using counts = std::map<std::string, int>;
struct cut {
  BOOST_HANA_DEFINE_STRUCT(cut, (std::string, mode),                  // the cut's name
                           (std::optional<std::string>, axis),        // absent: replicas
                           (std::optional<std::string>, letter),      // where the axis is bound to two letters of the op
                           (int, pieces), (std::vector<int>, sizes),  // absent: even
                           (std::optional<bool>, fold),               // piece i is chunks i and 2n-1-i of 2n
                           (std::optional<std::string>,
                            skew));  // in time: the dimension whose coordinate says with which piece to begin
};
struct dimension {
  BOOST_HANA_DEFINE_STRUCT(dimension, (std::string, name), (int, extent),
                           (std::optional<int>, at));  // one coordinate; absent: all of them
};
struct op {
  BOOST_HANA_DEFINE_STRUCT(op, (std::string, name), (std::vector<plan_file::cut>, cuts),
                           (std::optional<std::vector<plan_file::dimension>>, grid),  // absent: inherited; empty: device 0
                           (std::optional<std::vector<int>>, devices),  // of the grid, one by one; absent: as they are numbered
                           (std::optional<counts>, phases));            // coordinates in time
};
struct node {                                                 // between ops
  BOOST_HANA_DEFINE_STRUCT(node, (std::string, what),         // "move": to readers; "accumulate": the sum over time
                           (std::string, of),                 // the op that makes the tensor
                           (std::optional<int>, output),      // which of its outputs; absent: the first
                           (std::optional<std::string>, to),  // an op that reads it; absent: all
                           (std::vector<plan_file::cut>, cuts), (std::optional<std::vector<plan_file::dimension>>, grid),
                           (std::optional<std::vector<int>>, devices));
};
struct moment {
  BOOST_HANA_DEFINE_STRUCT(moment, (std::optional<std::string>, op),
                           (std::optional<plan_file::node>, node),  // without cuts and grid: those of `nodes`
                           (std::optional<std::string>, pass), (std::optional<counts>, at),  // dimensions and phases: coordinates
                           (std::optional<counts>, index));                                  // modes: indices
};
struct order {  // moments one after another; of a list of links, what no op has is left out
  BOOST_HANA_DEFINE_STRUCT(order, (std::vector<plan_file::moment>, moments), (std::optional<bool>, links));
};
struct preference {
  BOOST_HANA_DEFINE_STRUCT(preference, (plan_file::moment, moment), (int, priority));
};
struct document {
  BOOST_HANA_DEFINE_STRUCT(document, (std::string, format), (int, version),
                           (std::map<std::string, int>, extents),  // for which the plan was made
                           (std::vector<plan_file::op>, ops), (std::vector<plan_file::node>, nodes),
                           (std::vector<plan_file::order>, orders), (std::vector<plan_file::preference>, priorities));
};
}  // namespace plan_file

}  // namespace partita
