// The lower half of the picture: one row a stream, on the time axis of the memory above.
//
// Used by timeline.cpp. Pure; deterministic.
#pragma once

#include <array>
#include <vector>

#include "viz/scene/lanes.hpp"
#include "viz/scene/palette.hpp"
#include "viz/scene/svg_writer.hpp"
#include "viz/svg/axis.hpp"

namespace foreshard::viz {

struct LaneChart {
  const std::vector<Lane>& lanes;
  const std::vector<Stretch>& host_phases;
  const std::vector<Stretch>& device_phases;
  Box plot;   ///< rows fill it; names stand left of it
  Axis time;  ///< ms
  Theme theme = Theme::light;
};

/// Rows that a chart with these parts has: a row of phases over the host's lane and one over the device's.
[[nodiscard]] std::size_t row_count(const std::vector<Lane>& lanes, bool host_phases, bool device_phases);
/// Which classes of ops appear.
[[nodiscard]] std::array<bool, kOpClasses> shown_classes(const std::vector<Lane>& lanes);

void draw_lanes(const LaneChart& chart, SvgWriter& svg);

}  // namespace foreshard::viz
