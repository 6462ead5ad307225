#include "core/straggler/rank_path.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/device/collective_names.hpp"
#include "core/run/allocation_names.hpp"
#include "core/run/plan_results.hpp"
#include "core/straggler/first_cause.hpp"

namespace foreshard {
namespace {

using straggler_detail::RankSpans;
using straggler_detail::SpanKind;
using PathSpan = straggler_detail::Span;

/// The bounds of a step: from the last rank's end of the one before to the last rank's end.
struct StepBounds {
  std::size_t rank = 0;  ///< place of the rank that ends last; the first of several
  Nanoseconds begin;
  Nanoseconds end;
};

/// What the paths of all steps have in common: made once a run.
class PathGround {
 public:
  explicit PathGround(const Run& run) : run_(run), ranks_(straggler_detail::rank_spans_as_begun(run)) {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      place_of_[ranks_[i].rank] = i;
      for (const PathSpan& span : ranks_[i].spans) {
        const Nanoseconds end = span.begin + span.time;
        const auto [known, is_new] = ends_.try_emplace(span.step, i, end);
        if (!is_new && end > known->second.second) known->second = {i, end};
      }
    }
    for (const RankOpRecord& row : run.rank_ops)
      if (row.sequence >= 0) collectives_.try_emplace(key_of(row), &row);
    if (const auto hung = hung_step(run)) ends_.erase(ends_.lower_bound(*hung), ends_.end());
  }

  [[nodiscard]] const Run& run() const { return run_; }
  [[nodiscard]] const RankSpans& rank(std::size_t place) const { return ranks_[place]; }
  [[nodiscard]] const RankOpRecord& collective(const CollectiveKey& key) const { return *collectives_.at(key); }
  [[nodiscard]] std::optional<std::size_t> place_of(std::uint32_t rank) const {
    const auto found = place_of_.find(rank);
    return found == place_of_.end() ? std::nullopt : std::optional(found->second);
  }
  /// Ascending.
  [[nodiscard]] std::vector<std::int32_t> steps() const {
    std::vector<std::int32_t> out;
    for (const auto& [step, end] : ends_) out.push_back(step);
    return out;
  }
  [[nodiscard]] std::optional<StepBounds> bounds_of(std::int32_t step) const {
    const auto last = ends_.find(step);
    if (ranks_.size() < 2 || last == ends_.end() || step == INT32_MIN) return std::nullopt;
    const auto before = ends_.find(step - 1);
    if (before == ends_.end() || before->second.second >= last->second.second) return std::nullopt;
    return StepBounds{last->second.first, before->second.second, last->second.second};
  }

 private:
  const Run& run_;
  std::vector<RankSpans> ranks_;
  std::map<std::uint32_t, std::size_t> place_of_;
  std::map<std::int32_t, std::pair<std::size_t, Nanoseconds>> ends_;  // by step: the place that ends last, and when
  std::map<CollectiveKey, const RankOpRecord*> collectives_;
};

class PathWalk {
 public:
  explicit PathWalk(const PathGround& ground) : ground_(ground) {}

  RankPath walk(const StepBounds& bounds) {
    at_ = bounds.end;
    visit_at(bounds.rank);
    while (at_ > bounds.begin) back(bounds.begin);
    close();
    std::reverse(out_.visits.begin(), out_.visits.end());
    return std::move(out_);
  }

 private:
  void visit_at(std::size_t place) {
    place_ = place;
    visit_ = {};
    visit_.rank = ground_.rank(place).rank;
    visit_.end = at_;
    by_label_.clear();
  }

  /// What the visited rank did just before `at_`, or the rank that it waited for.
  void back(Nanoseconds begin) {
    const std::vector<PathSpan>& spans = ground_.rank(place_).spans;
    const auto after =
        std::partition_point(spans.begin(), spans.end(), [&](const PathSpan& span) { return span.begin < at_; });
    if (after == spans.begin()) return pass(begin, nullptr);
    const PathSpan& span = *std::prev(after);
    if (span.begin + span.time < at_) return pass(std::max(begin, span.begin + span.time), nullptr);
    if (span.kind == SpanKind::waiting && jump(span)) return;
    pass(std::max(begin, span.begin), &span);
  }

  /// Where ranks wait for one another in a circle at one instant, as when clocks of a recording are not quite even, the
  /// wait stays what it is.
  bool jump(const PathSpan& span) {
    const auto late = ground_.place_of(*span.for_rank);
    if (!late || !here_.insert(place_).second || here_.contains(*late)) return false;
    const std::string name = span.behind ? name_of(*span.behind) : "";
    close();
    visit_at(*late);
    visit_.collective = name;
    return true;
  }

  void pass(Nanoseconds until, const PathSpan* span) {
    const Nanoseconds time = at_ - until;
    if (span != nullptr && span->kind == SpanKind::compute) {
      visit_.compute += time;
      by_label_[span->label] += time;
    } else if (span != nullptr && span->kind == SpanKind::communication) {
      visit_.communication += time;
    } else {
      visit_.idle += time;
    }
    at_ = until;
    here_.clear();
  }

  void close() {
    visit_.begin = at_;
    std::map<std::string, Nanoseconds> by_title;
    for (const auto& [label, time] : by_label_) by_title[short_op_title(ground_.run().labels.text(label))] += time;
    for (const auto& [title, time] : by_title)
      if (time > visit_.most_time) {
        visit_.most = title;
        visit_.most_time = time;
      }
    // A rank that was jumped over at one instant has no part in the path.
    if (visit_.end > visit_.begin) out_.visits.push_back(visit_);
  }

  /// "all-gather layers.3"; of a recording, whose collectives have no unit, "all-gather in backward".
  [[nodiscard]] std::string name_of(const CollectiveKey& key) const {
    const Run& run = ground_.run();
    const RankOpRecord& row = ground_.collective(key);
    const std::string kind(dashed_name(row.op.collective));
    if (row.op.unit.valid()) {
      const std::string& unit = run.units[row.op.unit.value].name;
      return kind + " " + (unit.empty() ? "root" : unit);
    }
    const std::string phase = row.phase.valid() ? run.labels.text(row.phase) : std::string();
    return phase.empty() ? kind : kind + " in " + phase;
  }

  const PathGround& ground_;
  Nanoseconds at_;
  std::size_t place_ = 0;
  PathVisit visit_;
  std::map<LabelId, Nanoseconds> by_label_;
  std::set<std::size_t> here_;  // ranks that were visited at this instant
  RankPath out_;
};

std::optional<RankPath> path_of(const PathGround& ground, std::int32_t step) {
  const auto bounds = ground.bounds_of(step);
  if (!bounds) return std::nullopt;
  RankPath out = PathWalk(ground).walk(*bounds);
  out.step = step;
  return out;
}

}  // namespace

std::string visit_words(const PathVisit& visit) {
  std::string out = fmt::format("rank {}: {:.2f} ms", visit.rank, (visit.end - visit.begin).ms());
  std::string parts;
  const auto add = [&](const char* what, Nanoseconds time) {
    if (time.count > 0) parts += fmt::format("{}{} {:.2f}", parts.empty() ? "" : ", ", what, time.ms());
  };
  add("compute", visit.compute);
  add("exposed communication", visit.communication);
  add("idle", visit.idle);
  out += fmt::format(" ({})", parts);
  if (!visit.most.empty()) out += fmt::format(", most in {} ({:.2f} ms)", visit.most, visit.most_time.ms());
  if (!visit.collective.empty()) out += fmt::format("; then it is the last to begin {}", visit.collective);
  return out;
}

std::vector<std::string> path_lines(const RankPath& path, std::size_t most) {
  std::vector<std::size_t> longest(path.visits.size());
  for (std::size_t i = 0; i < longest.size(); ++i) longest[i] = i;
  const auto length = [&](std::size_t i) { return path.visits[i].end - path.visits[i].begin; };
  std::stable_sort(longest.begin(), longest.end(), [&](std::size_t a, std::size_t b) { return length(a) > length(b); });
  if (longest.size() > most) longest.resize(most);
  std::sort(longest.begin(), longest.end());
  std::vector<std::string> out;
  Nanoseconds told;
  for (const std::size_t i : longest) {
    out.push_back(visit_words(path.visits[i]));
    told += length(i);
  }
  if (const std::size_t left = path.visits.size() - longest.size(); left > 0)
    out.push_back(fmt::format("between them {} shorter stretches on these and other ranks: {:.2f} ms", left,
                              (path.end() - path.begin() - told).ms()));
  return out;
}

std::optional<RankPath> rank_path(const Run& run, std::int32_t step) {
  return path_of(PathGround(run), step);
}

std::optional<RankPath> rank_path(const Run& run) {
  const PathGround ground(run);
  const std::vector<std::int32_t> steps = ground.steps();
  for (auto step = steps.rbegin(); step != steps.rend(); ++step)
    if (auto path = path_of(ground, *step)) return path;
  return std::nullopt;
}

std::vector<RankPath> rank_paths(const Run& run) {
  const PathGround ground(run);
  std::vector<RankPath> out;
  for (const std::int32_t step : ground.steps())
    if (auto path = path_of(ground, step)) out.push_back(std::move(*path));
  return out;
}

}  // namespace foreshard
