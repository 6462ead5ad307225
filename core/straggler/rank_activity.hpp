// What every rank of a job does over time: the heat map of ranks, of a plan and of a recording of all ranks alike.
//
// Who: viz/scene. Pure: a Run in, plain data out; deterministic.
//
// A rank's time is its compute stream's, cut as core/straggler/straggler.hpp says: it computes, waits for another rank,
// waits for a collective that all ranks have begun (exposed communication), or is idle. Equal ranks of a plan are one
// row. A run with one rank's ops has one row: a plan's stands for all ranks, since nothing tells them apart.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/run/run.hpp"
#include "core/straggler/rank_members.hpp"

namespace foreshard {

enum class RankState : std::uint8_t { compute = 0, communication = 1, waiting = 2, idle = 3 };
inline constexpr std::size_t kRankStates = static_cast<std::size_t>(RankState::idle) + 1;  // the last one

struct RankStretch {
  RankState state = RankState::compute;
  Nanoseconds begin;
  Nanoseconds end;
  std::uint32_t for_rank = 0;  ///< of `waiting`: for whom in the end (first_cause.hpp)
};

struct RankRow {
  std::uint32_t rank = 0;  ///< whose ops these are
  std::vector<RankRun> members;
  std::vector<RankStretch> stretches;  ///< one behind the other, without holes
};

struct RankActivity {
  std::uint32_t world = 0;
  bool planned = false;
  std::vector<RankRow> rows;          ///< by rank
  std::vector<RankMembers> not_kept;  ///< groups of a plan whose timelines the run does not have
};

/// None where the run has no op on a compute stream.
[[nodiscard]] std::optional<RankActivity> rank_activity(const Run& run);

}  // namespace foreshard
