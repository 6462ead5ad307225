// What the recorded or executed process measured with no profiler and no recording running.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "core/base/median.hpp"

namespace foreshard {

struct Measured {
  std::vector<double> step_ms;
  std::vector<double> host_issue_ms;  ///< the first entry is unthrottled: it began after a synchronise

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
  /// Their median; 0 where there are none.
  [[nodiscard]] double steady_median() const { return median(steady_steps()); }
  /// Mean of the last whole cycles of `cycle` steps among them, of all where there is no whole one; 0 where there are
  /// none.
  [[nodiscard]] double steady_mean(std::size_t cycle) const {
    const std::size_t steady = step_ms.size() - std::min(kWarmUp, step_ms.size());
    const std::size_t whole = steady / cycle * cycle;
    const std::size_t count = whole > 0 ? whole : steady;
    if (count == 0) return 0;
    return std::accumulate(step_ms.end() - static_cast<std::ptrdiff_t>(count), step_ms.end(), 0.0) /
           static_cast<double>(count);
  }
};

}  // namespace foreshard
