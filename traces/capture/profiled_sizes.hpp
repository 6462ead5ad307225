// Which of a recording's sizes each profiled step has. Inner part of step_sizes.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "traces/capture/step_sizes.hpp"
#include "traces/capture/timing.hpp"

namespace foreshard::traces {

struct ProfiledSizes {
  static constexpr std::size_t kNone = SIZE_MAX;
  std::vector<std::size_t> size_of;  ///< by profiled step; kNone: it has none of the recorded sizes
  std::vector<double> bytes;         ///< by profiled step: of its activations
  bool assumed = false;              ///< another assignment fits as well, or none does
};

/// Sizes of a step's own hooks that its attention allows, at the least difference between the ratios of activations and
/// those of elementwise kernels' grids. A step that fits none of them is as large as its grids say beside one that
/// fits.
[[nodiscard]] ProfiledSizes profiled_sizes(const StepSizes& sizes, std::span<const StepTiming* const> profiled);

}  // namespace foreshard::traces
