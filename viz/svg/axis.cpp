#include "viz/svg/axis.hpp"

#include <fmt/core.h>

#include <cmath>

namespace foreshard::viz {
namespace {

struct Step {
  double size = 1;
  int decimals = 0;
};

/// The smallest 1, 2 or 5 times a power of ten with at most `most` steps in `length`.
Step step_for(double length, int most) {
  int power = static_cast<int>(std::floor(std::log10(length / most)));
  for (;; ++power)
    for (const double factor : {1.0, 2.0, 5.0}) {
      const double size = factor * std::pow(10.0, power);
      if (length / size <= most) return {size, power < 0 ? -power : 0};
    }
}

}  // namespace

double Axis::per_pixel() const {
  return (high - low) / std::abs(to - from);
}

std::vector<Tick> Axis::ticks(int most) const {
  std::vector<Tick> out;
  const Step step = step_for(high - low, most);
  const auto first = static_cast<long long>(std::ceil(low / step.size - 1e-9));
  const auto last = static_cast<long long>(std::floor(high / step.size + 1e-9));
  for (long long i = first; i <= last; ++i) {
    const double value = static_cast<double>(i) * step.size;
    out.push_back({value, fmt::format("{:.{}f}", i == 0 ? 0.0 : value, step.decimals)});
  }
  return out;
}

double round_top(double value, int most) {
  if (value <= 0) return 1;
  const Step step = step_for(value, most);
  return std::ceil(value / step.size - 1e-9) * step.size;
}

}  // namespace foreshard::viz
