// By how much each rank's kinds of work take longer than the middle rank's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

#include "core/straggler/fitted_factor.hpp"
#include "core/straggler/quantile.hpp"

namespace foreshard::straggler_detail {

/// One of a rank's works of a kind.
struct TimedWork {
  double time = 0;           ///< ns
  bool undisturbed = false;  ///< what it takes is the rank's own doing
};

/// What is compared is alike: of each rank's equally many works of a kind those that nothing disturbed on any rank.
inline std::vector<std::vector<double>> comparable(const std::vector<const std::vector<TimedWork>*>& works) {
  std::vector<std::vector<double>> out(works.size());
  for (std::size_t i = 0; i < works[0]->size(); ++i) {
    if (!std::all_of(works.begin(), works.end(), [&](const auto* of) { return (*of)[i].undisturbed; })) continue;
    for (std::size_t rank = 0; rank < works.size(); ++rank) out[rank].push_back((*works[rank])[i].time);
  }
  return out;
}

/// By rank, over all kinds that every rank has equally often, each by the lower quartile of the times that are
/// comparable and counted by these.
template <class Kind>
std::vector<FittedFactor> kind_factors(const std::vector<std::map<Kind, std::vector<TimedWork>>>& by_rank) {
  if (by_rank.empty()) return {};
  std::vector<std::vector<std::pair<double, double>>> samples(by_rank.size());
  for (const auto& [kind, first] : by_rank.front()) {
    std::vector<const std::vector<TimedWork>*> works;
    for (const auto& of : by_rank)
      if (const auto found = of.find(kind); found != of.end() && found->second.size() == first.size())
        works.push_back(&found->second);
    if (works.size() < by_rank.size()) continue;
    std::vector<double> least_disturbed;
    const auto compared = comparable(works);
    for (const std::vector<double>& of : compared) least_disturbed.push_back(lower_quantile(of, 0.25));
    const double middle = lower_median(least_disturbed);
    if (middle <= 0) continue;
    for (std::size_t rank = 0; rank < samples.size(); ++rank)
      samples[rank].emplace_back(least_disturbed[rank] / middle, middle * static_cast<double>(compared[rank].size()));
  }
  std::vector<FittedFactor> out;
  for (auto& of : samples) out.push_back(fitted_factor(std::move(of)));
  return out;
}

}  // namespace foreshard::straggler_detail
