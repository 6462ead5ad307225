#include "viz/svg/rank_picture.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/run/plan_results.hpp"
#include "core/straggler/rank_path.hpp"
#include "viz/scene/caption.hpp"
#include "viz/scene/lanes.hpp"
#include "viz/scene/rank_map.hpp"
#include "viz/scene/svg_writer.hpp"
#include "viz/svg/axis.hpp"
#include "viz/svg/document.hpp"
#include "viz/svg/legend.hpp"
#include "viz/svg/timeline.hpp"

namespace foreshard::viz {
namespace {

constexpr double kMapEdge = 20;
constexpr double kNames = 230;
constexpr double kTallRow = 22;
constexpr double kMaxHeight = 1000;  // of all rows
constexpr double kLeastBand = 4;     // thinner ones cannot be told apart
constexpr double kNameSize = 12;
constexpr double kPhaseStrip = 18;
constexpr double kCaptionSize = 12.5;
constexpr double kCaptionLine = 17;
constexpr std::size_t kToldVisits = 6;

/// Rows that are drawn as one.
struct Band {
  std::size_t first = 0;
  std::size_t last = 0;  ///< included
};

class RankPicture {
 public:
  RankPicture(const Run& run, const RankMapOptions& options, const Window& window, const RankActivity& activity)
      : run_(run), theme_(options.theme), ink_(ink(options.theme)), window_(window), activity_(activity) {
    width_ = options.width;
    const Side& side = *window.lanes;
    origin_ = side.knots.empty() ? side.origin : side.axis_origin;
    time_ = {window.from.ms(), window.to.ms(), kMapEdge + kNames, width_ - kMapEdge};
    paths_ = paths_in_window();
    const auto rows = static_cast<double>(activity.rows.size());
    const std::size_t each = static_cast<std::size_t>(std::ceil(rows * kLeastBand / kMaxHeight));
    for (std::size_t at = 0; at < activity.rows.size(); at += each)
      bands_.push_back({at, std::min(at + each, activity.rows.size()) - 1});
    height_of_band_ =
        std::min(kTallRow, std::max(kLeastBand, std::floor(kMaxHeight / static_cast<double>(bands_.size()))));
  }

  std::string draw() {
    double y = head();
    phases(y);
    top_ = y + kPhaseStrip + 4;
    for (std::size_t i = 0; i < bands_.size(); ++i) band(i);
    draw_path();
    const double bottom = top_ + height_of_band_ * static_cast<double>(bands_.size());
    axis(bottom);
    const double height = foot(bottom + 50);
    return svg_document(width_, height, "ranks of " + headline(run_), ink_.paper, svg_.markup());
  }

 private:
  [[nodiscard]] double x(Nanoseconds at) const {
    return std::clamp(time_.at((at - origin_).ms()), time_.from, time_.to);
  }
  [[nodiscard]] double middle(std::size_t band) const {
    return top_ + height_of_band_ * (static_cast<double>(band) + 0.5);
  }

  /// The paths of the steps that the window shows a part of.
  [[nodiscard]] std::vector<RankPath> paths_in_window() const {
    std::vector<RankPath> out = rank_paths(run_);
    std::erase_if(out, [&](const RankPath& path) {
      return path.end() - origin_ <= window_.from || path.begin() - origin_ >= window_.to;
    });
    return out;
  }

  /// Each once: of all ranks, where they have lengths of their own, else of the shown steps.
  [[nodiscard]] std::vector<StepShape> sizes() const {
    const StepShapes shapes(run_);
    std::vector<StepShape> of_ranks = shapes.of_mean();
    of_ranks.erase(std::unique(of_ranks.begin(), of_ranks.end()), of_ranks.end());
    return shapes.differ() || of_ranks.size() < 2 ? shown_sizes(run_, window_) : of_ranks;
  }

  double head() {
    svg_.text({kMapEdge, 30}, headline(run_), {20, ink_.text, "start", true});
    double y = 50;
    for (const std::string& line :
         wrapped(subtitle(run_, window_, sizes()), " · ", width_ - 2 * kMapEdge, kCaptionSize)) {
      svg_.text({kMapEdge, y}, line, {kCaptionSize, ink_.faint});
      y += kCaptionLine;
    }
    std::vector<LegendItem> items;
    for (const RankState state : {RankState::compute, RankState::communication, RankState::waiting, RankState::idle})
      items.push_back({std::string(state_title(state)), state_colour(state, theme_), {}, 0});
    if (!paths_.empty()) items.push_back({"critical path over the ranks", ink_.text, {}, 1.6});
    draw_legend(items, {kMapEdge, y, width_ - 2 * kMapEdge, 0}, ink_.text, svg_);
    return y + kLegendLine * legend_lines(items, width_ - 2 * kMapEdge) + 8;
  }

  void phases(double y) {
    for (const viz::Stretch& phase : device_phases(run_, *window_.lanes, window_)) {
      const double from = x(phase.start + origin_), to = x(phase.end + origin_);
      if (to - from < 1) continue;
      svg_.rect({from, y, to - from, kPhaseStrip}, fmt::format("fill=\"{}\" stroke=\"{}\"", ink_.band, ink_.grid),
                phase.name);
      if (text_width(phase.name, 11) + 6 < to - from)
        svg_.text({(from + to) / 2, y + 13}, phase.name, {11, ink_.faint, "middle"});
    }
  }

  [[nodiscard]] std::string band_name(const Band& band) const {
    const RankRow& first = activity_.rows[band.first];
    if (band.first == band.last) return row_name(activity_, first);
    return fmt::format("ranks {}–{}", first.rank, activity_.rows[band.last].rank);
  }

  void band(std::size_t index) {
    const Band& band = bands_[index];
    const double y = top_ + height_of_band_ * static_cast<double>(index);
    const double height = height_of_band_ - (height_of_band_ > 8 ? 2 : height_of_band_ > 5 ? 1 : 0);
    const std::string name = band_name(band);
    const auto every = static_cast<std::size_t>(std::ceil((kNameSize + 2) / height_of_band_));
    if (index % every == 0)
      svg_.text({kMapEdge, y + std::min(height_of_band_, kNameSize + 4) - 3}, shortened(name, 34),
                {kNameSize, ink_.text});
    svg_.raw("<g>");
    svg_.raw(fmt::format("<title>{}</title>", escape(title_of(band, name))));
    const auto columns = static_cast<std::size_t>(time_.to - time_.from);
    for (const RankCell& cell : cells_of(band, columns))
      svg_.rect({time_.from + static_cast<double>(cell.bin), y, static_cast<double>(cell.bins), height},
                fmt::format("fill=\"{}\"", state_colour(cell.state, theme_)));
    svg_.raw("</g>\n");
  }

  [[nodiscard]] std::string title_of(const Band& band, const std::string& name) const {
    if (band.first != band.last) return name;
    return fmt::format(
        "{}: {}", name,
        state_words(state_times(activity_.rows[band.first], window_.from + origin_, window_.to + origin_)));
  }

  /// Each bin in the state that most of the band's ranks are in.
  [[nodiscard]] std::vector<RankCell> cells_of(const Band& band, std::size_t columns) const {
    const Nanoseconds from = window_.from + origin_, to = window_.to + origin_;
    if (band.first == band.last) return rank_cells(activity_.rows[band.first], from, to, columns);
    std::vector<std::array<std::uint64_t, kRankStates>> ranks(columns);
    for (std::size_t i = band.first; i <= band.last; ++i)
      for (const RankCell& cell : rank_cells(activity_.rows[i], from, to, columns))
        for (std::size_t bin = cell.bin; bin < cell.bin + cell.bins; ++bin)
          ranks[bin][static_cast<std::size_t>(cell.state)] += rank_count(activity_.rows[i].members);
    std::vector<RankCell> out;
    for (std::size_t bin = 0; bin < columns; ++bin) {
      const auto most = std::max_element(ranks[bin].begin(), ranks[bin].end());
      if (*most == 0) continue;
      const auto state = static_cast<RankState>(most - ranks[bin].begin());
      if (!out.empty() && out.back().bin + out.back().bins == bin && out.back().state == state)
        ++out.back().bins;
      else
        out.push_back({bin, 1, state, 0});
    }
    return out;
  }

  [[nodiscard]] std::optional<std::size_t> band_of(std::uint32_t rank) const {
    for (std::size_t i = 0; i < bands_.size(); ++i)
      for (std::size_t row = bands_[i].first; row <= bands_[i].last; ++row)
        if (activity_.rows[row].rank == rank) return i;
    return std::nullopt;
  }

  void draw_path() {
    std::string data;
    for (const RankPath& path : paths_)
      for (const PathVisit& visit : path.visits) {
        const auto band = band_of(visit.rank);
        if (!band || visit.end - origin_ < window_.from || visit.begin - origin_ > window_.to) continue;
        data += fmt::format("{}{} {}H{}", data.empty() ? "M" : "L", number(x(visit.begin)), number(middle(*band)),
                            number(x(visit.end)));
      }
    if (data.empty()) return;
    svg_.path(data, fmt::format("fill=\"none\" stroke=\"{}\" stroke-width=\"4\" stroke-opacity=\".75\"", ink_.paper));
    svg_.path(data, fmt::format("fill=\"none\" stroke=\"{}\" stroke-width=\"1.6\"", ink_.text), "critical path");
  }

  void axis(double bottom) {
    for (const Tick& tick : time_.ticks(14)) {
      const double at = time_.at(tick.value);
      svg_.line({at, bottom}, {at, bottom + 5}, fmt::format("stroke=\"{}\"", ink_.faint));
      svg_.text({at, bottom + 18}, tick.text, {12, ink_.faint, "middle"});
    }
    svg_.text({(time_.from + time_.to) / 2, bottom + 36}, "time since the host began the step (ms)",
              {13, ink_.text, "middle"});
  }

  double foot(double y) {
    std::vector<std::string> lines;
    const std::string missing = not_shown(activity_);
    if (!missing.empty()) lines.push_back(missing);
    if (bands_.size() < activity_.rows.size())
      lines.push_back(
          fmt::format("{} rows of up to {} ranks or groups of equal ones, each in the state of most of them",
                      bands_.size(), bands_.front().last + 1));
    for (const RankPath& path : paths_) {
      lines.push_back(fmt::format("critical path of step {}, {:.2f} ms:", path.step, (path.end() - path.begin()).ms()));
      for (const std::string& line : path_lines(path, kToldVisits)) lines.push_back("  " + line);
    }
    for (const std::string& line : lines) {
      svg_.text({kMapEdge, y}, shortened(line, static_cast<std::size_t>((width_ - 2 * kMapEdge) / 6.2)),
                {kCaptionSize, ink_.faint});
      y += kCaptionLine;
    }
    return y + 4;
  }

  const Run& run_;
  Theme theme_;
  const Ink& ink_;
  const Window& window_;
  const RankActivity& activity_;
  std::vector<RankPath> paths_;  // in time
  Nanoseconds origin_;
  double width_ = 0, top_ = 0, height_of_band_ = kTallRow;
  Axis time_;
  std::vector<Band> bands_;
  SvgWriter svg_;
};

}  // namespace

Result<std::string> draw_rank_map(const Run& run, const RankMapOptions& options) {
  if (options.width < kLeastWidth || options.width > kMaxPixels)
    return fail(ErrorKind::usage, fmt::format("a picture {} pixels wide cannot be drawn", options.width), "--width",
                fmt::format("give {} to {}", kLeastWidth, kMaxPixels));
  const auto window = choose_window(run, options.window);
  FORESHARD_TRY(window);
  const auto activity = rank_activity(run);
  if (!activity || !window->lanes)
    return tl::unexpected(no_device_ops(run, "the run has no ops of a GPU, so there is nothing that a rank does", ""));
  return RankPicture(run, options, *window, *activity).draw();
}

}  // namespace foreshard::viz
