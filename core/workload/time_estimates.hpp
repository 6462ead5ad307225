// Which of a workload's estimates are about its time alone, so that its memory is known in spite of them.
//
// Who: core/models writes them, sim/predict tells them apart. Pure.
#pragma once

#include <string_view>

namespace foreshard {

/// What an estimate of an optimizer on the CPU begins with.
inline constexpr std::string_view kCpuOptimizerEstimate = "the optimizer runs on the CPU";

/// Of Workload::estimates.
[[nodiscard]] constexpr bool is_of_time_alone(std::string_view estimate) {
  return estimate.starts_with(kCpuOptimizerEstimate);
}

}  // namespace foreshard
