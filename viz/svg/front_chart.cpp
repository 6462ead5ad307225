#include "viz/svg/front_chart.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "viz/scene/svg_writer.hpp"
#include "viz/svg/axis.hpp"
#include "viz/svg/document.hpp"
#include "viz/svg/legend.hpp"
#include "viz/svg/plot.hpp"

namespace foreshard::viz {
namespace {

constexpr double kTimeAxis = 40;
constexpr double kRoom = 0.05;  // of the values' range, on either side

/// From the least to the most of `value`, with room on both sides.
template <class Value>
Axis axis_of(const std::vector<FrontPoint>& points, Value value, double from, double to) {
  double least = value(points.front()), most = least;
  for (const FrontPoint& point : points) {
    least = std::min(least, value(point));
    most = std::max(most, value(point));
  }
  const double room = most > least ? kRoom * (most - least) : std::max(kRoom * most, 1e-3);
  return {std::max(0.0, least - room), most + room, from, to};
}

class FrontDrawing {
 public:
  explicit FrontDrawing(const FrontPicture& picture) : p_(picture), ink_(ink(picture.theme)) {
    width_ = std::max(picture.width, kLeastPlotPicture);
    plot_ = plot_box(width_, !p_.headline.empty());
    time_ = axis_of(
        p_.points, [](const FrontPoint& p) { return p.step_ms; }, plot_.x, plot_.right());
    memory_ = axis_of(
        p_.points, [](const FrontPoint& p) { return gib_of(p.reserved); }, plot_.bottom(), plot_.y);
  }

  std::string draw() {
    draw_plot_title(p_.title, p_.headline, width_, ink_, svg_);
    grid();
    limit();
    front();
    for (const FrontPoint::Kind kind : {FrontPoint::Kind::no_part, FrontPoint::Kind::tried, FrontPoint::Kind::front})
      for (const FrontPoint& point : p_.points)
        if (point.kind == kind) draw_point(point);
    for (const FrontPoint& point : p_.points)
      if (!point.name.empty()) draw_name(point);
    const double foot = plot_.bottom() + kTimeAxis;
    const std::vector<LegendItem> legend{
        {"front: none is as fast and as small", colour(FrontPoint::Kind::front), {}, 0},
        {"tried", colour(FrontPoint::Kind::tried), {}, 0},
        {"takes no part: less sure, retries, or too large", colour(FrontPoint::Kind::no_part), {}, 0}};
    draw_legend(legend, {kPlotMargin, foot, width_ - 2 * kPlotMargin, 0}, ink_.text, svg_);
    const double height = foot + kLegendLine * legend_lines(legend, width_ - 2 * kPlotMargin) + kPlotMargin;
    return svg_document(width_, height, p_.title, ink_.paper, svg_.markup());
  }

 private:
  [[nodiscard]] double x(const FrontPoint& point) const { return time_.at(point.step_ms); }
  [[nodiscard]] double y(const FrontPoint& point) const { return memory_.at(gib_of(point.reserved)); }
  [[nodiscard]] std::string_view colour(FrontPoint::Kind kind) const {
    if (kind == FrontPoint::Kind::front) return ink_.reserved;
    return kind == FrontPoint::Kind::tried ? kOthersColour : kRestColour;
  }

  void grid() {
    draw_gib_axis(memory_, plot_, "GiB reserved at the peak", ink_, svg_);
    for (const Tick& tick : time_.ticks(plot_ticks(plot_))) {
      const double at = time_.at(tick.value);
      svg_.line({at, plot_.y}, {at, plot_.bottom()}, fmt::format("stroke=\"{}\"", ink_.grid));
      svg_.text({at, plot_.bottom() + 18}, tick.text, {12, ink_.faint, "middle"});
    }
    svg_.text({plot_.right(), plot_.bottom() + 34}, "ms a step", {12, ink_.faint, "end"});
  }

  /// Where the points come near to it: farther away it would flatten them.
  void limit() {
    const double at = gib_of(p_.limit);
    if (p_.limit == 0 || at < memory_.low || at > memory_.high) return;
    draw_plot_limit(memory_, plot_, p_.limit, ink_, svg_);
  }

  /// A staircase: between two points of the front the larger one's memory buys its time.
  void front() {
    std::vector<const FrontPoint*> points;
    for (const FrontPoint& point : p_.points)
      if (point.kind == FrontPoint::Kind::front) points.push_back(&point);
    if (points.empty()) return;
    std::sort(points.begin(), points.end(), [](const FrontPoint* a, const FrontPoint* b) {
      return std::pair(a->step_ms, a->number) < std::pair(b->step_ms, b->number);
    });
    std::string data =
        fmt::format("M{} {}V{}", number(x(*points.front())), number(plot_.y), number(y(*points.front())));
    for (std::size_t i = 1; i < points.size(); ++i)
      data += fmt::format("H{}V{}", number(x(*points[i])), number(y(*points[i])));
    data += fmt::format("H{}", number(plot_.right()));
    svg_.path(data, fmt::format("fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"", ink_.reserved));
  }

  void draw_point(const FrontPoint& point) {
    const bool is_front = point.kind == FrontPoint::Kind::front;
    svg_.raw(
        fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"{}\" fill=\"{}\" stroke=\"{}\" class=\"point\" "
                    "data-point=\"{}\"><title>{}</title></circle>\n",
                    number(x(point)), number(y(point)), is_front ? "5" : "3.5", colour(point.kind), ink_.paper,
                    point.number, escape(point.text)));
  }

  /// On the side where there is room.
  void draw_name(const FrontPoint& point) {
    const bool left = x(point) + 10 + text_width(point.name, 12) > plot_.right();
    svg_.text({x(point) + (left ? -9 : 9), y(point) - 7}, point.name,
              {12, ink_.text, left ? "end" : "start", true, 0, ink_.paper});
  }

  const FrontPicture& p_;
  const Ink& ink_;
  SvgWriter svg_;
  double width_ = 0;
  Box plot_;
  Axis time_;
  Axis memory_;
};

}  // namespace

std::string draw_front(const FrontPicture& picture) {
  return FrontDrawing(picture).draw();
}

}  // namespace foreshard::viz
