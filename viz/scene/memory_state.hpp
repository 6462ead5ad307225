// What the allocator holds at one moment, and how each of its events changes that.
//
// Used by memory_series.hpp and by viz/pack. Pure; deterministic.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/run/run.hpp"
#include "viz/scene/block_groups.hpp"
#include "viz/scene/palette.hpp"

namespace foreshard::viz {

/// Bytes, as torch.cuda.memory_stats counts them (caching allocator 7).
struct MemoryState {
  std::array<std::int64_t, kCategories> category{};  ///< of allocated bytes; or by group (BlockGroups) where asked for
  std::int64_t allocated = 0;
  std::int64_t active = 0;  ///< allocated, and freed blocks that wait for an event
  std::int64_t reserved = 0;
  std::int64_t requested = 0;  ///< of active blocks, before rounding
};

/// The statistics' names, and their values in that order.
inline constexpr std::array<std::string_view, 4> kStatistics{"allocated", "active", "reserved", "requested"};
[[nodiscard]] constexpr std::array<std::int64_t, kStatistics.size()> statistics_of(const MemoryState& state) {
  return {state.allocated, state.active, state.reserved, state.requested};
}

/// As many groups as MemoryState has room for, beside the blocks without a name and the others.
inline constexpr std::size_t kMaxGroups = kCategories - 2;

/// What an event's block counts for.
struct BlockBytes {
  std::int64_t size = 0;       ///< of allocated and active bytes
  std::int64_t requested = 0;  ///< of requested bytes
  MemoryCategory category = MemoryCategory::other;
};
/// Of alloc and free_* events. A block never seen allocated counts by the event's size, rounded as the allocator does.
[[nodiscard]] BlockBytes block_bytes(const Run& run, const AllocatorRecord& record);

/// The state after `record`. `groups`: of at most kCategories titles, whose bytes are kept in the categories' place;
/// null: by category.
void apply(const Run& run, const AllocatorRecord& record, MemoryState& state, const BlockGroups* groups = nullptr);

/// What was there before the first event: the final state less everything that happened; without a final state,
/// as little as keeps every statistic from falling below 0. Its category is `other`, its group the one without a name.
[[nodiscard]] MemoryState before_first(const Run& run, const BlockGroups* groups = nullptr);

}  // namespace foreshard::viz
