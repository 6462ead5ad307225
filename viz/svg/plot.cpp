#include "viz/svg/plot.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace foreshard::viz {

Box plot_box(double width, bool headline) {
  constexpr double kNumbers = 70;
  constexpr double kTitle = 54, kHeadline = 22;
  const double height = std::min(360.0, 0.6 * width);
  return {kPlotMargin + kNumbers, kTitle + (headline ? kHeadline : 0), width - 2 * kPlotMargin - kNumbers, height};
}

void draw_plot_title(std::string_view title, std::string_view headline, double width, const Ink& ink, SvgWriter& svg) {
  constexpr double kTitleSize = 20, kLeast = 12;
  const double room = (width - 2 * kPlotMargin) / text_width(title, kTitleSize);
  svg.text({kPlotMargin, 30}, title, {std::clamp(kTitleSize * room, kLeast, kTitleSize), ink.text, "start", true});
  if (!headline.empty()) svg.text({kPlotMargin, 52}, headline, {13.5, ink.faint});
}

int plot_ticks(const Box& plot) {
  constexpr double kEach = 60;  // pixels
  return std::clamp(static_cast<int>(plot.width / kEach), 2, 12);
}

void draw_gib_axis(const Axis& axis, const Box& plot, std::string_view title, const Ink& ink, SvgWriter& svg) {
  for (const Tick& tick : axis.ticks(8)) {
    const double at = axis.at(tick.value);
    svg.line({plot.x, at}, {plot.right(), at}, fmt::format("stroke=\"{}\"", ink.grid));
    svg.text({plot.x - 8, at + 4}, tick.text, {12, ink.faint, "end"});
  }
  svg.text({kPlotMargin + 12, plot.y + plot.height / 2}, title, {12, ink.faint, "middle", false, -90});
}

void draw_plot_limit(const Axis& axis, const Box& plot, Bytes limit, const Ink& ink, SvgWriter& svg) {
  const double at = axis.at(gib_of(limit));
  svg.line({plot.x, at}, {plot.right(), at}, fmt::format("stroke=\"{}\" stroke-dasharray=\"6 4\"", ink.alarm));
  svg.text({plot.x + 4, at - 5}, fmt::format("limit {:.2f} GiB", gib_of(limit)),
           {12, ink.alarm, "start", false, 0, ink.paper});
}

}  // namespace foreshard::viz
