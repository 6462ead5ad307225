#include "viz/svg/memory_chart.hpp"

#include <fmt/core.h>

#include <algorithm>

#include "core/run/plan_results.hpp"
#include "viz/scene/caption.hpp"

namespace foreshard::viz {
namespace {

constexpr int kMaxTicks = 8;
constexpr double kLabelSize = 12;
constexpr double kLabelLine = 15;

double in_gib(std::int64_t bytes) {
  return static_cast<double>(bytes) / static_cast<double>(kGiB);
}

/// A step curve from left to right: horizontal and vertical lines, written only where it moves.
class Curve {
 public:
  Curve(double x, double y) : y_(rounded(y)) { data_ = fmt::format("M{} {}", number(x), number(y_)); }
  void to(double x, double y) {
    y = rounded(y);
    if (y == y_) return;
    data_ += fmt::format("H{}V{}", number(x), number(y));
    y_ = y;
  }
  void end(double x) { data_ += "H" + number(x); }
  void close(double x, double base) { data_ += fmt::format("V{}H{}Z", number(base), number(x)); }
  [[nodiscard]] const std::string& data() const { return data_; }

 private:
  static double rounded(double y) { return static_cast<double>(static_cast<long long>(y * 10 + 0.5)) / 10; }
  std::string data_;
  double y_;
};

class MemoryDrawing {
 public:
  MemoryDrawing(const MemoryChart& chart, SvgWriter& svg) : c_(chart), svg_(svg), ink_(ink(chart.theme)) {
    // The limit is on the axis where the curves keep two fifths of it.
    const double limit = c_.limit ? in_gib(static_cast<std::int64_t>(*c_.limit)) : 0;
    const double highest = in_gib(c_.series.top);
    const double top = limit * 0.4 <= highest ? std::max(highest, limit) : highest;
    memory_ = {0, round_top(top * 1.04, kMaxTicks), c_.plot.bottom(), c_.plot.y};
    end_x_ = std::clamp(c_.time.at(c_.memory_end), c_.plot.x, c_.plot.right());
  }

  void draw() {
    backdrop();
    stack();
    lines();
    frame();
    marks();
    peaks();
  }

 private:
  [[nodiscard]] double y(std::int64_t bytes) const { return memory_.at(in_gib(bytes)); }
  [[nodiscard]] double column_x(std::size_t at) const {
    return std::min(end_x_,
                    c_.plot.x + c_.plot.width * static_cast<double>(at) / static_cast<double>(c_.series.column_count));
  }

  /// Walks the columns: `value` of a state, at the column's begin and where it ends.
  template <class Value>
  Curve curve(Value&& value) const {
    const MemorySeries& s = c_.series;
    Curve out(c_.plot.x, y(value(s.begin)));
    for (const MemoryColumn& column : s.columns) {
      out.to(column_x(column.at), y(value(column.highest)));
      out.to(column_x(column.at + 1), y(value(column.end)));
    }
    out.end(end_x_);
    return out;
  }

  void backdrop() {
    svg_.raw("<g class=\"memory-back\">\n");
    for (std::size_t i = 0; i < c_.phases.size(); ++i) {
      const Stretch& phase = c_.phases[i];
      const double from = std::max(c_.time.at(phase.start.ms()), c_.plot.x);
      const double to = std::min(c_.time.at(phase.end.ms()), c_.plot.right());
      if (i % 2 == 1) svg_.rect({from, c_.plot.y, to - from, c_.plot.height}, fmt::format("fill=\"{}\"", ink_.band));
      svg_.rect({from, c_.plot.y - 20, to - from, 16}, fmt::format("fill=\"{}\" stroke=\"{}\"", ink_.band, ink_.grid),
                phase.name);
      if (text_width(phase.name, 11) < to - from)
        svg_.text({(from + to) / 2, c_.plot.y - 8}, phase.name, {11, ink_.faint, "middle"});
    }
    if (!c_.phases.empty()) svg_.text({c_.plot.x - 8, c_.plot.y - 8}, c_.phases_title, {12, ink_.text, "end"});
    for (const Tick& tick : memory_.ticks(kMaxTicks)) {
      const double at = memory_.at(tick.value);
      svg_.line({c_.plot.x, at}, {c_.plot.right(), at}, fmt::format("stroke=\"{}\"", ink_.grid));
      svg_.text({c_.plot.x - 8, at + 4}, tick.text, {kLabelSize, ink_.faint, "end"});
    }
    svg_.text({c_.plot.x - 56, c_.plot.y + c_.plot.height / 2}, "memory (GiB)", {13, ink_.text, "middle", false, -90});
    svg_.raw("</g>\n");
  }

  /// Painted from the highest sum down, so that each path needs only its upper edge.
  void stack() {
    svg_.raw("<g class=\"memory-stack\">\n");
    if (c_.series.has_pending()) {
      Curve pending = curve([](const MemoryState& state) { return state.active; });
      pending.close(c_.plot.x, c_.plot.bottom());
      svg_.path(pending.data(), fmt::format("fill=\"{}\" fill-opacity=\".13\"", ink_.active),
                "freed, waiting for an event (active less allocated)");
    }
    const auto order = shown_parts(c_.series);
    for (std::size_t n = order.size(); n-- > 0;) {
      Curve top = curve([&](const MemoryState& state) {
        std::int64_t sum = 0;
        for (std::size_t i = 0; i <= n; ++i) sum += state.category[order[i].at];
        return sum;
      });
      top.close(c_.plot.x, c_.plot.bottom());
      svg_.path(top.data(), fmt::format("fill=\"{}\" stroke=\"{}\" stroke-width=\".4\"", order[n].fill, ink_.paper),
                order[n].title);
    }
    svg_.raw("</g>\n");
  }

  void lines() {
    svg_.raw("<g class=\"memory-lines\" fill=\"none\">\n");
    if (c_.series.has_pending()) {
      Curve active = curve([](const MemoryState& state) { return state.active; });
      svg_.path(active.data(), fmt::format("stroke=\"{}\" stroke-width=\"1.6\"", ink_.active), "active");
    }
    Curve requested = curve([](const MemoryState& state) { return state.requested; });
    svg_.path(requested.data(),
              fmt::format("stroke=\"{}\" stroke-width=\"1\" stroke-dasharray=\"1.5 3\"", ink_.requested), "requested");
    Curve allocated = curve([](const MemoryState& state) { return state.allocated; });
    svg_.path(allocated.data(), fmt::format("stroke=\"{}\" stroke-width=\"1.1\"", ink_.allocated), "allocated");
    Curve reserved = curve([](const MemoryState& state) { return state.reserved; });
    svg_.path(reserved.data(),
              fmt::format("stroke=\"{}\" stroke-width=\"2.2\" stroke-dasharray=\"9 4\"", ink_.reserved), "reserved");
    svg_.raw("</g>\n");
    limit();
  }

  void limit() {
    if (!c_.limit) return;
    const double at = y(static_cast<std::int64_t>(*c_.limit));
    if (at < c_.plot.y) return;
    svg_.line({c_.plot.x, at}, {c_.plot.right(), at},
              fmt::format("stroke=\"{}\" stroke-width=\"1.5\" stroke-dasharray=\"12 3 2 3\"", ink_.alarm));
    // Peaks near it are mostly at the right: running out of memory ends the run.
    svg_.text({c_.plot.x + 120, at - 5}, fmt::format("limit {}", gib(static_cast<std::int64_t>(*c_.limit))),
              {kLabelSize, ink_.alarm, "start", false, 0, ink_.paper});
  }

  void frame() {
    svg_.line({c_.plot.x, c_.plot.y}, {c_.plot.x, c_.plot.bottom()}, fmt::format("stroke=\"{}\"", ink_.faint));
    svg_.line({c_.plot.x, c_.plot.bottom()}, {c_.plot.right(), c_.plot.bottom()},
              fmt::format("stroke=\"{}\"", ink_.faint));
    if (end_x_ > c_.plot.right() - 1) return;
    svg_.line({end_x_, c_.plot.y}, {end_x_, c_.plot.bottom()},
              fmt::format("stroke=\"{}\" stroke-dasharray=\"4 3\"", ink_.faint));
    if (const char* note = "memory recording ends"; text_width(note, 11) + 8 < c_.plot.right() - end_x_)
      svg_.text({end_x_ + 6, c_.plot.bottom() - 8}, note, {11, ink_.faint});
  }

  void marks() {
    for (const MemoryMark& mark : c_.series.marks) {
      const double x = c_.time.at(mark.time.ms());
      const bool oom = mark.kind == MemoryMark::Kind::out_of_memory;
      const std::string at = moment_words(mark.time, 3, c_.counts_events);
      const std::string title =
          oom ? fmt::format("out of memory at {}: {} asked for", at, gib(static_cast<std::int64_t>(mark.bytes)))
              : fmt::format("{} segments ({}) given back to the driver at {}", mark.count,
                            gib(static_cast<std::int64_t>(mark.bytes)), at);
      svg_.raw("<g class=\"mark\">");
      svg_.line({x, c_.plot.y}, {x, c_.plot.bottom()},
                fmt::format("stroke=\"{}\" stroke-width=\"{}\"{}", ink_.alarm, oom ? "2" : "1",
                            oom ? "" : " stroke-dasharray=\"2 3\""));
      svg_.path(fmt::format("M{} {}l-5 -8h10z", number(x), number(c_.plot.y + 8)),
                fmt::format("fill=\"{}\"", ink_.alarm), title);
      svg_.raw("</g>\n");
      if (!oom) continue;
      const bool left = x > c_.plot.x + c_.plot.width / 2;
      svg_.text({x + (left ? -8 : 8), c_.plot.y + 14}, "out of memory", {13, ink_.alarm, left ? "end" : "start", true});
    }
  }

  struct Label {
    double y;      ///< of the value
    double place;  ///< of the text
    std::string text;
    std::string_view fill;
  };

  /// Peaks right of the plot, moved apart where they would overlap, and a dot where each was reached.
  void peaks() {
    const MemorySeries& s = c_.series;
    std::vector<Label> labels;
    const auto add = [&](const PeakMark& peak, const char* name, std::string_view fill, bool dot) {
      labels.push_back({y(peak.bytes), 0, fmt::format("{} {}", name, gib(peak.bytes)), fill});
      if (!dot) return;
      svg_.circle({std::min(c_.time.at(peak.time.ms()), end_x_), y(peak.bytes)}, 4,
                  fmt::format("fill=\"{}\" stroke=\"{}\" stroke-width=\"1.5\"", ink_.paper, fill));
    };
    add(s.reserved, "reserved", ink_.reserved, false);
    if (s.has_pending()) add(s.active, "active", ink_.active, s.active.bytes > s.allocated.bytes);
    add(s.allocated, s.has_pending() ? "allocated" : "allocated = active", ink_.allocated, true);
    add(s.requested, "requested", ink_.requested, false);
    std::stable_sort(labels.begin(), labels.end(), [](const Label& a, const Label& b) { return a.y < b.y; });
    double next = c_.plot.y + 18;
    for (Label& label : labels) {
      label.place = std::max(label.y, next);
      next = label.place + kLabelLine;
    }
    double limit = c_.plot.bottom();
    for (std::size_t i = labels.size(); i-- > 0; limit = labels[i].place - kLabelLine)
      labels[i].place = std::min(labels[i].place, limit);
    const double x = c_.plot.right();
    svg_.text({x + 24, labels.front().place - kLabelLine + 4}, "peaks", {11, ink_.faint});
    for (const Label& label : labels) {
      svg_.path(fmt::format("M{} {}L{} {}", number(x + 2), number(label.y), number(x + 20), number(label.place)),
                fmt::format("fill=\"none\" stroke=\"{}\" stroke-width=\".8\"", label.fill));
      svg_.text({x + 24, label.place + 4}, label.text, {kLabelSize, label.fill});
    }
    svg_.text({std::min(std::max(c_.time.at(s.allocated.time.ms()), c_.plot.x + 60), c_.plot.right() - 60),
               y(s.allocated.bytes) - 8},
              fmt::format("{} at {}", gib(s.allocated.bytes), moment_words(s.allocated.time, 1, c_.counts_events)),
              {kLabelSize, ink_.text, "middle", true, 0, ink_.paper});
  }

  const MemoryChart& c_;
  SvgWriter& svg_;
  const Ink& ink_;
  Axis memory_;
  double end_x_ = 0;
};

}  // namespace

std::vector<StackPart> shown_parts(const MemorySeries& series) {
  std::vector<StackPart> out;
  for (const StackPart& part : series.parts)
    if (series.most(part.at) > 0) out.push_back(part);
  return out;
}

void draw_memory(const MemoryChart& chart, SvgWriter& svg) {
  MemoryDrawing(chart, svg).draw();
}

}  // namespace foreshard::viz
