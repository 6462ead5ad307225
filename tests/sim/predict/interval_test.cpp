// The interval around a plan's step.
#include "sim/predict/interval.hpp"

#include <cmath>

#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

TEST_CASE("each cause widens an interval, and their squares add") {
  Interval interval;
  close_interval(100, interval);
  CHECK(interval.low_ms == 100);
  CHECK(interval.high_ms == 100);
  interval.rests_on.push_back({Basis::recorded, 0.03, 0.03});
  close_interval(100, interval);
  CHECK(interval.high_ms == Approx(100 * std::exp(0.03)));
  interval.rests_on.push_back({Basis::recorded_host, 0, 0.04});
  close_interval(100, interval);
  CHECK(interval.low_ms == Approx(100 * std::exp(-0.03)));
  CHECK(interval.high_ms == Approx(100 * std::exp(0.05)));
  CHECK(interval.half_width(100) == Approx(std::expm1(0.05)));
}

TEST_CASE("the host's speed counts in a ratio by what of it reaches the steps") {
  CHECK(difference_width(0.02, 0.09, 0) == Approx(0.02));
  CHECK(difference_width(0, 0.09, 0.5) == Approx(0.045));
  CHECK(difference_width(0.03, 0.04, 1) == Approx(0.05));
}

TEST_CASE("every basis has words") {
  for (const Basis basis : kEnumValues<Basis>) CHECK_FALSE(words_of(basis).empty());
}

}  // namespace
}  // namespace foreshard::sim
