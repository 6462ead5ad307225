// How much longer kernels take because collectives run beside them. Used by core/explain_time. Pure.
#pragma once

#include <map>
#include <string>

#include "core/run/run.hpp"
#include "core/timeline/places.hpp"

namespace foreshard {

struct KernelContention {
  std::map<std::string, Nanoseconds> of_phase;  ///< of the step's compute, by phase; none without any
  Nanoseconds unknown;  ///< of it: overlapped work whose kernels were never isolated in the recording
};

/// In [begin, end) of the compute stream. What a kernel takes beyond its isolated time (isolated_durations.hpp) counts,
/// at most the time for which it was overlapped.
[[nodiscard]] KernelContention kernel_contention(const Run& run, const Places& places, Nanoseconds begin,
                                                 Nanoseconds end);

}  // namespace foreshard
