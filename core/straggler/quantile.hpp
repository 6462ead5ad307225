// Quantiles that are one of the values: of an even number in the middle the smaller. A mean of the two would be a rank
// that there is not, and of two ranks would make both unlike it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace foreshard::straggler_detail {

/// `share` from 0 (the least) to 1; T() of no values.
template <class T>
T lower_quantile(std::vector<T> values, double share) {
  if (values.empty()) return {};
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

template <class T>
T lower_median(std::vector<T> values) {
  return lower_quantile(std::move(values), 0.5);
}

}  // namespace foreshard::straggler_detail
