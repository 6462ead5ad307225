#include "gpu/cuda/rank_statistics.hpp"

#include <algorithm>

#include "core/base/median.hpp"

namespace foreshard::gpu {

double slowest_step_ms(const std::vector<RankMeasurement>& ranks) {
  double slowest = 0;
  for (const RankMeasurement& rank : ranks) slowest = std::max(slowest, median(rank.step_ms));
  return slowest;
}

double host_issue_ms(const RankMeasurement& rank) {
  return median(rank.host_issue_ms);
}

std::vector<double> mean_losses(const std::vector<RankMeasurement>& ranks) {
  std::vector<double> out;
  for (std::size_t step = 0; step < ranks.front().losses.size(); ++step) {
    double sum = 0;
    for (const RankMeasurement& rank : ranks) sum += rank.losses[step];
    out.push_back(sum / static_cast<double>(ranks.size()));
  }
  return out;
}

}  // namespace foreshard::gpu
