// How a span of a run's device time is used: compute, communication, and communication that nothing hides.
#pragma once

#include "core/run/run.hpp"

namespace foreshard::sim {

struct BusyTime {
  Nanoseconds compute;                ///< union of ops on the compute stream
  Nanoseconds communication;          ///< union of collectives
  Nanoseconds exposed_communication;  ///< communication while no op runs on the compute stream
};

/// Of the device ops of `run` within [begin, end).
[[nodiscard]] BusyTime busy_time(const Run& run, Nanoseconds begin, Nanoseconds end);

/// Of the step that timed_step() reports (core/run/steady_step.hpp), from the end of the one before on the device;
/// nothing where those two ends are not known.
[[nodiscard]] BusyTime timed_step_busy(const Run& run);

}  // namespace foreshard::sim
