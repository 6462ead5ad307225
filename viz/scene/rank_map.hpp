// The heat map of ranks as page and picture draw it: rows with their names, cells of one state, the critical path over
// the rows, and the words about what is not shown.
//
// Used by viz/svg and viz/pack. Pure; deterministic. Times count from an origin that the caller gives.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/run/run.hpp"
#include "core/straggler/rank_activity.hpp"
#include "viz/scene/palette.hpp"

namespace foreshard::viz {

/// A stretch of equal bins of one row, in the state that takes most of each.
struct RankCell {
  std::size_t bin = 0;  ///< the first
  std::size_t bins = 1;
  RankState state = RankState::compute;
  std::uint32_t for_rank = 0;  ///< of `waiting`: for whom longest
};

/// `count` equal bins of [from, to), without those in which the row has no stretch.
[[nodiscard]] std::vector<RankCell> rank_cells(const RankRow& row, Nanoseconds from, Nanoseconds to, std::size_t count);

using StateTimes = std::array<Nanoseconds, kRankStates>;
/// How long a row is in each state within [from, to).
[[nodiscard]] StateTimes state_times(const RankRow& row, Nanoseconds from, Nanoseconds to);

[[nodiscard]] std::string_view state_title(RankState state);
[[nodiscard]] std::string_view state_colour(RankState state, Theme theme);

/// "rank 5", "ranks 0–4, 6–7 (7)"; of a recording of one rank "the recorded rank".
[[nodiscard]] std::string row_name(const RankActivity& activity, const RankRow& row);
/// "compute 185.91, waits for ranks 12.65, …", ms.
[[nodiscard]] std::string state_words(const StateTimes& times);
/// Which ranks are not shown, and what to do; empty: all are.
[[nodiscard]] std::string not_shown(const RankActivity& activity);
}  // namespace foreshard::viz
