// The general redistribution, right for any two layouts: every device gets the parts of its piece from devices that have
// them. Chains of collectives are cheaper where there are any.
#pragma once
#include <algorithm>

#include <partita/core/list.hpp>
#include <partita/core/sort.hpp>
#include <partita/layout/box.hpp>

#include <partita/core/begin_planning_code.hpp>

namespace partita {

// A piece that a device has, or wants.
struct device_piece {
  int device = 0;
  int stored = 0;     // under which index in time
  list<int> partial;  // which partial result it is; equal ones are replicas
  box_list boxes;
};
// A box of `source` (an index) that a device wants.
struct delivery {
  int source = 0, wanted = 0;  // into the lists
  bool combines = false;       // with what came before, of another partial result
  box part;
};

// Who sends what to whom. Sources are sorted by partial result first, since results are combined in their order. Of
// replicas the reader's own is taken, else one chosen by the reader's number.
inline list<delivery> redistribute(list<device_piece>& sources, list<device_piece> const& wanted) {
  list<device_piece> sorted;
  for (int k : sorted_ids(sources.size(), [&](int a, int b) {
         return sources[static_cast<std::size_t>(a)].partial < sources[static_cast<std::size_t>(b)].partial;
       }))
    sorted.push_back(std::move(sources[static_cast<std::size_t>(k)]));
  sources = std::move(sorted);
  struct replicas {
    bool combines;
    list<int> holders;
  };
  list<replicas> distinct;
  for (std::size_t k = 0, first = 0; k < sources.size(); ++k) {
    if (k > 0 && sources[k].partial != sources[k - 1].partial) first = distinct.size();
    std::size_t r = first;
    while (r < distinct.size() && !(sources[static_cast<std::size_t>(distinct[r].holders[0])].boxes == sources[k].boxes)) ++r;
    if (r == distinct.size()) distinct.push_back({first > 0, {}});
    distinct[r].holders.push_back(static_cast<int>(k));
  }
  list<delivery> all;
  for (std::size_t w = 0; w < wanted.size(); ++w)
    for (replicas const& r : distinct) {
      box_list const& have = sources[static_cast<std::size_t>(r.holders[0])].boxes;
      int chosen = r.holders[w % r.holders.size()];
      for (int h : r.holders)
        if (sources[static_cast<std::size_t>(h)].device == wanted[w].device) {
          chosen = h;
          break;
        }
      for (int a = 0; a < have.count(); ++a)
        for (int b = 0; b < wanted[w].boxes.count(); ++b) {
          const box part = intersection(have[a], wanted[w].boxes[b]);
          if (part.elements() > 0) all.push_back({chosen, static_cast<int>(w), r.combines, part});
        }
    }
  return all;
}

// The most elements that a device sends or receives, and the most messages.
struct traffic {
  std::size_t elements = 0;
  int messages = 0;
};
inline traffic traffic_of(list<device_piece> const& sources, list<device_piece> const& wanted, list<delivery> const& all) {
  list<int> devices;
  list<traffic> sent, received;
  auto number = [&](int device) {
    const auto found = std::find(devices.begin(), devices.end(), device);
    if (found != devices.end()) return static_cast<std::size_t>(found - devices.begin());
    devices.push_back(device);
    sent.emplace_back();
    received.emplace_back();
    return devices.size() - 1;
  };
  auto count = [](traffic& t, delivery const& d) {
    t.elements += d.part.elements();
    ++t.messages;
  };
  for (delivery const& d : all) {
    const std::size_t from = number(sources[static_cast<std::size_t>(d.source)].device),
                      to = number(wanted[static_cast<std::size_t>(d.wanted)].device);
    if (from == to) continue;
    count(sent[from], d);
    count(received[to], d);
  }
  traffic most;
  for (std::size_t d = 0; d < devices.size(); ++d) {
    most.elements = std::max({most.elements, sent[d].elements, received[d].elements});
    most.messages = std::max({most.messages, sent[d].messages, received[d].messages});
  }
  return most;
}

}  // namespace partita

#include <partita/core/end_planning_code.hpp>
