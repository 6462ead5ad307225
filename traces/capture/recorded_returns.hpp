// When each freed block of a recording came back to the allocator.
#pragma once

#include <span>

#include "core/allocator/allocator_event.hpp"
#include "core/workload/workload.hpp"

namespace foreshard::traces {

/// Frees whose free_completed entry came after further allocations. One that never came back counts as back
/// after the recording's last allocation.
[[nodiscard]] RecordedReturns recorded_returns(std::span<const AllocatorEvent> events);

}  // namespace foreshard::traces
