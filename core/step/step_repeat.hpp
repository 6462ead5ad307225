// Whether a step repeats the one before: the allocator begins it as it began that one, so that the same program makes
// the same requests of the same free blocks.
//
// Who: step_runner.cpp. Pure.
#pragma once

#include <vector>

#include "core/allocator/snapshot.hpp"

namespace foreshard {

/// Whether every segment and block, its stream, pool, state and sizes are equal, and none waits for an event: when that
/// completes is the device's.
[[nodiscard]] bool begins_alike(const std::vector<SnapshotSegment>& step, const std::vector<SnapshotSegment>& before);

}  // namespace foreshard
