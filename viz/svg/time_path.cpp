#include "viz/svg/time_path.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "core/explain_time/time_words.hpp"
#include "core/run/step_title.hpp"
#include "viz/scene/caption.hpp"
#include "viz/scene/cause_colours.hpp"
#include "viz/scene/svg_writer.hpp"
#include "viz/svg/axis.hpp"
#include "viz/svg/document.hpp"
#include "viz/svg/legend.hpp"

namespace foreshard::viz {
namespace {

constexpr double kEdge = 20;
constexpr double kWords = 470;  // the rows' names
constexpr double kNumbers = 150;
constexpr double kBar = 44;
constexpr double kRowHeight = 21;
constexpr double kHeadLine = 18;
constexpr double kHeadSize = 13.5;
constexpr std::size_t kMaxRows = 60;
constexpr std::uint32_t kLeastPixels = 900;
constexpr std::string_view kCompute = "#9fb4c7";

std::string fill(std::string_view colour_of) {
  return fmt::format("fill=\"{}\"", colour_of);
}

std::vector<std::string> words_of(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + 1;
  }
  return words;
}

class Picture {
 public:
  Picture(const Run& run, const TimeExplanation& e, const std::vector<PathRow>& path, const TimePathOptions& options)
      : run_(run),
        e_(e),
        path_(path),
        ink_(ink(options.theme)),
        width_(std::max(options.width, kLeastPixels)),
        headline_(options.headline.empty() ? time_headline(run, e) : options.headline) {
    time_ = {0, std::max(e.length().ms(), 1e-6), kEdge + kWords, width_ - kEdge - kNumbers};
  }

  std::string draw() {
    double y = head();
    y = step_bar(y);
    y = rows(y);
    axis(y);
    y += 40;
    draw_legend(legend_, {kEdge, y, width_ - 2 * kEdge, 0}, ink_.text, svg_);
    const double height = y + kLegendLine * legend_lines(legend_, width_ - 2 * kEdge) + kEdge;
    return svg_document(width_, height, run_.info.name, ink_.paper, svg_.markup());
  }

 private:
  [[nodiscard]] double x(Nanoseconds at) const { return time_.at((at - e_.begin).ms()); }

  double head() {
    double y = kEdge + 8;
    svg_.text({kEdge, y}, fmt::format("{}, {}", run_.info.name, step_title(run_, e_.recording, e_.step)),
              {20, ink_.text, "start", true});
    for (const std::string& text : {not_valid(run_), headline_})
      for (const std::string& line : wrapped(words_of(text), " ", width_ - 2 * kEdge, kHeadSize)) {
        y += kHeadLine;
        svg_.text({kEdge, y}, line, {kHeadSize, ink_.faint});
      }
    legend_.push_back({"compute", kCompute, {}, 0});
    const CauseTotals totals = cause_totals(e_);
    for (const IdleCause cause : kEnumValues<IdleCause>)
      if (const CauseTotal& total = totals[static_cast<std::size_t>(cause)]; total.parts > 0)
        legend_.push_back({fmt::format("{} {:.2f} ms", title(cause), total.time.ms()), cause_colour(cause), {}, 0});
    return y + 22;
  }

  /// Each pixel's column is as high as the compute stream was idle in it, in the colour of what took most of that.
  double step_bar(double y) {
    svg_.text({kEdge, y + kBar / 2 + 4},
              fmt::format("compute stream, idle for {:.2f} of {:.2f} ms", e_.idle().ms(), e_.length().ms()),
              {12.5, ink_.text});
    const auto columns = static_cast<std::size_t>(std::max(1.0, std::floor(time_.to - time_.from)));
    const double per_column = static_cast<double>(e_.length().count) / static_cast<double>(columns);
    std::vector<std::array<double, kEnumSize<IdleCause>>> idle(columns);
    for (const IdlePart& part : e_.parts) {
      const double from = static_cast<double>((part.start - e_.begin).count) / per_column;
      const double to = static_cast<double>((part.end - e_.begin).count) / per_column;
      for (auto c = static_cast<std::size_t>(from); c < columns && static_cast<double>(c) < to; ++c)
        idle[c][static_cast<std::size_t>(part.cause)] +=
            std::min(to, static_cast<double>(c) + 1) - std::max(from, static_cast<double>(c));
    }
    svg_.rect({time_.from, y, time_.to - time_.from, kBar}, fill(kCompute), "compute");
    for (std::size_t c = 0; c < columns; ++c) {
      double sum = 0;
      for (const double share : idle[c]) sum += share;
      if (sum < 0.02) continue;
      const auto most = static_cast<IdleCause>(std::max_element(idle[c].begin(), idle[c].end()) - idle[c].begin());
      const double height = kBar * std::min(1.0, sum);
      svg_.rect({time_.from + static_cast<double>(c), y + kBar - height, 1, height}, fill(cause_colour(most)),
                title(most));
    }
    return y + kBar + 18;
  }

  double rows(double y) {
    top_ = y;
    std::size_t drawn = 0, left_out = 0;
    for (const PathRow& row : path_) {
      if (drawn + row.pattern.size() > kMaxRows) {
        left_out += row.pattern.size();
        continue;
      }
      for (std::size_t i = 0; i < row.pattern.size(); ++i, ++drawn, y += kRowHeight) stretch(row, i, y);
    }
    if (left_out > 0) {
      svg_.text({kEdge, y + 14}, fmt::format("and {} more stretches", left_out), {12, ink_.faint});
      y += kRowHeight;
    }
    return y;
  }

  /// A row of one stretch is where it was; of several, from the first to where the last ends, as high as its share.
  void stretch(const PathRow& row, std::size_t index, double y) {
    const PathStretch& s = row.pattern[index];
    const std::string words = stretch_words(run_, e_, s, row.count);
    const std::string each =
        row.count > 1 ? fmt::format("{} times {:.2f} ms", row.count, s.time.ms() / static_cast<double>(row.count))
                      : fmt::format("{:.2f} ms", s.time.ms());
    svg_.text({kEdge + (s.computes ? 0.0 : 14.0), y + 14}, shortened(words, 74), {12, ink_.text});
    Nanoseconds all;
    for (const PathStretch& other : row.pattern) all += other.time;
    const Nanoseconds begin = row.pattern.front().start;
    const double from = row.count > 1 ? x(begin) : x(s.start);
    const double to = row.count > 1 ? x(begin + all) : x(s.start + s.time);
    const double share = row.count > 1 ? s.time.ms() / std::max(all.ms(), 1e-9) : 1;
    const double full = kRowHeight - 6;
    const double height = std::max(2.0, full * share);
    svg_.line({time_.from, y + kRowHeight - 2}, {time_.to, y + kRowHeight - 2},
              fmt::format("stroke=\"{}\" stroke-width=\"0.5\"", ink_.grid));
    svg_.rect({from, y + 2 + full - height, std::max(1.0, to - from), height},
              fill(s.computes ? kCompute : cause_colour(s.cause)), words + ", " + each);
    svg_.text({time_.to + 8, y + 14}, each, {12, ink_.faint});
  }

  void axis(double y) {
    for (const Tick& tick : time_.ticks(10)) {
      const double at = time_.at(tick.value);
      svg_.line({at, top_}, {at, y}, fmt::format("stroke=\"{}\" stroke-width=\"0.5\"", ink_.grid));
      svg_.text({at, y + 15}, tick.text, {11.5, ink_.faint, "middle"});
    }
    svg_.text({time_.to + 8, y + 15}, "ms", {11.5, ink_.faint});
  }

  const Run& run_;
  const TimeExplanation& e_;
  const std::vector<PathRow>& path_;
  const Ink& ink_;
  double width_;
  std::string headline_;
  Axis time_;
  double top_ = 0;
  std::vector<LegendItem> legend_;
  SvgWriter svg_;
};

}  // namespace

std::string draw_time_path(const Run& run, const TimeExplanation& explanation, const std::vector<PathRow>& path,
                           const TimePathOptions& options) {
  return Picture(run, explanation, path, options).draw();
}

}  // namespace foreshard::viz
