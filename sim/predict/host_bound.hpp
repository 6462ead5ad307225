// Whether a step is bound by the host, which issues its ops, or by the GPU and its links.
#pragma once

#include "core/base/error.hpp"
#include "core/workload/workload.hpp"
#include "sim/machine/profile.hpp"

namespace foreshard::sim {

struct HostBound {
  double step_ms = 0;      ///< with the host's own speed
  double gpu_step_ms = 0;  ///< with a host that costs nothing
  double host_ms = 0;      ///< host work of one step, waits for the device left out
  bool host_bound = false;
};

/// Host-bound: the step exceeds one with a free host by the profile's /prediction/step_excess, or host work exceeds
/// host_share of it (time model 1.3 step 3, section 7). `workload` must be adapted to `settings`.
[[nodiscard]] Result<HostBound> host_bound(const Workload& workload, const Settings& settings,
                                           const MachineProfile& machine, double host_scale);

}  // namespace foreshard::sim
