// How fast work grows with its input: what a test of a function that must stay linear asks.
#pragma once

#include <algorithm>
#include <cmath>
#include <ctime>

namespace foreshard::test {

/// Above this, work is taken for growing faster than its input. Quadratic work measures 1.9 to 2.1 over a factor of 16;
/// linear work 1.1 to 1.4, since the larger size leaves the caches: a busy machine would have to double one of the two.
inline constexpr double kLinearWithin = 1.65;

/// CPU time of this process for `work(size)`, the least of three.
template <typename Work>
double cpu_seconds(Work work, unsigned size) {
  double least = 0;
  for (int i = 0; i < 3; ++i) {
    const std::clock_t begin = std::clock();
    work(size);
    const double took = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    least = i == 0 ? took : std::min(least, took);
  }
  return std::max(least, 1e-6);
}

/// The exponent of `work`'s CPU time between two sizes: 1 is linear, 2 quadratic.
template <typename Work>
double growth_exponent(Work work, unsigned small, unsigned large) {
  return std::log(cpu_seconds(work, large) / cpu_seconds(work, small)) / std::log(double(large) / double(small));
}

}  // namespace foreshard::test
