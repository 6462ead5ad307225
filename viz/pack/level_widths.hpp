// The bucket widths of the levels of detail, the same for memory, lanes and blocks.
//
// Used by viz/pack. Pure; deterministic.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/base/quantity.hpp"

namespace foreshard::viz {

/// The coarsest level has about as many buckets as a wide screen has pixels; each next one four times as many, so
/// that some level has one to four buckets a pixel at every zoom.
inline constexpr std::int64_t kCoarsestBuckets = 2048;
inline constexpr std::int64_t kFiner = 4;

[[nodiscard]] inline Nanoseconds coarsest_width(Nanoseconds length) {
  return {std::max<std::int64_t>(length.count / kCoarsestBuckets, 1)};
}

}  // namespace foreshard::viz
