// A memory snapshot as plain data: what torch.cuda.memory._snapshot() holds for one device.
// Read by traces/pytorch, replayed by core/allocator/replay.hpp, made by CachingAllocator::snapshot().
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/allocator/allocator_event.hpp"
#include "core/allocator/call_stacks.hpp"

namespace foreshard {

struct SnapshotSegment {
  std::uint32_t device = 0;
  Address address = 0;
  Bytes total_size = 0;
  Bytes allocated_size = 0;
  Bytes active_size = 0;
  Bytes requested_size = 0;
  std::uint64_t stream = 0;
  bool small_pool = false;
  std::pair<std::uint64_t, std::uint64_t> pool_id{0, 0};
  bool is_expandable = false;
  std::vector<SnapshotBlock> blocks;
};

/// One record_function range boundary (`external_annotations`).
struct SnapshotAnnotation {
  bool start = true;
  std::string name;
  std::uint32_t device = 0;
  std::int64_t time_us = 0;
};

/// The allocator settings that a snapshot names (caching allocator 9.2).
struct SnapshotSettings {
  std::string alloc_conf;
  std::int64_t max_split_size = -1;  ///< −1: unlimited
  double garbage_collection_threshold = 0;
  bool expandable_segments = false;
  std::uint64_t history_entries = 0;  ///< length of the ring of events, 2.13 and later; 0: not said
  bool history_overflowed = false;    ///< the ring was full before the snapshot: events lack their beginning
};

struct Snapshot {
  std::uint32_t device = 0;
  std::vector<SnapshotSegment> segments;  ///< by address
  std::vector<AllocatorEvent> events;     ///< in the order of the device's lock
  std::vector<SnapshotAnnotation> annotations;
  SnapshotSettings settings;
  CallStacks stacks;  ///< of events and of the segments' blocks
};

}  // namespace foreshard
