// One run in a few numbers: its step time, and its last step's phases and memory.
//
// Who: `compare` sets two runs' side by side, `import` prints one's at its end. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/run/run.hpp"

namespace foreshard {

struct StepTime {
  double ms = 0;
  std::string_view source;  ///< "predicted", "measured" or "profiled" (slower than it really is)
};

/// The step time of a run: predicted, else the median of the unprofiled steps that were measured, the first two
/// left out as warm-up where more than four were, else the last profiled step's host time; none: no step was recorded.
[[nodiscard]] std::optional<StepTime> step_time(const Run& run);

/// A step by its index; none: the last one.
using WantedStep = std::optional<std::int32_t>;

/// The wanted step of the recordings that saw memory; null where none did.
[[nodiscard]] const StepRecord* memory_step(const Run& run, const WantedStep& wanted = {});

/// Host milliseconds by phase of the wanted step, in the order of the run; of the recording that saw the
/// device, else of that which saw memory.
[[nodiscard]] std::vector<std::pair<std::string, double>> phases_ms(const Run& run, const WantedStep& wanted = {});

}  // namespace foreshard
