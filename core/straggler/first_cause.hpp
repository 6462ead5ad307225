// Whom a wait is for in the end: the rank that was last to begin a collective may itself have waited for another one
// just before, as in a mesh, where a slow rank holds up its shard group and that the same places of other replicas.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/run/run.hpp"
#include "core/straggler/rank_timeline.hpp"

namespace foreshard::straggler_detail {

/// One rank's ops and compute stream.
struct RankSpans {
  std::uint32_t rank = 0;
  std::span<const RankOpRecord> ops;
  std::vector<Span> spans;
};

/// Divides the waiting of every rank among those it was for: since the last collective that both took part in, what the
/// rank that was waited for waited itself, in the collectives that held up the one it was late for and on its compute
/// stream before, in parts of what that was for, and the rest for its own. The times of every rank stay what they were.
/// `last`: of the same ops.
void find_first_causes(std::vector<RankSpans>& ranks, const LastRanks& last);

/// Every rank of `run.rank_ops`, each wait for the rank that was last to begin.
[[nodiscard]] std::vector<RankSpans> rank_spans_as_begun(const Run& run);
/// … for those that it is for in the end.
[[nodiscard]] std::vector<RankSpans> rank_spans(const Run& run);

}  // namespace foreshard::straggler_detail
