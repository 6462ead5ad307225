// The critical path of a step over the ranks of a job: backwards from the end of the rank that ended last, what its
// compute stream did; where that waited for a rank that had not begun a collective, what that rank did before it began
// it, and so on.
//
// Who: cli's explain --time, the heat map of ranks. Pure; deterministic.
//
// Times follow one another without holes, so they add up to the step: from the end of the last rank's step before to
// the end of the last rank's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/run/run.hpp"

namespace foreshard {

/// What one rank does until another one waits for it in a collective, or until the step ends.
struct PathVisit {
  std::uint32_t rank = 0;
  Nanoseconds begin;
  Nanoseconds end;
  Nanoseconds compute;
  Nanoseconds communication;  ///< its compute stream waits for a collective that all ranks have begun
  Nanoseconds idle;
  std::string most;  ///< the title of the ops of the compute stream that take most of `compute`; empty: none
  Nanoseconds most_time;
  std::string collective;  ///< that it was the last to begin, and the next visit's rank waited in; empty: of the last
};

struct RankPath {
  std::int32_t step = 0;
  std::vector<PathVisit> visits;  ///< in time
  [[nodiscard]] Nanoseconds begin() const { return visits.front().begin; }
  [[nodiscard]] Nanoseconds end() const { return visits.back().end; }
};

/// "rank 5: 12.30 ms (compute 11.00, …), most in mm (8.00 ms); then it is the last to begin all-gather layers.3".
[[nodiscard]] std::string visit_words(const PathVisit& visit);

/// The path in time, of many visits the `most` longest, with a line for what was left out of it.
[[nodiscard]] std::vector<std::string> path_lines(const RankPath& path, std::size_t most);

/// Of a step that is whole on the ranks of the run; none: of a run with fewer than two, or without that step's end or
/// the one's before.
[[nodiscard]] std::optional<RankPath> rank_path(const Run& run, std::int32_t step);
/// The last step that has one.
[[nodiscard]] std::optional<RankPath> rank_path(const Run& run);
/// Of each step that has one, ascending.
[[nodiscard]] std::vector<RankPath> rank_paths(const Run& run);

}  // namespace foreshard
