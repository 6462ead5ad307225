// Factors on times that chance decides: a distribution of mean 1, and one draw of it.
//
// A draw is a hash of who draws and for what, not the next number of a sequence, so that it depends on no order and no
// thread. Thread-safe; the same on every machine but for the last bit of its C library's log and exp.
#pragma once

#include <compare>
#include <cstdint>

namespace foreshard::sim {

struct Spread {
  enum class Kind : std::uint8_t {
    normal = 0,     ///< cut off at 0 and, so that the mean stays 1, at 2
    lognormal = 1,  ///< mu = -sigma²/2, sigma² = ln(1 + deviation²)
  };
  /// Beyond a third the cut takes more than three in a thousand of a normal distribution, and its deviation with them.
  static constexpr double kMaxNormal = 1.0 / 3;
  static constexpr double kMaxLognormal = 3;

  Kind kind = Kind::normal;
  double deviation = 0;  ///< standard deviation of the factor; 0: it is 1
  auto operator<=>(const Spread&) const = default;
};

/// The number that `a` and `b`, in this order, stand for among others.
[[nodiscard]] std::uint64_t mixed(std::uint64_t a, std::uint64_t b);

/// The draws of one owner, each at a place of its own.
struct Draws {
  Spread spread;
  std::uint64_t key = 0;  ///< whose they are

  [[nodiscard]] bool any() const { return spread.deviation > 0; }
  /// Above 0.
  [[nodiscard]] double factor(std::uint64_t place) const;
};

}  // namespace foreshard::sim
