// What one capture tells about its own process: how much the profiler slowed its host, and by how much
// the slowest rank exceeds this one (docs/model.md, "Calibration").
#pragma once

#include <optional>

#include "core/base/error.hpp"
#include "core/workload/workload.hpp"
#include "sim/machine/profile.hpp"

namespace foreshard::sim {

struct HostScale {
  double factor = 1;  ///< f: captured host intervals times this are the unprofiled host's
  enum class Source : std::uint8_t {
    none = 0,        ///< no measured times: f = 1
    first_step = 1,  ///< simulated host time of a first step from idle = measured
    typical = 2,     ///< the launch queue throttled the first step: the reference runs' typical factor
    steady = 3,      ///< the steady step of a host-bound capture asked for a smaller one
  };
  Source source = Source::none;
  /// The same for the clock of the recorded steps, which memory-history recording slows: what decides when
  /// record_stream's frees are seen in the steps whose peaks a recording reports.
  double recorded_factor = 1;
  double anchor = 1;  ///< k: measured steady step / simulated, of a GPU-bound capture whose steps repeat and whose
                      ///< ranks keep up; else 1
  std::int32_t late_rank = -1;  ///< Measured::late_rank: what was measured is that rank's step, not this one's
  bool host_bound = false;      ///< the captured settings
  double measured_ms = 0;   ///< median of the unprofiled steps after the first two, or where steps differ the mean of
                            ///< whole cycles (Measured::steady_ms); 0: not measured
  double simulated_ms = 0;  ///< the captured settings, simulated with the factor, before the anchor
  double spread = 0;  ///< (second largest − second smallest) / measured_ms of those steps; where they differ, of
                      ///< their distances from the mean of their place in the cycle
};

/// Whether the recording shows that its steps repeat, so that as many measured ones have the same sizes in sum: every
/// step of a cycle has been seen twice. The first counts where its size is known to be the cycle's. Steps that are
/// equal repeat.
[[nodiscard]] bool steps_repeat(const Workload& workload);

/// Calibrates from `workload` at its own settings, on the machine that it was recorded on: `machine`, or the built-in
/// profile of its GPU where that is another one (recorded_elsewhere()). Fails only where run_steps() fails.
[[nodiscard]] Result<HostScale> find_host_scale(const Workload& workload, const MachineProfile& machine);

}  // namespace foreshard::sim
