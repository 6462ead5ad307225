// MFU: a step's FLOPs over what the GPU's data sheet allows in its time. Of a model its kernels' (model_flops.hpp), of
// a recording what its parameters and tokens say (recorded_flops.hpp).
//
// Who: predict.cpp, and the answer of a stored run that no plan answered for. Pure.
#pragma once

#include <string>
#include <vector>

#include "core/run/step_shapes.hpp"
#include "core/settings/settings.hpp"
#include "core/workload/workload.hpp"
#include "sim/machine/profile.hpp"

namespace foreshard::sim {

struct Utilization {
  double value = 0;      ///< 0: not known
  std::string rests_on;  ///< in words, where it is known: what the FLOPs are counted from
  std::string unknown;   ///< why not, where it is not; empty without a time
};

/// Of the last step of `workload` under `settings`, dense, in the dtype of most FLOPs. Of a recording whose ranks were
/// given other batches or lengths the mean of them: `ranks` has each one's.
[[nodiscard]] Utilization model_flops_utilization(const Workload& workload, const Settings& settings,
                                                  const GpuPeaks& peaks, double step_ms,
                                                  const std::vector<StepShape>& ranks = {});

}  // namespace foreshard::sim
