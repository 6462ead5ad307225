// Legends: colours and lines with their names, set in lines from left to right.
//
// Used by timeline.cpp. Pure; deterministic.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "viz/scene/svg_writer.hpp"

namespace foreshard::viz {

struct LegendItem {
  std::string title;
  std::string_view colour;
  std::string_view dashes;  ///< of a line
  double stroke = 0;        ///< a line's width; 0: a filled square
};

inline constexpr double kLegendLine = 18;

/// How many lines `items` take in `width`.
[[nodiscard]] int legend_lines(const std::vector<LegendItem>& items, double width);
/// Draws them from the left top corner of `place` within its width.
void draw_legend(const std::vector<LegendItem>& items, const Box& place, std::string_view ink, SvgWriter& svg);

}  // namespace foreshard::viz
