// What of a run is not drawn where its times count allocator events: what the device runs, which has another clock.
//
// Who: viz/pack and viz/svg, through which all that is drawn over time goes. Pure.
#pragma once

#include <memory>

#include "core/run/plan_results.hpp"
#include "core/run/run.hpp"

namespace foreshard::viz {

/// A run whose times count events (counts_events()) without the device's ops: they have the simulation's clock, on
/// which collectives take time and kernels none, and no place among events. Null of other runs, which are drawn whole.
[[nodiscard]] inline std::unique_ptr<const Run> without_device_clock(const Run& run) {
  if (!counts_events(run) || run.device_ops.empty()) return nullptr;
  auto shown = std::make_unique<Run>(run);
  shown->device_ops.clear();
  return shown;
}

}  // namespace foreshard::viz
