// What the recorded or executed process measured with no profiler and no recording running.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "core/base/median.hpp"

namespace foreshard {

struct Measured {
  std::vector<double> step_ms;
  std::vector<double> host_issue_ms;  ///< the first entry is unthrottled: it began after a synchronise
  std::uint32_t cycle = 1;            ///< after how many steps their sizes repeat; 1: all are equal (Workload::cycle)
  /// Another rank, which this one waited for (core/straggler/straggler.hpp, from every rank's trace); −1: none is
  /// known. These steps are as long as that rank's then.
  std::int32_t late_rank = -1;
  /// It is late itself, as its trace shows, and not because some ranks have more work (late_with_more()).
  bool late_itself = false;

  /// Steps that are slower than those after them: first use, and a start from an idle GPU. The reference recorder
  /// leaves out as many (`step_ms_median`).
  static constexpr std::size_t kWarmUp = 2;

  /// The steps that are a training run's, milliseconds, ascending: all but the first kWarmUp; none where there were no
  /// more.
  [[nodiscard]] std::vector<double> steady_steps() const {
    const auto warm = static_cast<std::ptrdiff_t>(std::min(kWarmUp, step_ms.size()));
    std::vector<double> steps(step_ms.begin() + warm, step_ms.end());
    std::sort(steps.begin(), steps.end());
    return steps;
  }
  /// Their median, or where steps differ the mean of the last whole cycles among them (of all where there is no whole
  /// one), milliseconds; 0 where there are none.
  [[nodiscard]] double steady_ms() const {
    if (cycle < 2) return median(steady_steps());
    const std::size_t steady = step_ms.size() - std::min(kWarmUp, step_ms.size());
    const std::size_t whole = steady / cycle * cycle;
    const std::size_t count = whole > 0 ? whole : steady;
    if (count == 0) return 0;
    const double sum = std::accumulate(step_ms.end() - static_cast<std::ptrdiff_t>(count), step_ms.end(), 0.0);
    return sum / static_cast<double>(count);
  }
};

}  // namespace foreshard
