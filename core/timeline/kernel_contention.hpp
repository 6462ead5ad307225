// How much longer kernels take because collectives run beside them. Used by core/explain_time. Pure.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/run/run.hpp"
#include "core/timeline/isolated_durations.hpp"
#include "core/timeline/places.hpp"
#include "core/timeline/start_order.hpp"

namespace foreshard {

struct KernelContention {
  std::map<std::string, Nanoseconds> of_phase;  ///< of the step's compute, by phase; none without any
  Nanoseconds unknown;  ///< of it: overlapped work whose kernels were never isolated in the recording
};

/// Of any number of steps: what they share is worked out once. `run` must outlive it.
class KernelContentions {
 public:
  explicit KernelContentions(const Run& run);

  /// In [begin, end) of the compute stream. What a kernel takes beyond its isolated time (isolated_durations.hpp)
  /// counts, at most the time for which it was overlapped.
  [[nodiscard]] KernelContention in(const Places& places, Nanoseconds begin, Nanoseconds end) const;

 private:
  const Run& run_;
  std::vector<ComputeOp> ops_;  // by start
  StartOrder order_;            // of them
  std::vector<std::optional<Nanoseconds>> isolated_;
};

}  // namespace foreshard
