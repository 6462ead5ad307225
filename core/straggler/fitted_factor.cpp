#include "core/straggler/fitted_factor.hpp"

#include <algorithm>
#include <cmath>

namespace foreshard {

bool FittedFactor::differs(double least) const {
  return samples > 0 && std::abs(value - 1) > std::max(least, spread * value);
}

namespace straggler_detail {

FittedFactor fitted_factor(std::vector<std::pair<double, double>> samples) {
  FittedFactor out;
  if (samples.empty()) return out;
  std::sort(samples.begin(), samples.end());
  double all = 0;
  for (const auto& [value, weight] : samples) all += weight;
  const auto at = [&](double share) {
    double sum = 0;
    for (const auto& [value, weight] : samples) {
      sum += weight;
      if (sum >= share * all) return value;
    }
    return samples.back().first;
  };
  out.value = at(0.5);
  out.spread = (at(0.75) - at(0.25)) / 2 / out.value;
  out.samples = static_cast<std::uint32_t>(samples.size());
  return out;
}

}  // namespace straggler_detail
}  // namespace foreshard
