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
  bool late = false;  ///< a free after which the allocator kept the block: a stream had yet to pass it (record_stream)

  static constexpr std::uint32_t kNone = 0xffffffffu;
};

/// Blocks that were freed before the recording and came back in it, in order: their completions have no request.
[[nodiscard]] std::vector<AllocatorEvent> freed_before(std::span<const AllocatorEvent> events);

/// Requests of `events`, times relative to `origin_us`. Those of freed_before() are frees of blocks older than the
/// recording, in front of all others.
[[nodiscard]] std::vector<CaptureEvent> capture_events(std::span<const AllocatorEvent> events, std::int64_t origin_us);

}  // namespace foreshard::traces
