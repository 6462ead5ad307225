// Clocks of several ranks' profiler traces brought together by the collectives that the ranks shared.
//
// The rule: every rank's part of an all-gather, reduce-scatter or all-reduce is made of all ranks' data, so its kernel
// ends on no rank before it has begun on every other. Each shared collective so bounds the difference of two clocks
// from both sides. Within the bounds a collective is taken to end everywhere at once: the offset is the median of the
// differences. On 8 H200s of one host, which have one clock, that comes out within 64 us, in bounds of +-340 us.
//
// Who: rank_traces.hpp. Pure, deterministic.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "core/base/quantity.hpp"
#include "core/run/collective_key.hpp"

namespace foreshard::traces {

struct CollectiveSpan {
  Nanoseconds start;
  Nanoseconds end;
};

using RankCollectives = std::map<CollectiveKey, CollectiveSpan>;

struct ClockOffset {
  Nanoseconds offset;  ///< to be added to the rank's times
  Nanoseconds error;   ///< wrong by no more than this against the first rank's clock
};

/// For each rank the offset to the clock of the first, directly or by a chain of ranks that share collectives; none:
/// it shares none, or no offset lets every collective begin on both ranks before it ends on either. The first rank's is
/// 0, without error.
[[nodiscard]] std::vector<std::optional<ClockOffset>> align_clocks(const std::vector<RankCollectives>& ranks);

}  // namespace foreshard::traces
