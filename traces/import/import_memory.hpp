// The memory side of an import: a snapshot and its replay become the allocator's part of a Run.
//
// Who: import. Pure, deterministic.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "core/allocator/replay.hpp"
#include "core/run/run.hpp"
#include "traces/capture/capture.hpp"
#include "traces/capture/hooks.hpp"

namespace foreshard::traces {

struct MemoryInput {
  const Snapshot& snapshot;
  std::span<const Range> ranges;  ///< snapshot_ranges() of it
  const Hooks& hooks;             ///< find_hooks() of those
  const ReplayReport& replay;     ///< with the complete steps' begins as step_starts
  /// Of the k-th alloc entry; none, or behind the last: FSDP's ranges tell what they can.
  std::span<const std::optional<AllocationNote>> notes;
  const Labels& names;  ///< of the notes
};

/// Adds streams, allocator records, blocks (true sizes, categories, the innermost range that allocated them as
/// label), segments, annotations, and the snapshot's steps and phases. The default stream (handle 0) is the
/// compute stream; other handles get ids of their own after those that `run` has, since nothing ties them to the
/// profiler's stream numbers.
void add_memory(const MemoryInput& input, Run& run);

}  // namespace foreshard::traces
