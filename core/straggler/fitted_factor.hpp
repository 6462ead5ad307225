// A factor on times that is the median of many.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace foreshard {

/// 1.2 takes a fifth longer than the middle rank's.
struct FittedFactor {
  double value = 1;
  double spread = 0;          ///< half of the middle half of what it is the median of, over `value`
  std::uint32_t samples = 0;  ///< kinds of kernels, of launches or of collectives that were compared; 0: none

  /// Further from 1 than the kinds differ among themselves, and than `least`.
  [[nodiscard]] bool differs(double least) const;
};

namespace straggler_detail {

/// Of ratios with weights: the median and the middle half, where half and quarters of the weight lie.
[[nodiscard]] FittedFactor fitted_factor(std::vector<std::pair<double, double>> samples);

}  // namespace straggler_detail
}  // namespace foreshard
