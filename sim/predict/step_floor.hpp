// What no order of a step's ops can beat: each stream of kernels, each communicator and the host do one thing after
// another, and none of it is shorter than alone.
//
// Who: host_bound(), whose simulation writes the log; tune, which prunes by it and says how far from it it ended.
// Pure.
#pragma once

#include <algorithm>
#include <cstddef>

#include "sim/engine/device_log.hpp"

namespace foreshard::sim {

/// Milliseconds of one step; all 0: not known.
struct StepFloor {
  double compute_ms = 0;  ///< kernels and copies of the compute stream, each alone
  double links_ms = 0;    ///< collectives of the communicator that has most, each alone
  double host_ms = 0;     ///< host work, waits for the device left out

  [[nodiscard]] double ms() const { return std::max({compute_ms, links_ms, host_ms}); }
};

/// Of a log of `steps` steps that issue the same. The host's is not in a log.
[[nodiscard]] StepFloor step_floor(const DeviceLog& log, std::size_t steps);

}  // namespace foreshard::sim
