// How much the times of equal ops differ in a recording of several steps or ranks, as the jitter of a plan.
#pragma once

#include <optional>
#include <string>

#include "core/run/run.hpp"
#include "sim/ranks/jitter.hpp"

namespace foreshard::sim {

struct RecordedJitter {
  Jitter jitter;
  std::string rests_on;  ///< which steps, ranks and ops it was read off, and what was left out
};

/// Of the steps and ranks that issue the same ops, the most that do. Kernels of the compute stream that no collective
/// runs beside (what they lose beside one the simulation makes itself), and the host's time between two launches where
/// it is too short for one that was blocked (kBlockedLaunch). The factor of one rank's step (`gpus`, `hosts`) is its
/// sum over the mean of all; `kernels` and `host` are what is left of each op once that is taken off, such that
/// independent draws of it add up to as much. None of a plan, and where no two steps or ranks issue the same.
[[nodiscard]] std::optional<RecordedJitter> recorded_jitter(const Run& run);

}  // namespace foreshard::sim
