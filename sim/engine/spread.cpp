#include "sim/engine/spread.hpp"

#include <cmath>
#include <numbers>

namespace foreshard::sim {
namespace {

/// SplitMix64's output function (Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014).
std::uint64_t scrambled(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15u;  // SplitMix64's: 2^64 by the golden ratio, made odd

/// Above 0, at most 1: 53 bits.
double uniform(std::uint64_t state) {
  return static_cast<double>((scrambled(state) >> 11) + 1) * 0x1p-53;
}

/// Of mean 0 and deviation 1, by Box and Muller's transform of two uniform numbers.
double normal(std::uint64_t state) {
  return std::sqrt(-2 * std::log(uniform(state))) * std::cos(2 * std::numbers::pi * uniform(state + kStep));
}

}  // namespace

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  return scrambled(scrambled(a + kStep) + (b + 1) * kStep);
}

double Draws::factor(std::uint64_t place) const {
  if (!any()) return 1;
  std::uint64_t state = mixed(key, place);
  if (spread.kind == Spread::Kind::lognormal) {
    const double variance = std::log1p(spread.deviation * spread.deviation);
    return std::exp(std::sqrt(variance) * normal(state) - variance / 2);
  }
  for (;; state += 2 * kStep)
    if (const double more = spread.deviation * normal(state); std::abs(more) < 1) return 1 + more;
}

}  // namespace foreshard::sim
