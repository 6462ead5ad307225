// Rows under the streams of the picture: what each of the GPU's links carries, over time.
//
// Used by timeline.cpp. Pure; deterministic. A pixel's column is as high as the mean rate in it; a row's upper edge is
// what the link carries at most, or its highest rate where that is more.
#pragma once

#include <vector>

#include "core/link_load/link_load.hpp"
#include "viz/scene/palette.hpp"
#include "viz/scene/svg_writer.hpp"
#include "viz/scene/window.hpp"
#include "viz/svg/axis.hpp"

namespace foreshard::viz {

struct LinkChart {
  const std::vector<LinkLoad>& links;
  const Side& side;  ///< of the lanes: on their clock
  Box plot;          ///< a row each; names stand left of it, rates right of it
  Axis time;         ///< ms
  Theme theme = Theme::light;
};

void draw_links(const LinkChart& chart, SvgWriter& svg);

}  // namespace foreshard::viz
