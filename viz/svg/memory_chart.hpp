// The upper half of the picture: allocated memory stacked by category, with the statistics' lines over it.
//
// Used by timeline.cpp. Pure; deterministic.
#pragma once

#include <optional>
#include <vector>

#include "viz/scene/lanes.hpp"
#include "viz/scene/memory_series.hpp"
#include "viz/scene/palette.hpp"
#include "viz/scene/svg_writer.hpp"
#include "viz/svg/axis.hpp"

namespace foreshard::viz {

struct MemoryChart {
  const MemorySeries& series;
  const std::vector<Stretch>& phases;  ///< on the host's time
  const char* phases_title;            ///< beside them
  Box plot;                            ///< inside the axes; names and peaks stand left and right of it
  Axis time;                           ///< ms
  Theme theme = Theme::light;
  std::optional<Bytes> limit = {};  ///< what the allocator may take: a line where it is on the axis
  bool counts_events = false;       ///< counts_events() of the run: times are numbers of allocator events
  double memory_end = 0;            ///< ms; where the recording ends: nothing is drawn behind it
};

/// The parts that hold a byte at any shown moment, in the order of the stack.
[[nodiscard]] std::vector<StackPart> shown_parts(const MemorySeries& series);

void draw_memory(const MemoryChart& chart, SvgWriter& svg);

}  // namespace foreshard::viz
