// The settings one move away from others: what a search tries next. A neighbour is settings and a phrase.
//
// What `explain --time` tries is tried here as well (sim/sweep/time_candidates.hpp), and in memory that is too small
// what `explain` tries (candidates.hpp); beside it what only a search can: one gather a hook earlier, some units kept
// gathered, sizes between. Pure; in one fixed order.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/settings/settings.hpp"
#include "core/workload/workload.hpp"
#include "sim/tune/exposed.hpp"
#include "sim/tune/move_family.hpp"

namespace foreshard::sim {

struct Neighbour {
  Settings settings;
  std::string phrase;  ///< what it changes, in words
  MoveFamilies families;
  std::function<void(Settings&)> change;
};

/// Where a search stands.
struct Position {
  const Settings& start;  ///< what was asked for: families that are not allowed stay as it has them
  const MoveFamilies& allowed;
  const Settings& at;
  const Workload& workload;             ///< at `at`; a recording's has the units that were recorded
  const std::vector<Unit>& units;       ///< that run at `at`: Exposed::unit is one of them
  const std::vector<Exposed>& exposed;  ///< of the plan at `at`; empty where it was not looked at
  bool short_of_memory = false;         ///< `at` does not fit, or retries allocations in each step
};

/// Each different from `at` and from the others, and consistent.
[[nodiscard]] std::vector<Neighbour> neighbours(const Position& position);

/// Uniform depths in both passes, the shallowest first: the greedy search that deepens prefetch while memory lasts
/// (as DeepCompile's, arXiv:2504.09983).
[[nodiscard]] std::vector<Neighbour> deeper_prefetch(const Position& position);

/// What takes less memory, each by itself: what costs most time and saves most first.
[[nodiscard]] std::vector<Neighbour> smaller_moves(const Position& position);

/// What takes least memory: all of `moves` at once, the same without states on the host and without recomputation, then
/// each by itself.
[[nodiscard]] std::vector<Neighbour> smaller_settings(const Position& position, const std::vector<Neighbour>& moves);

/// `at` with one family, or one of its settings, as `start` has it, or with a shallower prefetch.
[[nodiscard]] std::vector<Neighbour> simpler_settings(const Settings& start, const Settings& at);

/// Neighbours of different families on top of one another, each family's first; none where there are not two.
[[nodiscard]] std::vector<Neighbour> together(const Position& position, const std::vector<Neighbour>& best_first);

}  // namespace foreshard::sim
