// Memory of a process that has run for long, where freed blocks wait for the GPU's events (Tensor.record_stream).
//
// The host issues a step sooner than the GPU ends it and goes further ahead with each one, until a launch queue is full
// and holds it (MachineProfile::launch_queue). Until then more and more freed blocks wait for their events, and
// reserved memory grows: of a GPU-bound step of a hundred launches for ten steps, of one of thousands in the second
// alone. What the first steps reserve, which a recording shows, is not what such a training comes to.
//
// Who: predict(). Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/error.hpp"
#include "core/base/units.hpp"
#include "core/settings/settings.hpp"
#include "core/workload/workload.hpp"
#include "sim/machine/profile.hpp"
#include "sim/predict/simulate.hpp"

namespace foreshard::sim {

/// So many steps are played until memory has settled, at most.
inline constexpr std::int32_t kMaxStepsToSettle = 64;

struct SettledMemory {
  Bytes reserved = 0;          ///< the largest of any step that was played, or until it ran out of memory
  std::int32_t step = 0;       ///< the first step, from 0, that reserves as much; the one that ran out of memory
  bool grows = false;          ///< it, or how far the host is ahead, still grew in the last step, below the limit
  bool out_of_memory = false;  ///< a step ran out of memory
  // Where the limit is met on the way, which makes the allocator wait for the GPU (a retry):
  std::int32_t first_retry = 0;        ///< the first step, from 1, with one
  std::int32_t steps = 0;              ///< from it to the last that was played; 0: none has one
  std::int64_t num_alloc_retries = 0;  ///< of these
  Nanoseconds step_time;               ///< their mean; in a Prediction anchored as its step
};

/// Plays `simulation`, whose steps are all alike, on a host of `host_scale` until it has settled; none: a step never
/// ends. Fails where simulate() does.
[[nodiscard]] Result<std::optional<SettledMemory>> settled_memory(const Workload& adapted, const Settings& settings,
                                                                  const MachineProfile& machine,
                                                                  SimulationRequest simulation, double host_scale);

}  // namespace foreshard::sim
