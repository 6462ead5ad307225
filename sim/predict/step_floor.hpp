// What no order of a step's ops can beat: the compute stream, each communicator and the host do one thing after
// another, and none of it is shorter than alone.
//
// Who: simulate(); tune, which prunes by it and says how far from it it ended. Plain data.
#pragma once

#include <algorithm>

namespace foreshard::sim {

/// Milliseconds of one step; all 0: not known.
struct StepFloor {
  double compute_ms = 0;  ///< kernels and copies of the compute stream, each alone
  double links_ms = 0;    ///< collectives of the communicator that has most, each alone
  double host_ms = 0;     ///< host work, waits for the device left out

  [[nodiscard]] double ms() const { return std::max({compute_ms, links_ms, host_ms}); }
};

}  // namespace foreshard::sim
