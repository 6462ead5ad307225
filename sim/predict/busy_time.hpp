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

}  // namespace foreshard::sim
