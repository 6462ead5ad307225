#include "viz/svg/lane_chart.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace foreshard::viz {
namespace {

/// No bar is narrower: a third of a pixel is still seen.
constexpr double kNarrowest = 0.35;
constexpr double kUnitSize = 10;

class LaneDrawing {
 public:
  LaneDrawing(const LaneChart& chart, SvgWriter& svg) : c_(chart), svg_(svg), ink_(ink(chart.theme)) {
    row_ = c_.plot.height / static_cast<double>(std::max<std::size_t>(
                                row_count(c_.lanes, !c_.host_phases.empty(), !c_.device_phases.empty()), 1));
  }

  void draw() {
    double y = c_.plot.y;
    const auto phases = [&](const std::vector<Stretch>& stretches, const char* name) {
      if (stretches.empty()) return;
      phase_row(stretches, name, y);
      y += row_;
    };
    phases(c_.host_phases, "host: phases");
    bool device = false;
    for (const Lane& lane : c_.lanes) {
      if (!lane.name.starts_with("host") && !device) {
        phases(c_.device_phases, "GPU: phases");
        device = true;
      }
      lane_row(lane, y);
      y += row_;
    }
    svg_.line({c_.plot.x, c_.plot.y}, {c_.plot.x, c_.plot.bottom()}, fmt::format("stroke=\"{}\"", ink_.faint));
  }

 private:
  [[nodiscard]] double clamped(Nanoseconds time) const {
    return std::clamp(c_.time.at(time.ms()), c_.plot.x, c_.plot.right());
  }

  void row_name(const std::string& name, double y) {
    svg_.text({c_.plot.x - 8, y + row_ / 2 + 4}, shortened(name, 27), {12, ink_.text, "end"});
    svg_.line({c_.plot.x, y + row_}, {c_.plot.right(), y + row_}, fmt::format("stroke=\"{}\"", ink_.grid));
  }

  void phase_row(const std::vector<Stretch>& stretches, const char* name, double y) {
    row_name(name, y);
    svg_.raw("<g class=\"phases\">\n");
    const double inset = row_ * 0.18;
    for (const Stretch& phase : stretches) {
      const double from = clamped(phase.start), to = clamped(phase.end);
      svg_.rect({from, y + inset, std::max(to - from, kNarrowest), row_ - 2 * inset},
                fmt::format("fill=\"{}\" stroke=\"{}\" stroke-width=\".7\"{}", ink_.band, ink_.faint,
                            phase.other_step ? " opacity=\".4\"" : ""),
                fmt::format("{}, {:.3f} to {:.3f} ms, {:.3f} ms", phase.name, phase.start.ms(), phase.end.ms(),
                            (phase.end - phase.start).ms()));
      const std::string text = fmt::format("{} {:.1f} ms", phase.name, (phase.end - phase.start).ms());
      const std::string& shown = text_width(text, 11) < to - from ? text : phase.name;
      if (text_width(shown, 11) < to - from)
        svg_.text({(from + to) / 2, y + row_ / 2 + 4}, shown,
                  {11, phase.other_step ? ink_.faint : ink_.text, "middle"});
    }
    svg_.raw("</g>\n");
  }

  void lane_row(const Lane& lane, double y) {
    row_name(lane.name, y);
    const double inset = row_ * 0.12;
    const double height = row_ - 2 * inset;
    for (std::size_t k = 0; k < kOpClasses; ++k)
      for (const bool other : {true, false}) {
        bool open = false;
        for (const Bar& bar : lane.bars) {
          if (bar.op_class != static_cast<OpClass>(k) || bar.other_step != other) continue;
          if (!open)
            svg_.raw(fmt::format("<g fill=\"{}\" transform=\"translate(0 {})\"{}>\n", style(bar.op_class).fill,
                                 number(y + inset), other ? " opacity=\".35\"" : ""));
          open = true;
          const double from = clamped(bar.start);
          // A sliver of paper between neighbours that are wide enough to be told apart.
          const double width = std::max(clamped(bar.end) - from - (clamped(bar.end) - from > 3 ? 0.4 : 0), kNarrowest);
          svg_.path(fmt::format("M{} 0h{}v{}h-{}z", number(from), number(width), number(height), number(width)), {},
                    bar.title);
        }
        if (open) svg_.raw("</g>\n");
      }
    other_classes(lane, y + inset, height);
    for (const Bar& bar : lane.bars) {
      const double from = clamped(bar.start), to = clamped(bar.end);
      if (bar.label.empty() || text_width(bar.label, kUnitSize) + 4 > to - from) continue;
      svg_.text({(from + to) / 2, y + row_ / 2 + 3.5}, bar.label, {kUnitSize, "#101010", "middle"});
    }
  }

  /// Over a bar of several ops, from below: the other classes in it, as high as their shares.
  void other_classes(const Lane& lane, double y, double height) {
    for (std::size_t k = 0; k < kOpClasses; ++k)
      for (const bool other_step : {true, false}) {
        std::string data;
        for (const Bar& bar : lane.bars) {
          if (bar.other_step != other_step) continue;
          double below = 0;
          for (const auto& [op_class, share] : bar.others) {
            if (op_class == static_cast<OpClass>(k)) {
              const double from = clamped(bar.start), width = std::max(clamped(bar.end) - from, kNarrowest);
              data += fmt::format("M{} {}h{}v-{}h-{}z", number(from), number(y + height * (1 - below)), number(width),
                                  number(height * share), number(width));
            }
            below += share;
          }
        }
        if (!data.empty())
          svg_.path(data, fmt::format("fill=\"{}\"{}", style(static_cast<OpClass>(k)).fill,
                                      other_step ? " opacity=\".35\"" : ""));
      }
  }

  const LaneChart& c_;
  SvgWriter& svg_;
  const Ink& ink_;
  double row_ = 1;
};

}  // namespace

std::size_t row_count(const std::vector<Lane>& lanes, bool host_phases, bool device_phases) {
  const bool device =
      std::any_of(lanes.begin(), lanes.end(), [](const Lane& lane) { return !lane.name.starts_with("host"); });
  return lanes.size() + (host_phases ? 1U : 0U) + (device_phases && device ? 1U : 0U);
}

std::array<bool, kOpClasses> shown_classes(const std::vector<Lane>& lanes) {
  std::array<bool, kOpClasses> out{};
  for (const Lane& lane : lanes)
    for (const Bar& bar : lane.bars) {
      out[static_cast<std::size_t>(bar.op_class)] = true;
      for (const auto& [op_class, share] : bar.others) out[static_cast<std::size_t>(op_class)] = true;
    }
  return out;
}

void draw_lanes(const LaneChart& chart, SvgWriter& svg) {
  LaneDrawing(chart, svg).draw();
}

}  // namespace foreshard::viz
