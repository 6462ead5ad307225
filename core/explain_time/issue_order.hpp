// A run's device ops by when the host issued them: a step finds its own without looking at the others'. Private to
// core/explain_time.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "core/run/run.hpp"

namespace foreshard::explain_time_detail {

class IssueOrder {
 public:
  explicit IssueOrder(const Run& run) : run_(run), by_issue_(run.device_ops.size()) {
    std::iota(by_issue_.begin(), by_issue_.end(), std::size_t{0});
    std::stable_sort(by_issue_.begin(), by_issue_.end(),
                     [&](std::size_t a, std::size_t b) { return run.device_ops[a].issue < run.device_ops[b].issue; });
  }

  /// Issued in [from, to), in the order of the run's.
  [[nodiscard]] std::vector<std::size_t> issued(Nanoseconds from, Nanoseconds to) const {
    const auto before = [this](std::size_t op, Nanoseconds time) { return run_.device_ops[op].issue < time; };
    const auto first = std::lower_bound(by_issue_.begin(), by_issue_.end(), from, before);
    std::vector<std::size_t> out(first, std::lower_bound(first, by_issue_.end(), std::max(from, to), before));
    std::sort(out.begin(), out.end());
    return out;
  }

 private:
  const Run& run_;
  std::vector<std::size_t> by_issue_;
};

}  // namespace foreshard::explain_time_detail
