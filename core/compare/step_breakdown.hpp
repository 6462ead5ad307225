// One step's time, split by phase and cause. Used by core/compare and core/explain_time; the rules are in
// docs/compare.md.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/compare/compare.hpp"
#include "core/compare/places.hpp"
#include "core/run/run.hpp"

namespace foreshard {

/// By phase and cause; adds up to step.end − step.begin.
using StepBreakdown = std::map<std::pair<std::string, TimeCause>, Nanoseconds>;

/// Sets `step.contention_unknown`.
[[nodiscard]] StepBreakdown step_breakdown(const Run& run, const Places& places, TimedStep& step);

/// Host time that the caching allocator takes from the program, as sorted spans that do not overlap.
///
/// Where runtime calls were recorded: cudaMalloc and cudaFree of device memory, the virtual-memory calls of
/// expandable segments, and the synchronisation right before them (release_cached_blocks, CUDACachingAllocator.cpp of
/// PyTorch 2.11). Without them, on one clock: from the last thing the host did to each segment_free, because segments
/// are given back only after waiting for the GPU.
[[nodiscard]] std::vector<std::pair<Nanoseconds, Nanoseconds>> allocator_waits(const Run& run, Recording recording);

}  // namespace foreshard
