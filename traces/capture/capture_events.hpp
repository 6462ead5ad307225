// The requests of a recorded process, in order: what its code asked of the allocator, with every free
// tied to its allocation. What the allocator did by itself (segments, completions) is left out, except
// for whether an allocation took a new segment.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/allocator/snapshot.hpp"
#include "core/base/quantity.hpp"

namespace foreshard::traces {

struct CaptureEvent {
  bool allocates = true;
  Address address = 0;
  Bytes size = 0;                 ///< the request, unrounded
  std::uint64_t stream = 0;       ///< raw handle
  Nanoseconds time;               ///< from the recording's first entry
  std::uint32_t partner = kNone;  ///< index of a free's allocation, or of an allocation's free; kNone: not recorded
  bool new_segment = false;

  static constexpr std::uint32_t kNone = 0xffffffffu;
};

/// Requests of `events`, times relative to `origin_us`.
[[nodiscard]] std::vector<CaptureEvent> capture_events(std::span<const AllocatorEvent> events, std::int64_t origin_us);

}  // namespace foreshard::traces
