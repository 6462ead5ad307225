// Which behaviour of PyTorch causes unused reserved memory (record_stream, fragmentation, …), with the blocks that show
// it.
//
// Internal to core/explain. Rules, not judgement: each cause has a threshold, stated here with its reason.
#pragma once

#include <vector>

#include "core/explain/moments.hpp"

namespace foreshard::explain_detail {

/// No cause is named for less: the size of a large segment, the least by which reserved memory of large blocks moves
/// (caching allocator 2.1), so that less cannot have cost a segment.
inline constexpr Bytes kCauseFloor = 20 * kMiB;

/// Pending memory, as a share of reserved. A program that never calls record_stream has none at all, so any that can
/// be felt is named; a hundredth is what a plan's peak may be off by.
inline constexpr double kPendingShare = 0.01;

/// Memory that only the beginning used: a tenth of reserved, what one would change a program for.
inline constexpr double kSpikeShare = 0.10;

/// Free memory of one kind, idle private pools among them: reserved memory is then half as large again by this kind
/// alone. Best fit over the pools of several streams leaves part of reserved memory free in every program; in the
/// reference runs of stock FSDP2 one kind is up to a fifth of it, so less is the caching allocator's price, not a
/// fault.
inline constexpr double kFragmentationShare = 1.0 / 3;

/// Reduce-scatter inputs alive at once: FSDP2 keeps one until the next unit's reduce-scatter has been issued
/// (FSDPParamGroup.post_backward, reduce_scatter_state), so two while the next one is made.
inline constexpr std::uint64_t kReduceInputs = 2;

/// Most bytes first. Reads everything of `explanation` but its causes.
[[nodiscard]] std::vector<Cause> find_causes(const Run& run, const Moments& moments, const Explanation& explanation);

}  // namespace foreshard::explain_detail
