// Axes: round ticks, few of them, inside the axis.

#include "viz/svg/axis.hpp"

#include "tests/catch.hpp"

using namespace foreshard::viz;

TEST_CASE("ticks are multiples of 1, 2 or 5 and carry the decimals they need") {
  const Axis axis{0, 1.04, 0, 100};
  const auto ticks = axis.ticks(6);
  REQUIRE(ticks.size() == 6);
  CHECK(ticks[0].text == "0.0");
  CHECK(ticks[1].text == "0.2");
  CHECK(ticks[5].text == "1.0");
  const auto wide = Axis{0, 252.9, 0, 100}.ticks(14);
  CHECK(wide.back().text == "240");
  CHECK(wide[1].text == "20");
}

TEST_CASE("ticks stay inside an axis that does not begin at 0") {
  for (const double low : {-3.7, 0.0, 17.3, 1e4})
    for (const double length : {1e-4, 0.3, 7.0, 12345.0}) {
      const Axis axis{low, low + length, 0, 1000};
      const auto ticks = axis.ticks(10);
      CHECK(ticks.size() <= 11);
      CHECK(ticks.size() >= 2);
      for (const Tick& tick : ticks) {
        CHECK(tick.value >= low - 1e-6 * length - 1e-9);
        CHECK(tick.value <= low + length + 1e-6 * length + 1e-9);
      }
    }
}

TEST_CASE("an axis's top is round and not below its values") {
  CHECK(round_top(36.2, 8) == 40.0);
  CHECK(round_top(0, 8) == 1.0);
  CHECK(round_top(5.0, 8) == 5.0);
}
