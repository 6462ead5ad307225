// Quantiles that are one of the values: of an even number in the middle the smaller. A mean of the two would be a rank
// that there is not, and of two ranks would make both unlike it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
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

/// A value that counts as so many equal ones.
template <class T>
struct Weighted {
  T value;
  std::uint64_t count = 1;
};

/// The lower median of all that they count as.
template <class T>
T lower_median(std::vector<Weighted<T>> values) {
  std::sort(values.begin(), values.end(), [](const auto& a, const auto& b) { return a.value < b.value; });
  std::uint64_t all = 0, below = 0;
  for (const auto& value : values) all += value.count;
  for (const auto& value : values) {
    below += value.count;
    if (2 * below >= all) return value.value;
  }
  return {};
}

template <class T>
T lower_median(std::vector<T> values) {
  return lower_quantile(std::move(values), 0.5);
}

}  // namespace foreshard::straggler_detail
