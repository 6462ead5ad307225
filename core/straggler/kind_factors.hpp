// By how much each rank's kinds of work take longer than the middle rank's.
#pragma once

#include <algorithm>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "core/straggler/fitted_factor.hpp"
#include "core/straggler/quantile.hpp"

namespace foreshard::straggler_detail {

inline constexpr double kAnyTime = std::numeric_limits<double>::infinity();

/// Those of each rank's equally many times that are at most `longest` on all ranks.
inline std::vector<std::vector<double>> comparable(const std::vector<const std::vector<double>*>& times,
                                                   double longest) {
  std::vector<std::vector<double>> out(times.size());
  for (std::size_t i = 0; i < times[0]->size(); ++i) {
    if (std::any_of(times.begin(), times.end(), [&](const auto* of) { return (*of)[i] > longest; })) continue;
    for (std::size_t rank = 0; rank < times.size(); ++rank) out[rank].push_back((*times[rank])[i]);
  }
  return out;
}

/// By rank, over all kinds that every rank has equally often, each by the lower quartile of its times and counted by
/// its time; of the times those up to `longest`.
template <class Kind>
std::vector<FittedFactor> kind_factors(const std::vector<std::map<Kind, std::vector<double>>>& by_rank,
                                       double longest) {
  if (by_rank.empty()) return {};
  std::vector<std::vector<std::pair<double, double>>> samples(by_rank.size());
  for (const auto& [kind, first] : by_rank.front()) {
    std::vector<const std::vector<double>*> times;
    for (const auto& of : by_rank)
      if (const auto found = of.find(kind); found != of.end() && found->second.size() == first.size())
        times.push_back(&found->second);
    if (times.size() < by_rank.size()) continue;
    std::vector<double> undisturbed;
    const auto compared = comparable(times, longest);
    for (const std::vector<double>& of : compared) undisturbed.push_back(lower_quantile(of, 0.25));
    const double middle = lower_median(undisturbed);
    if (middle <= 0) continue;
    for (std::size_t rank = 0; rank < samples.size(); ++rank)
      samples[rank].emplace_back(undisturbed[rank] / middle, middle * static_cast<double>(compared[rank].size()));
  }
  std::vector<FittedFactor> out;
  for (auto& of : samples) out.push_back(fitted_factor(std::move(of)));
  return out;
}

}  // namespace foreshard::straggler_detail
