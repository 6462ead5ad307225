// One run in a few numbers: its step time and its phases. Which step they are of: core/run/steady_step.hpp.
//
// Who: `compare` sets two runs' side by side, `import` prints one's at its end. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/run/run.hpp"
#include "core/run/steady_step.hpp"

namespace foreshard {

struct StepTime {
  double ms = 0;
  std::string_view source;  ///< "predicted", "measured" or "profiled" (a profiler slows the host)
};

/// The step time of a run: predicted, else the median of the unprofiled steps that were measured
/// (Measured::steady_ms), else the timed step's length on the GPU, or on the host where that is not known; none: no
/// step was recorded, or a plan failed (plan_failure()).
[[nodiscard]] std::optional<StepTime> step_time(const Run& run);

/// Host milliseconds by phase of the wanted step, in the order of the run: of timed_step(), else of memory_step();
/// nothing of a plan that failed.
[[nodiscard]] std::vector<std::pair<std::string, double>> phases_ms(const Run& run, const WantedStep& wanted = {});

}  // namespace foreshard
