// What pictures with one plot of memory share: its place, its size, and its vertical axis in GiB.
//
// Used by memory_over_steps.cpp and front_chart.cpp. Pure; deterministic.
#pragma once

#include <string_view>

#include "core/base/quantity.hpp"
#include "viz/scene/palette.hpp"
#include "viz/scene/svg_writer.hpp"
#include "viz/svg/axis.hpp"

namespace foreshard::viz {

inline constexpr double kPlotMargin = 20;
inline constexpr std::uint32_t kLeastPlotPicture = 400;

[[nodiscard]] inline double gib_of(Bytes bytes) {
  return static_cast<double>(bytes) / static_cast<double>(kGiB);
}

/// Below title and headline, right of the axis's numbers, in a picture of that width. `headline`: there is one.
[[nodiscard]] Box plot_box(double width, bool headline);
/// The two lines above the plot, in a picture of that width; the headline may be empty.
void draw_plot_title(std::string_view title, std::string_view headline, double width, const Ink& ink, SvgWriter& svg);
/// How many numbers have room along the horizontal axis.
[[nodiscard]] int plot_ticks(const Box& plot);
/// Lines across the plot at round numbers of GiB, and `title` along them.
void draw_gib_axis(const Axis& axis, const Box& plot, std::string_view title, const Ink& ink, SvgWriter& svg);
/// A dashed line at `limit` and what it is.
void draw_plot_limit(const Axis& axis, const Box& plot, Bytes limit, const Ink& ink, SvgWriter& svg);

}  // namespace foreshard::viz
