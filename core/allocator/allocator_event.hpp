// What the caching allocator does, as PyTorch's memory snapshot records it (caching allocator 9.2).
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/base/quantity.hpp"

namespace foreshard {

/// The nine kinds of trace entry of PyTorch 2.11. Values are stored; never renumber.
enum class AllocatorAction : std::uint8_t {
  alloc = 0,
  free_requested = 1,
  free_completed = 2,
  segment_alloc = 3,
  segment_free = 4,
  segment_map = 5,
  segment_unmap = 6,
  snapshot = 7,
  oom = 8,
  unknown = 9,  ///< an action of a newer PyTorch: kept, ignored in replay
};

inline constexpr std::array<std::string_view, 10> kAllocatorActionNames{
    "alloc",       "free_requested", "free_completed", "segment_alloc", "segment_free",
    "segment_map", "segment_unmap",  "snapshot",       "oom",           "unknown"};

/// One trace entry. `size`: alloc, free_*: the request, unrounded; segment_*: the segment or pages;
/// oom: the rounded request, with `address` the driver's free bytes.
struct AllocatorEvent {
  AllocatorAction action = AllocatorAction::alloc;
  Address address = 0;
  Bytes size = 0;
  std::uint64_t stream = 0;  ///< raw CUDA handle; 0 is the default stream
  std::int64_t time_us = 0;
  StackId stack = {};  ///< where it was called from; invalid: not recorded
};

enum class BlockState : std::uint8_t { live = 0, pending_free = 1, inactive = 2 };

/// One block of a snapshot's segment, in address order.
struct SnapshotBlock {
  Address address = 0;
  Bytes size = 0;
  Bytes requested_size = 0;  ///< stale for inactive blocks (caching allocator 3.2)
  BlockState state = BlockState::inactive;
  StackId stack = {};  ///< of its allocation; invalid: not recorded

  /// Where it lies and what it holds; a replay knows no stacks.
  bool operator==(const SnapshotBlock& other) const {
    return address == other.address && size == other.size && requested_size == other.requested_size &&
           state == other.state;
  }
};

}  // namespace foreshard
