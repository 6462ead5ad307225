// What the trials of a job with jitter say: how long its steps take, and for whom the ranks wait.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/ranks/trials.hpp"

namespace foreshard::sim {

/// Quantiles are nearest ranks: the least value that so many of them do not exceed.
struct Distribution {
  double median = 0;
  double p95 = 0;
  double mean = 0;
  double least = 0;
  double most = 0;
};

/// A rank that the others waited for longest in some trials.
struct LastRank {
  std::uint32_t rank = 0;
  std::uint32_t trials = 0;
  double awaited_ms = 0;  ///< for how long each other rank's collectives stood and waited for it then, on average
};

struct TrialTimes {
  Jitter jitter;
  std::uint64_t seed = 0;
  Distribution step_ms;
  Distribution waiting_ms;       ///< Trial::waiting
  std::vector<double> steps_ms;  ///< by trial
  std::vector<LastRank> last;    ///< most trials first
  bool only_chance = false;      ///< nothing else tells the ranks apart
  std::uint32_t world = 0;
};

/// `factor` anchors the times. `request`: what the trials were asked for.
[[nodiscard]] TrialTimes trial_times(const std::vector<Trial>& trials, const TrialsRequest& request,
                                     std::uint32_t world, double factor);

}  // namespace foreshard::sim
