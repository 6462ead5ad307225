// The median: of an even count, the mean of the middle two; of none, 0.
#pragma once

#include <algorithm>
#include <vector>

namespace foreshard {

[[nodiscard]] inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

}  // namespace foreshard
