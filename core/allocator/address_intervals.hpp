// A set of addresses as disjoint half-open intervals. Internal to core/allocator's replay.
#pragma once

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>
#include <vector>

#include "core/base/quantity.hpp"

namespace foreshard::allocator_detail {

class AddressIntervals {
 public:
  using Interval = std::pair<Address, Address>;

  [[nodiscard]] bool overlaps(Address begin, Address end) const { return begin < end && !parts(begin, end).empty(); }

  void add(Address begin, Address end) {
    if (begin >= end) return;
    auto it = first_touching(begin);
    while (it != ends_.end() && it->first <= end) {
      begin = std::min(begin, it->first);
      end = std::max(end, it->second);
      it = ends_.erase(it);
    }
    ends_[begin] = end;
  }

  void remove(Address begin, Address end) {
    for (const Interval& part : parts(begin, end)) {
      const auto it = std::prev(ends_.upper_bound(part.first));
      const auto [whole_begin, whole_end] = *it;
      ends_.erase(it);
      if (whole_begin < part.first) ends_[whole_begin] = part.first;
      if (part.second < whole_end) ends_[part.second] = whole_end;
    }
  }

  /// The parts of [begin, end) that are in the set, ascending.
  [[nodiscard]] std::vector<Interval> parts(Address begin, Address end) const {
    std::vector<Interval> found;
    for (auto it = first_touching(begin); it != ends_.end() && it->first < end; ++it) {
      const Interval part{std::max(begin, it->first), std::min(end, it->second)};
      if (part.first < part.second) found.push_back(part);
    }
    return found;
  }

  /// The parts of [begin, end) that are not in the set, ascending.
  [[nodiscard]] std::vector<Interval> gaps(Address begin, Address end) const {
    std::vector<Interval> found;
    for (const Interval& part : parts(begin, end)) {
      if (begin < part.first) found.push_back({begin, part.first});
      begin = part.second;
    }
    if (begin < end) found.push_back({begin, end});
    return found;
  }

  /// All intervals, ascending.
  [[nodiscard]] const std::map<Address, Address>& all() const { return ends_; }

 private:
  /// The first interval that ends at or after `begin`.
  [[nodiscard]] std::map<Address, Address>::const_iterator first_touching(Address begin) const {
    auto it = ends_.upper_bound(begin);
    if (it != ends_.begin() && std::prev(it)->second >= begin) --it;
    return it;
  }

  std::map<Address, Address> ends_;  // by begin
};

}  // namespace foreshard::allocator_detail
