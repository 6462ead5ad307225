// What a capture's device ops tell about the GPU: the gap between kernels that were already queued.
//
// Used by cli's `calibrate` for run stores. Pure.
#pragma once

#include "core/run/run.hpp"
#include "sim/calibrate/measurements.hpp"

namespace foreshard::sim {

/// Pairs of neighbouring kernels of one stream of which the second was issued before the first began, so that nothing
/// but the GPU lay between them, and while no collective was issued and unfinished (those gaps are longer:
/// /latencies/kernel_gap_all_gather). The sample has no host factor: that needs the workload
/// (sim/predict/host_scale.hpp).
[[nodiscard]] CaptureSample capture_sample(const Run& run);

}  // namespace foreshard::sim
