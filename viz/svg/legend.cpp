#include "viz/svg/legend.hpp"

#include <fmt/core.h>

namespace foreshard::viz {
namespace {

constexpr double kSize = 12;
constexpr double kSwatch = 22;  ///< with the gap behind it

double item_width(const LegendItem& item) {
  return kSwatch + (item.stroke > 0 ? 8 : 0) + text_width(item.title, kSize) + 12;
}

/// Calls `place(item, line, x)` for every item.
template <class Place>
int lay_out(const std::vector<LegendItem>& items, double width, Place&& place) {
  double x = 0;
  int line = 0;
  for (const LegendItem& item : items) {
    if (x > 0 && x + item_width(item) > width) {
      x = 0;
      ++line;
    }
    place(item, line, x);
    x += item_width(item);
  }
  return items.empty() ? 0 : line + 1;
}

}  // namespace

int legend_lines(const std::vector<LegendItem>& items, double width) {
  return lay_out(items, width, [](const LegendItem&, int, double) {});
}

void draw_legend(const std::vector<LegendItem>& items, const Box& place, std::string_view ink, SvgWriter& svg) {
  svg.raw("<g class=\"legend\">\n");
  lay_out(items, place.width, [&](const LegendItem& item, int line, double x) {
    const double y = place.y + kLegendLine * line + kLegendLine / 2;
    x += place.x;
    double text_x = x + kSwatch - 6;
    if (item.stroke > 0) {
      svg.line({x, y}, {x + 22, y},
               fmt::format("stroke=\"{}\" stroke-width=\"{}\"{}", item.colour, number(item.stroke),
                           item.dashes.empty() ? "" : fmt::format(" stroke-dasharray=\"{}\"", item.dashes)));
      text_x += 10;
    } else {
      svg.rect({x, y - 6, 12, 12}, fmt::format("fill=\"{}\"", item.colour));
    }
    svg.text({text_x, y + 4}, item.title, {kSize, ink});
  });
  svg.raw("</g>\n");
}

}  // namespace foreshard::viz
