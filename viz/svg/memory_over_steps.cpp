#include "viz/svg/memory_over_steps.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "viz/scene/svg_writer.hpp"
#include "viz/svg/axis.hpp"
#include "viz/svg/document.hpp"
#include "viz/svg/legend.hpp"
#include "viz/svg/plot.hpp"

namespace foreshard::viz {
namespace {

constexpr double kRetryRow = 16;

class StepDrawing {
 public:
  explicit StepDrawing(const StepMemoryPicture& picture) : p_(picture), ink_(ink(picture.theme)) {
    width_ = std::max(picture.width, kLeastPlotPicture);
    plot_ = plot_box(width_, !p_.headline.empty());
    Bytes most = 0;
    for (const StepMemory& step : p_.steps) most = std::max(most, step.reserved);
    shows_limit_ = p_.limit > 0 && p_.limit <= 2 * most;  // farther away it would flatten the rest
    if (shows_limit_) most = std::max(most, p_.limit);
    steps_ = {0, static_cast<double>(p_.steps.size() * p_.each), plot_.x, plot_.right()};
    memory_ = {0, round_top(std::max(gib_of(most), 1e-3), 8), plot_.bottom(), plot_.y};
  }

  std::string draw() {
    draw_plot_title(p_.title, p_.headline, width_, ink_, svg_);
    grid();
    curves();
    if (shows_limit_) draw_plot_limit(memory_, plot_, p_.limit, ink_, svg_);
    for (const StepMark& mark : p_.marks) draw_mark(mark);
    const double foot = plot_.bottom() + kRetryRow + 44;
    std::vector<LegendItem> legend{{"allocated, peak of a step", allocated_, {}, 0},
                                   {"reserved, peak of a step", ink_.reserved, {}, 2}};
    if (any(StepMark::Kind::growth))
      legend.push_back({"dot: reserved grew beyond all steps before", ink_.reserved, {}, 0});
    if (any(StepMark::Kind::retry))
      legend.push_back({"tick below: segments given back for a request (a retry)", ink_.alarm, {}, 0});
    if (any(StepMark::Kind::out_of_memory)) legend.push_back({"bar: out of memory", ink_.alarm, {}, 3});
    draw_legend(legend, {kPlotMargin, foot, width_ - 2 * kPlotMargin, 0}, ink_.text, svg_);
    const double height = foot + kLegendLine * legend_lines(legend, width_ - 2 * kPlotMargin) + kPlotMargin;
    return svg_document(width_, height, p_.title, ink_.paper, svg_.markup());
  }

 private:
  [[nodiscard]] bool any(StepMark::Kind kind) const {
    return std::any_of(p_.marks.begin(), p_.marks.end(), [&](const StepMark& mark) { return mark.kind == kind; });
  }
  /// Of an entry of `steps`.
  [[nodiscard]] double x(std::size_t entry) const { return steps_.at(static_cast<double>(entry * p_.each)); }
  [[nodiscard]] double y(Bytes bytes) const { return memory_.at(gib_of(bytes)); }

  void grid() {
    draw_gib_axis(memory_, plot_, "GiB", ink_, svg_);
    for (const Tick& tick : steps_.ticks(plot_ticks(plot_)))
      svg_.text({steps_.at(tick.value), plot_.bottom() + kRetryRow + 18}, tick.text, {12, ink_.faint, "middle"});
    svg_.text({plot_.right(), plot_.bottom() + kRetryRow + 34}, "step", {12, ink_.faint, "end"});
  }

  /// The largest of the steps of each pixel, as a staircase; `close`: down to the axis at both ends.
  [[nodiscard]] std::string staircase(Bytes StepMemory::*what, bool close) const {
    const auto columns = static_cast<std::size_t>(std::max(1.0, std::floor(plot_.width)));
    const std::size_t each = (p_.steps.size() + columns - 1) / columns;
    std::string data;
    for (std::size_t from = 0; from < p_.steps.size(); from += each) {
      const std::size_t to = std::min(from + each, p_.steps.size());
      Bytes most = 0;
      for (std::size_t step = from; step < to; ++step) most = std::max(most, p_.steps[step].*what);
      if (from == 0)
        data += close ? fmt::format("M{} {}V{}", number(x(0)), number(plot_.bottom()), number(y(most)))
                      : fmt::format("M{} {}", number(x(0)), number(y(most)));
      else
        data += fmt::format("V{}", number(y(most)));
      data += fmt::format("H{}", number(x(to)));
    }
    return close ? data + fmt::format("V{}z", number(plot_.bottom())) : data;
  }

  void curves() {
    svg_.path(staircase(&StepMemory::allocated, true), fmt::format("fill=\"{}\"", allocated_));
    svg_.path(staircase(&StepMemory::reserved, false),
              fmt::format("fill=\"none\" stroke=\"{}\" stroke-width=\"2\"", ink_.reserved));
  }

  void draw_mark(const StepMark& mark) {
    const std::size_t entry = std::min(mark.step / p_.each, p_.steps.size() - 1);
    const double at = x(entry) + steps_.at(0.5 * static_cast<double>(p_.each)) - steps_.at(0);
    const std::string title = fmt::format("<title>{}</title>", escape(mark.text));
    switch (mark.kind) {
      case StepMark::Kind::growth:
        svg_.raw(fmt::format("<circle cx=\"{}\" cy=\"{}\" r=\"4\" fill=\"{}\">{}</circle>\n", number(at),
                             number(y(p_.steps[entry].reserved)), ink_.reserved, title));
        break;
      case StepMark::Kind::retry:
        svg_.rect({at - 1, plot_.bottom() + 2, 2, kRetryRow - 4}, fmt::format("fill=\"{}\"", ink_.alarm), mark.text);
        break;
      case StepMark::Kind::out_of_memory:
        svg_.rect({plot_.right() - 2, plot_.y, 3, plot_.height}, fmt::format("fill=\"{}\"", ink_.alarm), mark.text);
        // In the middle: above it are the limit and what is reserved.
        svg_.text({plot_.right() - 8, plot_.y + plot_.height / 2}, fmt::format("out of memory at step {}", mark.step),
                  {12, ink_.alarm, "end", true, 0, ink_.paper});
        break;
    }
  }

  const StepMemoryPicture& p_;
  const Ink& ink_;
  std::string_view allocated_ = style(MemoryCategory::activations).fill;
  SvgWriter svg_;
  double width_ = 0;
  Box plot_;
  Axis steps_;
  Axis memory_;
  bool shows_limit_ = false;
};

}  // namespace

std::string draw_memory_over_steps(const StepMemoryPicture& picture) {
  return StepDrawing(picture).draw();
}

}  // namespace foreshard::viz
