// What of a run is not shown where its times count allocator events: what the device runs, which has another clock.
//
// Who: cli's view, viz/serve. Pure.
#pragma once

#include "core/run/plan_results.hpp"
#include "core/run/run.hpp"

namespace foreshard::viz {

/// Takes the device's ops out of a run whose times count events (counts_events()), before it is shown: they have the
/// simulation's clock, on which collectives take time and kernels none, and no place among events. Of other runs
/// nothing.
inline void leave_out_device_clock(Run& run) {
  if (counts_events(run)) run.device_ops.clear();
}

}  // namespace foreshard::viz
