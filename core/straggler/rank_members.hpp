// Which ranks one timeline stands for. A plan simulates equal ranks as one and says in its answer which those are; a
// recorded rank stands for itself.
//
// Who: sim/predict tells it, the heat map of ranks shows it. Pure; deterministic.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/run/run.hpp"

namespace foreshard {

/// Ranks first, first + stride, …: `count` of them.
struct RankRun {
  std::uint32_t first = 0;
  std::uint32_t count = 1;
  std::uint32_t stride = 1;
  auto operator<=>(const RankRun&) const = default;
};

/// Ascending numbers in runs of three or more, or of neighbours; what is left over one by one.
[[nodiscard]] std::vector<RankRun> runs_of(const std::vector<std::uint32_t>& ranks);
[[nodiscard]] std::uint32_t rank_count(const std::vector<RankRun>& runs);
[[nodiscard]] bool has_rank(const std::vector<RankRun>& runs, std::uint32_t rank);
/// "0–4, 6, 9–121 (every 8th)"; of more than `most` runs the first, and how many ranks more.
[[nodiscard]] std::string rank_words(const std::vector<RankRun>& runs, std::size_t most = 6);

/// Equal ranks of a job, and whether the run has the timeline of one of them.
struct RankMembers {
  std::uint32_t first = 0;  ///< the lowest
  std::vector<RankRun> members;
  bool kept = false;  ///< Run::rank_ops has `first`'s ops, or those of each
};

/// What a plan's answer says (Run::results, "ranks"); empty: nothing, as of a recording, of a plan of equal ranks and
/// of one that an older foreshard wrote.
[[nodiscard]] std::vector<RankMembers> rank_members(const Run& run);

/// Ranks that make the step of a plan longer, as its answer says ("ranks", "slower"); empty: none, or likewise.
[[nodiscard]] std::vector<RankRun> planned_slower_ranks(const Run& run);

}  // namespace foreshard
