// A snapshot's annotations as ranges, on a clock that begins with the recording's first entry.
//
// Who: the memory side of an import, `replay`. Pure, deterministic.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/allocator/snapshot.hpp"
#include "core/base/error.hpp"
#include "core/base/quantity.hpp"
#include "traces/capture/hooks.hpp"

namespace foreshard::traces {

/// The time of the earlier of the first event and the first annotation; 0 for an empty recording.
[[nodiscard]] std::int64_t snapshot_origin_us(const Snapshot& snapshot);
/// The time of the later of the last event and the last annotation.
[[nodiscard]] std::int64_t snapshot_end_us(const Snapshot& snapshot);

/// Ranges in the order of their starts; an END closes the newest open range of its name. A range that is
/// never closed ends one microsecond after the recording. Names point into `snapshot`.
[[nodiscard]] std::vector<Range> snapshot_ranges(const Snapshot& snapshot);

/// Fails (input) with the first range that ends before it starts: the clock was set, or the file damaged.
[[nodiscard]] Result<void> check_ranges(std::span<const Range> ranges);

/// For each time, ascending, the first event that is not earlier (caching allocator 10.2): where a step's
/// peaks are reset.
[[nodiscard]] std::vector<std::size_t> events_at(const Snapshot& snapshot, const std::vector<Nanoseconds>& times);

/// The units that FSDP's ranges name, without their parameters: the root, then by first appearance.
[[nodiscard]] std::vector<Unit> units_named(std::span<const Range> ranges);

}  // namespace foreshard::traces
