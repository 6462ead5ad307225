// Sorted stretches that may overlap: those that reach into a window, found without looking at all. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "core/base/quantity.hpp"

namespace foreshard {

class StartOrder {
 public:
  /// Adds a stretch that starts no earlier than those before it.
  void add(Nanoseconds start, Nanoseconds end) {
    starts_.push_back(start);
    latest_ends_.push_back(latest_ends_.empty() ? end : std::max(latest_ends_.back(), end));
  }

  /// Places [first, last): all that end after `begin` and start before `end` are among them.
  [[nodiscard]] std::pair<std::size_t, std::size_t> reaching(Nanoseconds begin, Nanoseconds end) const {
    const auto first = std::upper_bound(latest_ends_.begin(), latest_ends_.end(), begin);
    const auto last = std::lower_bound(starts_.begin(), starts_.end(), end);
    const auto from = static_cast<std::size_t>(first - latest_ends_.begin());
    return {from, std::max(from, static_cast<std::size_t>(last - starts_.begin()))};
  }

 private:
  std::vector<Nanoseconds> starts_;
  std::vector<Nanoseconds> latest_ends_;  // of the stretches up to each
};

}  // namespace foreshard
