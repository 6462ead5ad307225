// When more than one thing ran on a rank's GPU, or on the links between nodes: what runs beside a kernel or a
// collective makes it longer, and by how much no recording says. Alone, it takes its isolated time.
//
// Who: kernel_kinds.cpp and group_fit.cpp, which hold like against like. Pure; sorting apart, linear in the rank's ops.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/base/time_spans.hpp"
#include "core/run/run.hpp"

namespace foreshard::straggler_detail {

/// Of sets of spans, each of which may touch: when two of the sets or more have one at the same time.
[[nodiscard]] TimeSpans several_at_once(const std::vector<TimeSpans>& sets);

class RunsBeside {
 public:
  /// Of all recorded ranks' streams.
  explicit RunsBeside(const Run& run);

  /// When two streams of one of the ranks or more were busy, within [from, to).
  [[nodiscard]] Nanoseconds during(const std::vector<std::uint32_t>& ranks, Nanoseconds from, Nanoseconds to) const;
  [[nodiscard]] Nanoseconds during(std::uint32_t rank, Nanoseconds from, Nanoseconds to) const;

 private:
  std::map<std::uint32_t, TimeSpans> busy_;  ///< by rank
};

/// What runs beside something else for at most this share of its time counts as alone, as in
/// core/timeline/isolated_durations.hpp.
inline constexpr double kAloneShare = 0.02;

[[nodiscard]] inline bool is_alone(Nanoseconds beside, Nanoseconds time) {
  return static_cast<double>(beside.count) <= kAloneShare * static_cast<double>(time.count);
}

}  // namespace foreshard::straggler_detail
