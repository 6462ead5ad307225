// When the caching allocator holds the host up. Used by core/explain_time. Pure.
#pragma once

#include "core/base/time_spans.hpp"
#include "core/run/run.hpp"

namespace foreshard {

/// Host time that the caching allocator takes from the program, as sorted spans that do not overlap.
///
/// Where runtime calls were recorded: cudaMalloc and cudaFree of device memory, the virtual-memory calls of
/// expandable segments, and the synchronisation right before them (release_cached_blocks, CUDACachingAllocator.cpp of
/// PyTorch 2.11). Of a plan the calls that were simulated. Without either, on one clock: from the last thing the host
/// did to each segment_free, because segments are given back only after waiting for the GPU.
[[nodiscard]] TimeSpans allocator_waits(const Run& run, Recording recording);

/// Whether a plan has driver calls that take time: of one whose allocator gave nothing back there are none.
[[nodiscard]] bool has_simulated_calls(const Run& run);

}  // namespace foreshard
