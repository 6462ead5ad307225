// Which collectives the compute stream of a plan waits for: what a search moves first, since only what is exposed can
// be gained.
//
// Who: sim/tune. Pure; deterministic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/device/collective.hpp"
#include "core/explain_time/time_explanation.hpp"
#include "core/run/run.hpp"

namespace foreshard::sim {

/// One unit's gathers or reductions in one pass, with the cause that most of the wait for them has.
struct Exposed {
  CollectiveKind kind = CollectiveKind::all_gather;
  std::uint32_t unit = 0;  ///< in Run::units
  bool backward = false;
  IdleCause cause = IdleCause::prefetch;
  double ms = 0;  ///< that the compute stream waits
};

struct Waits {
  std::vector<Exposed> exposed;  ///< the longest first
  std::string headline;          ///< why the step is not faster: time_headline()
  std::vector<Unit> units = {};  ///< the run's, as its settings group them
};

/// Of the steady step of a plan with all of its records. `slowed`: whether the headline says what kernels lose beside
/// collectives.
[[nodiscard]] Result<Waits> waits_of(const Run& run, SlowedKernels slowed = SlowedKernels::looked_for);

}  // namespace foreshard::sim
