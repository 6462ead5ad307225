#include "viz/svg/timeline.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "core/run/plan_results.hpp"
#include "viz/scene/caption.hpp"
#include "viz/scene/device_clock.hpp"
#include "viz/svg/document.hpp"
#include "viz/svg/lane_chart.hpp"
#include "viz/svg/legend.hpp"
#include "viz/svg/link_chart.hpp"
#include "viz/svg/memory_chart.hpp"

namespace foreshard::viz {
namespace {

constexpr double kMargin = 20;
constexpr double kLeft = 200;    ///< lane names and the memory axis
constexpr double kRight = 220;   ///< peaks: "allocated = active 138.80 GiB"
constexpr double kMemory = 430;  ///< height of the memory chart where none is asked for
constexpr double kLeastMemory = 150;
constexpr double kRow = 30;
constexpr double kLinkRow = 46;
constexpr double kTextLine = 17;
constexpr double kTextSize = 12.5;

/// Everything that is drawn, and where.
class Page {
 public:
  Page(const Run& run, const TimelineOptions& options, Window window)
      : run_(run), options_(options), window_(std::move(window)), ink_(ink(options.theme)) {
    width_ = options.width;
    plot_width_ = width_ - kLeft - kRight;
    time_ = {window_.from.ms(), window_.to.ms(), kLeft, kLeft + plot_width_};
    read();
    lay_out();
  }

  Result<std::string> draw() {
    if (memory_ && memory_height_ < kLeastMemory)
      return fail(ErrorKind::usage, fmt::format("{} pixels are too low for this picture", *options_.height), "--height",
                  fmt::format("give at least {:.0f}", std::ceil(height_ + kLeastMemory - memory_height_)));
    head();
    if (memory_) memory();
    lanes();
    time_axis();
    foot();
    return svg_document(width_, height_, headline(run_), ink_.paper, svg_.markup());
  }

 private:
  void read() {
    const auto pixel = Nanoseconds::from_double(std::max(1.0, time_.per_pixel() * 1e6));
    if (window_.memory) {
      if (options_.by) groups_ = group_blocks(run_, *options_.by, kMaxGroups);
      memory_ = read_memory(run_, *window_.memory, window_, static_cast<std::size_t>(plot_width_),
                            options_.by ? &groups_ : nullptr);
      memory_phases_ = host_phases(run_, *window_.memory, window_);
    }
    if (!window_.lanes) return;
    lanes_ = read_lanes(run_, *window_.lanes, window_, pixel);
    // Over the memory chart stand the host's phases already, where both are on one clock.
    if (window_.two_clocks || !memory_) lane_phases_ = host_phases(run_, *window_.lanes, window_);
    device_phases_ = device_phases(run_, *window_.lanes, window_);
  }

  /// A third of a pixel of the memory chart, about.
  [[nodiscard]] double least_gib() const {
    return static_cast<double>(memory_->top) / static_cast<double>(kGiB) / kMemory / 3;
  }
  [[nodiscard]] bool any_pale() const {
    for (const Lane& lane : lanes_)
      for (const Bar& bar : lane.bars)
        if (bar.other_step) return true;
    return false;
  }
  [[nodiscard]] std::vector<LegendItem> memory_legend() const {
    std::vector<LegendItem> items;
    if (!memory_) return items;
    for (const StackPart& part : shown_parts(*memory_))
      if (static_cast<double>(memory_->most(part.at)) >= least_gib() * static_cast<double>(kGiB))
        items.push_back({part.title, part.fill, {}, 0});
    items.push_back({"reserved", ink_.reserved, "9 4", 2.2});
    if (memory_->has_pending())
      items.push_back({"active: allocated + freed blocks that wait for an event", ink_.active, {}, 1.6});
    items.push_back({memory_->has_pending() ? "allocated" : "allocated = active", ink_.allocated, {}, 1.1});
    items.push_back({"requested", ink_.requested, "1.5 3", 1});
    return items;
  }
  [[nodiscard]] std::vector<LegendItem> lane_legend() const {
    std::vector<LegendItem> items;
    const auto shown = shown_classes(lanes_);
    for (std::size_t k = 0; k < kOpClasses; ++k)
      if (shown[k])
        items.push_back(
            {std::string(style(static_cast<OpClass>(k)).title), style(static_cast<OpClass>(k)).fill, {}, 0});
    return items;
  }

  void lay_out() {
    subtitle_ = wrapped(subtitle(run_, window_), " · ", width_ - 2 * kMargin, kTextSize);
    std::vector<std::string> facts =
        caption(run_, window_, {memory_ ? &*memory_ : nullptr, memory_ ? least_gib() : 0, any_pale()});
    if (!lanes_.empty() && !options_.links.links.empty())
      facts.push_back(fmt::format("links: one direction of one GPU's, rates of {}", options_.links.machine));
    if (memory_ && options_.limit)
      facts.push_back(fmt::format("the allocator may take {}", gib(static_cast<std::int64_t>(*options_.limit))));
    caption_ = wrapped(facts, " · ", width_ - 2 * kMargin, kTextSize);
    memory_items_ = memory_legend();
    lane_items_ = lane_legend();
    const double legend_width = width_ - 2 * kMargin;
    const double top = 40 + kTextLine * static_cast<double>(subtitle_.size()) + 6;
    memory_legend_y_ = top;
    const double memory_top = top + kLegendLine * legend_lines(memory_items_, legend_width) + (memory_ ? 30 : 0);
    const double rows = kRow * static_cast<double>(row_count(lanes_, !lane_phases_.empty(), !device_phases_.empty()));
    const double links = lanes_.empty() ? 0 : kLinkRow * static_cast<double>(options_.links.links.size());
    const double below = 24 + rows + links + 44 + kLegendLine * legend_lines(lane_items_, legend_width) + 12 +
                         kTextLine * static_cast<double>(caption_.size()) + kMargin / 2;
    memory_height_ = !memory_ ? 0 : options_.height ? *options_.height - memory_top - below : kMemory;
    memory_plot_ = {kLeft, memory_top, plot_width_, memory_height_};
    lanes_plot_ = {kLeft, memory_top + memory_height_ + 24, plot_width_, rows + links};
    links_height_ = links;
    height_ = std::ceil(memory_top + memory_height_ + below);
  }

  void head() {
    svg_.text({kMargin, 30}, headline(run_), {20, ink_.text, "start", true});
    double y = 50;
    for (const std::string& line : subtitle_) {
      svg_.text({kMargin, y}, line, {kTextSize, ink_.faint});
      y += kTextLine;
    }
    draw_legend(memory_items_, {kMargin, memory_legend_y_, width_ - 2 * kMargin, 0}, ink_.text, svg_);
  }

  void memory() {
    // Behind the snapshot's step its clock means nothing; behind running out of memory nothing happens.
    const std::vector<ShownStep>& steps = window_.memory->steps;
    const bool ends = !steps.empty() && (window_.two_clocks || !steps.back().complete);
    const Nanoseconds last = std::max(window_.memory->place(window_.memory->last), Nanoseconds{0});
    const double end = ends ? std::min(std::max(memory_->last_event, last).ms(), window_.to.ms()) : window_.to.ms();
    const char* phases = window_.memory->knots.empty() ? "host: phases" : "memory: phases";
    draw_memory(
        {*memory_, memory_phases_, phases, memory_plot_, time_, options_.theme, options_.limit, counts_events_, end},
        svg_);
    step_marks(*window_.memory, memory_plot_);
  }

  void lanes() {
    vertical_grid();
    if (lanes_.empty()) return;
    Box rows = lanes_plot_;
    rows.height -= links_height_;
    draw_lanes({lanes_, lane_phases_, device_phases_, rows, time_, options_.theme}, svg_);
    draw_links({options_.links.links,
                *window_.lanes,
                {kLeft, rows.bottom(), plot_width_, links_height_},
                time_,
                options_.theme},
               svg_);
    step_marks(*window_.lanes, lanes_plot_);
  }

  void step_marks(const Side& side, const Box& plot) {
    double room = plot.x;  // where the next name may begin
    for (const ShownStep& step : side.steps) {
      const double at = side.place(step.start).ms();
      if (at < time_.low || at > time_.high) continue;
      const double x = time_.at(at);
      svg_.line({x, plot.y}, {x, plot.bottom()},
                fmt::format("stroke=\"{}\" stroke-width=\"1.2\" stroke-dasharray=\"7 3\"", ink_.faint));
      const bool laid = !side.knots.empty();  // over another clock: it is not the host that begins there
      const std::string name = fmt::format("{}step {}", laid ? "" : "host begins ", step.index);
      const bool told = !window_.two_clocks && memory_ && plot.y == lanes_plot_.y;  // over the memory chart already
      if (told || x + 4 < room || x + text_width(name, 11) > plot.right()) continue;
      room = x + 10 + text_width(name, 11);
      svg_.text({x + 4, plot.y + (lanes_.empty() || plot.y == lanes_plot_.y ? -5 : 12)}, name,
                {11, ink_.text, "start", false, 0, ink_.paper});
    }
  }

  /// In ms; of a run that counts allocator events at round numbers of these.
  [[nodiscard]] std::vector<Tick> time_ticks() const {
    constexpr int kMaxTimeTicks = 14;
    if (!counts_events_) return time_.ticks(kMaxTimeTicks);
    constexpr double kEvents = 1e6;  // one a nanosecond
    std::vector<Tick> out = Axis{time_.low * kEvents, time_.high * kEvents, time_.from, time_.to}.ticks(kMaxTimeTicks);
    for (Tick& tick : out) tick.value /= kEvents;
    return out;
  }

  void vertical_grid() {
    svg_.raw("<g class=\"time-grid\">\n");
    for (const Tick& tick : time_ticks()) {
      const double x = time_.at(tick.value);
      svg_.line({x, lanes_plot_.y}, {x, lanes_plot_.bottom()}, fmt::format("stroke=\"{}\"", ink_.grid));
      if (memory_)
        svg_.line({x, memory_plot_.bottom()}, {x, memory_plot_.bottom() + 5}, fmt::format("stroke=\"{}\"", ink_.faint));
    }
    svg_.raw("</g>\n");
  }

  void time_axis() {
    const double y = lanes_plot_.bottom();
    svg_.line({kLeft, y}, {kLeft + plot_width_, y}, fmt::format("stroke=\"{}\"", ink_.faint));
    for (const Tick& tick : time_ticks()) {
      const double x = time_.at(tick.value);
      svg_.line({x, y}, {x, y + 5}, fmt::format("stroke=\"{}\"", ink_.faint));
      svg_.text({x, y + 18}, tick.text, {12, ink_.faint, "middle"});
    }
    svg_.text({kLeft + plot_width_ / 2, y + 36},
              fmt::format("{} since the host began the {}step{}", counts_events_ ? "allocator events" : "time",
                          options_.window.all ? "first " : "", counts_events_ ? "; the source has no times" : " (ms)"),
              {13, ink_.text, "middle"});
  }

  void foot() {
    double y = lanes_plot_.bottom() + 46;
    draw_legend(lane_items_, {kMargin, y, width_ - 2 * kMargin, 0}, ink_.text, svg_);
    y += kLegendLine * legend_lines(lane_items_, width_ - 2 * kMargin) + 16;
    for (const std::string& line : caption_) {
      svg_.text({kMargin, y}, line, {kTextSize, ink_.faint});
      y += kTextLine;
    }
  }

  const Run& run_;
  const bool counts_events_ = counts_events(run_);
  const TimelineOptions& options_;
  Window window_;
  const Ink& ink_;
  SvgWriter svg_;
  Axis time_;
  BlockGroups groups_;  // where the memory is stacked by them
  std::optional<MemorySeries> memory_;
  std::vector<Stretch> memory_phases_, lane_phases_, device_phases_;
  std::vector<Lane> lanes_;
  std::vector<std::string> subtitle_, caption_;
  std::vector<LegendItem> memory_items_, lane_items_;
  double width_ = 0, height_ = 0, plot_width_ = 0, memory_height_ = 0, memory_legend_y_ = 0, links_height_ = 0;
  Box memory_plot_, lanes_plot_;
};

}  // namespace

Result<std::string> draw_timeline(const Run& run, const TimelineOptions& options) {
  if (options.width < kLeastWidth || options.width > kMaxPixels)
    return fail(ErrorKind::usage, fmt::format("a picture {} pixels wide cannot be drawn", options.width), "--width",
                fmt::format("give {} to {}", kLeastWidth, kMaxPixels));
  if (options.height && *options.height > kMaxPixels)
    return fail(ErrorKind::usage, fmt::format("a picture {} pixels high cannot be drawn", *options.height), "--height",
                fmt::format("give at most {}", kMaxPixels));
  const auto without = without_device_clock(run);
  const Run& shown = without ? *without : run;
  if (options.by) FORESHARD_TRY(check_groups(shown, *options.by));
  auto window = choose_window(shown, options.window);
  FORESHARD_TRY(window);
  return Page(shown, options, std::move(*window)).draw();
}

}  // namespace foreshard::viz
