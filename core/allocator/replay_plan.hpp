// A snapshot made ready for replay: entries with small stream and pool ids, each free joined to its
// completion, and the state before the first entry. Internal to core/allocator's replay.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/allocator/replay.hpp"

namespace foreshard::allocator_detail {

inline constexpr std::size_t kNever = static_cast<std::size_t>(-1);

/// One entry of the trace that the allocator makes; `snapshot` and unknown actions are left out.
struct ReplayEntry {
  AllocatorAction action = AllocatorAction::alloc;
  Address address = 0;
  Bytes size = 0;
  StreamId stream;
  PoolId pool = kDefaultPool;       ///< of an alloc
  std::size_t index = 0;            ///< in Snapshot::events
  std::size_t completion = kNever;  ///< of a free_requested: the entry of its free_completed
};

[[nodiscard]] inline bool is_release(const ReplayEntry& entry) {
  return entry.action == AllocatorAction::segment_free || entry.action == AllocatorAction::segment_unmap;
}
[[nodiscard]] inline bool is_growth(const ReplayEntry& entry) {
  return entry.action == AllocatorAction::segment_alloc || entry.action == AllocatorAction::segment_map;
}

/// A virtual range that held mapped pages when recording began.
struct InitialRange {
  Address base = 0;
  StreamId stream;
  bool small_pool = false;
  PoolId pool = kDefaultPool;
};

/// Segments as for CachingAllocator::adopt_segment: `stream` is a StreamId, gaps between blocks are free.
struct InitialSegment {
  SnapshotSegment segment;
  PoolId pool = kDefaultPool;
};

/// A block that was pending when recording began; `completion` as in ReplayEntry.
struct InitialPending {
  Address address = 0;
  std::size_t completion = kNever;
};

struct InitialState {
  std::vector<InitialRange> ranges;
  std::vector<InitialSegment> segments;  ///< by address
  std::vector<InitialPending> pending;   ///< by address
};

struct ReplayPlan {
  AllocatorConfig config;
  std::vector<std::uint64_t> streams;  ///< raw handles, ascending: StreamId k stands for streams[k]
  std::vector<std::pair<std::uint64_t, std::uint64_t>> pool_ids;  ///< PoolId k stands for pool_ids[k − 1]
  std::vector<PoolOptions> pool_options;                          ///< beside pool_ids
  std::vector<ReplayEntry> entries;
  std::vector<InitialSegment> final_segments;  ///< the snapshot's, with ids
  InitialState initial;
  std::uint64_t ignored_events = 0;
};

[[nodiscard]] Result<ReplayPlan> make_plan(const Snapshot& snapshot, const ReplayOptions& options,
                                           const AllocatorConfig& config);

/// 10.1: the segments and blocks before the first entry. Needs everything else of the plan.
[[nodiscard]] Result<InitialState> reconstruct(const ReplayPlan& plan);

/// The smallest address range that a range's pages may span if the device's memory is not known: 128 GiB,
/// less than the 157 GiB by which the ranges of an H200 lie apart (measured, caching allocator 4.1).
inline constexpr Bytes kRangeReach = 128 * kGiB;

}  // namespace foreshard::allocator_detail
