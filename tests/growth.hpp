// How fast work grows with its input: what a test of a function that must stay linear asks.
#pragma once

#include <algorithm>
#include <cmath>
#include <ctime>
#ifdef __GLIBC__
#include <malloc.h>
#endif

namespace foreshard::test {

/// Above this, work is taken for growing faster than its input. Quadratic work measures 1.9 to 2.1 over a factor of 16,
/// linear work 0.97 to 1.10, idle or loaded, and some more where the larger size leaves the caches.
inline constexpr double kLinearWithin = 1.4;

/// Freed memory stays with the process. Otherwise the larger size alone gives its pages back to the system after each
/// run and has them cleared again in the next one, and the system's time for that grows with the machine's load:
/// linear work measured 1.5 to 1.9 so, 1.0 to 1.1 with its pages kept.
inline void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // the largest that glibc takes
  mallopt(M_TRIM_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 16 << 20);
#endif
}

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
  keep_freed_memory();
  return std::log(cpu_seconds(work, large) / cpu_seconds(work, small)) / std::log(double(large) / double(small));
}

}  // namespace foreshard::test
