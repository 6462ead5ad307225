// What the recorded or executed process measured with no profiler and no recording running.
#pragma once

#include <algorithm>
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
};

}  // namespace foreshard
