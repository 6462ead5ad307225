#include "viz/svg/link_chart.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>

namespace foreshard::viz {
namespace {

constexpr double kInset = 0.1;  // of a row, above and below

/// GB/s in each pixel's column, on average.
std::vector<double> columns_of(const std::vector<LoadStretch>& load, const LinkChart& c) {
  std::vector<double> out(static_cast<std::size_t>(std::max(1.0, std::floor(c.plot.width))));
  const auto last = static_cast<double>(out.size());
  for (const LoadStretch& stretch : load) {
    const double from = std::clamp(c.time.at(c.side.place(stretch.begin).ms()) - c.plot.x, 0.0, last);
    const double to = std::clamp(c.time.at(c.side.place(stretch.end).ms()) - c.plot.x, 0.0, last);
    for (auto x = static_cast<std::size_t>(from); x < out.size() && static_cast<double>(x) < to; ++x)
      out[x] += stretch.gb_s * (std::min(to, static_cast<double>(x) + 1) - std::max(from, static_cast<double>(x)));
  }
  return out;
}

/// Down to the base line wherever nothing moves.
std::string area(const std::vector<double>& columns, double left, double base, double per_rate) {
  std::string data;
  for (std::size_t x = 0; x < columns.size();) {
    std::size_t end = x;
    while (end < columns.size() && columns[end] > 0) ++end;
    if (end == x) {
      ++x;
      continue;
    }
    data += fmt::format("M{} {}", number(left + static_cast<double>(x)), number(base));
    while (x < end) {
      std::size_t same = x;
      while (same < end && columns[same] == columns[x]) ++same;
      data += fmt::format("V{}H{}", number(base - columns[x] * per_rate), number(left + static_cast<double>(same)));
      x = same;
    }
    data += fmt::format("V{}z", number(base));
  }
  return data;
}

void draw_link(const LinkLoad& link, const LinkChart& c, double y, double row, SvgWriter& svg) {
  const Ink& colours = ink(c.theme);
  const std::vector<LoadStretch> load = load_over_time(link);
  double peak = 0;
  for (const LoadStretch& stretch : load) {
    const double from = c.side.place(stretch.begin).ms(), to = c.side.place(stretch.end).ms();
    if (to > c.time.low && from < c.time.high) peak = std::max(peak, stretch.gb_s);
  }
  const double top = std::max({link.most, peak, 1e-9});
  const double base = y + row * (1 - kInset), high = row * (1 - 2 * kInset);
  const std::string name(title(link.link));
  svg.text({c.plot.x - 8, y + row / 2 + 4}, name + ", GB/s", {12, colours.text, "end"});
  svg.line({c.plot.x, y + row}, {c.plot.right(), y + row}, fmt::format("stroke=\"{}\"", colours.grid));
  svg.path(area(columns_of(load, c), c.plot.x, base, high / top), fmt::format("fill=\"{}\"", kLinkColour),
           fmt::format("{}: at most {:.1f} GB/s here; it carries {:.1f}", name, peak, link.most));
  const double most = base - link.most / top * high;
  svg.line({c.plot.x, most}, {c.plot.right(), most},
           fmt::format("stroke=\"{}\" stroke-width=\".8\" stroke-dasharray=\"5 4\"", colours.faint));
  svg.text({c.plot.right() + 6, most + 4}, fmt::format("carries {:.1f}", link.most), {11, colours.faint});
  svg.text({c.plot.right() + 6, base}, fmt::format("peak {:.1f}", peak), {11, colours.faint});
}

}  // namespace

void draw_links(const LinkChart& chart, SvgWriter& svg) {
  if (chart.links.empty()) return;
  const double row = chart.plot.height / static_cast<double>(chart.links.size());
  svg.raw("<g class=\"links\">\n");
  for (std::size_t i = 0; i < chart.links.size(); ++i)
    draw_link(chart.links[i], chart, chart.plot.y + row * static_cast<double>(i), row, svg);
  svg.raw("</g>\n");
  svg.line({chart.plot.x, chart.plot.y}, {chart.plot.x, chart.plot.bottom()},
           fmt::format("stroke=\"{}\"", ink(chart.theme).faint));
}

}  // namespace foreshard::viz
