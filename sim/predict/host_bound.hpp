// Whether a step is bound by the host, which issues its ops, or by the GPU and its links.
#pragma once

#include <optional>

#include "core/base/error.hpp"
#include "core/workload/workload.hpp"
#include "sim/machine/profile.hpp"

namespace foreshard::sim {

struct HostBound {
  double step_ms = 0;      ///< with the host's own speed
  double faster_ms = 0;    ///< with a host that is faster by the range that was asked for
  double slower_ms = 0;    ///< … slower
  double gpu_step_ms = 0;  ///< with a host that costs nothing
  double host_ms = 0;      ///< host work of one step, waits for the device left out
  bool host_bound = false;
  /// Where that was asked for, it is not, and a host that is slower by the range makes the step longer by
  /// /prediction/step_excess: so many times as long its work takes where it begins to, waits for the device included,
  /// to 1 %.
  std::optional<double> binds_from;
  /// Of experts over ranks: with a host that does not wait for split sizes.
  std::optional<double> no_waits_ms;
};

/// Host-bound: the step exceeds one with a free host by the profile's /prediction/step_excess, or host work exceeds
/// host_share of it (time model 1.3 step 3, section 7). `workload` must be adapted to `settings`.
/// `host_range`: the logarithm of how much faster and slower the host may be; 0: not asked. `wants_binds_from`: find
/// HostBound::binds_from.
[[nodiscard]] Result<HostBound> host_bound(const Workload& workload, const Settings& settings,
                                           const MachineProfile& machine, double host_scale, double host_range = 0,
                                           bool wants_binds_from = false);

}  // namespace foreshard::sim
