// A linear axis: from values to pixels, with ticks at round numbers.
//
// Used by the charts of viz/svg. A value object; deterministic.
#pragma once

#include <string>
#include <vector>

namespace foreshard::viz {

struct Tick {
  double value = 0;
  std::string text;
};

/// Maps [low, high] to [from, to]; `to` may be below `from` (a vertical axis grows upwards).
struct Axis {
  double low = 0;
  double high = 1;
  double from = 0;
  double to = 1;

  [[nodiscard]] double at(double value) const { return from + (value - low) / (high - low) * (to - from); }
  /// Values a pixel.
  [[nodiscard]] double per_pixel() const;
  /// At most `most` ticks (at least 2) at multiples of 1, 2 or 5 times a power of ten, with as many decimals as that
  /// needs.
  [[nodiscard]] std::vector<Tick> ticks(int most) const;
};

/// The smallest multiple of a tick's step that is not below `value`, for an axis that starts at 0 with `most` ticks.
[[nodiscard]] double round_top(double value, int most);

}  // namespace foreshard::viz
