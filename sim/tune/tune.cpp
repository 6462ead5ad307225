#include "sim/tune/tune.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "sim/predict/predict.hpp"
#include "sim/sweep/candidates.hpp"
#include "sim/sweep/outcome.hpp"
#include "sim/tune/neighbours.hpp"
#include "sim/tune/tried_points.hpp"

namespace foreshard::sim {
namespace {

/// So many points' neighbours may bring nothing, one after the other, until the search ends.
constexpr std::size_t kPatience = 6;
constexpr std::size_t kNext = 3;
/// What a change must bring, of the step: less is taken back, where that leaves the best no slower than what simpler
/// searches find.
constexpr double kWorth = 0.0025;
/// How much less reserved memory makes a slower point worth naming.
constexpr double kSmaller = 0.02;

/// The points of `sweep` without ranges, at the start's other settings.
std::vector<Neighbour> uniform_points(const TuneRequest& request) {
  const std::vector<Range> ranges = usual_ranges();
  std::vector<Neighbour> out;
  for (std::size_t i = 0, count = count_points(ranges).value_or(0); i < count; ++i) {
    Settings base = request.start;
    base.prefetch_lists = {};
    auto settings = settings_at(base, ranges, i);
    if (settings && request.allowed.holds(changed_families(request.start, *settings)))
      out.push_back({std::move(*settings), "uniform settings", {}, {}});
  }
  return out;
}

class Tuner {
 public:
  Tuner(WorkloadSource& source, const MachineProfile& machine, const TuneRequest& request, const PointRequest& shared)
      : source_(source),
        machine_(machine),
        request_(request),
        shared_(shared),
        tried_(source, machine, request, shared) {}

  Result<TuneResult> find() {
    FORESHARD_TRY(try_start());
    out_.uniform = best_of(tried_.run(uniform_points(request_), TriedPoints::Prune::no));
    FORESHARD_TRY(go_deeper());
    FORESHARD_TRY(search());
    simplify();
    return finish();
  }

 private:
  Result<void> try_start() {
    tried_.run({{request_.start, "as asked for", {}, {}}}, TriedPoints::Prune::no);
    if (tried_.points().empty()) return fail(ErrorKind::usage, "a search of no points finds nothing", "--points");
    const SweepPoint& start = tried_.points().front().point;
    if (start.state == SweepPoint::State::refused) return fail(ErrorKind::usage, start.reason);
    if (start.state == SweepPoint::State::ran && !start.has_time)
      return fail(ErrorKind::usage, "the source has no times, so that nothing is faster than anything", {},
                  "import a profiler trace with it; sweep finds the settings of least memory");
    return {};
  }

  /// The greedy search: deeper as long as memory allows. What is beyond the first that runs out of it is not tried.
  Result<void> go_deeper() {
    const auto workload = source_.at(request_.start);
    FORESHARD_TRY(workload);
    const Position position{request_.start, request_.allowed, request_.start, **workload, {}, false};
    std::vector<std::optional<std::size_t>> all;
    for (Neighbour& one : deeper_prefetch(position)) {
      const auto at = tried_.run({std::move(one)}, TriedPoints::Prune::no).front();
      all.push_back(at);
      if (!at || tried_.points()[*at].point.state == SweepPoint::State::out_of_memory) break;
    }
    out_.greedy = best_of(all);
    return {};
  }

  Result<void> search() {
    std::set<std::size_t> expanded;
    for (std::size_t in_vain = 0; in_vain < kPatience && !tried_.limit();) {
      const auto next = next_point(expanded);
      if (!next) break;
      expanded.insert(*next);
      const auto before = tried_.best();
      FORESHARD_TRY(expand(*next));
      in_vain = tried_.best() == before ? in_vain + 1 : 0;
    }
    return {};
  }

  /// The best of all that are the best of their class, and that may lead to a better one.
  [[nodiscard]] std::optional<std::size_t> next_point(const std::set<std::size_t>& expanded) const {
    if (!tried_.best() && !expanded.contains(0)) return 0;
    for (const std::size_t point : tried_.best_of_classes()) {
      if (tried_.best() && (!tried_.fits(point) || (point != tried_.best() && tried_.is_bounded(point)))) continue;
      if (!expanded.contains(point)) return point;
    }
    return std::nullopt;
  }

  Result<void> expand(std::size_t index) {
    const Settings at = tried_.points()[index].point.settings;
    const auto workload = source_.at(at);
    FORESHARD_TRY(workload);
    const bool fits = tried_.fits(index);
    const auto waits = fits ? waits_at(at, **workload) : Result<Waits>(Waits{});
    FORESHARD_TRY(waits);
    const Position position{request_.start, request_.allowed, at,
                            **workload,     waits->exposed,   !fits || tried_.retries(index)};
    const std::vector<Neighbour> list = neighbours(position);
    const auto points = tried_.run(list, TriedPoints::Prune::by_bounds);
    // Those that are better than where they come from, the best first, on top of one another.
    std::vector<std::pair<std::size_t, std::size_t>> better;  // point, place in the list
    for (std::size_t i = 0; i < list.size(); ++i)
      if (points[i] && tried_.is_better(*points[i], index)) better.emplace_back(*points[i], i);
    std::sort(better.begin(), better.end(),
              [this](const auto& a, const auto& b) { return tried_.is_better(a.first, b.first); });
    std::vector<Neighbour> best_first;
    for (const auto& [point, place] : better) best_first.push_back(list[place]);
    tried_.run(together(position, best_first), TriedPoints::Prune::by_bounds);
    return {};
  }

  Result<Waits> waits_at(const Settings& settings, const Workload& workload) const {
    const auto p = predict(workload, machine_, {settings, request_.memory_limit, 4, shared_.host_scale});
    FORESHARD_TRY(p);
    return waits_of(p->run);
  }

  [[nodiscard]] std::optional<TunedPoint> best_of(const std::vector<std::optional<std::size_t>>& points) const {
    std::optional<std::size_t> best;
    for (const auto& point : points)
      if (point && tried_.fits(*point) && (!best || tried_.is_better(*point, *best))) best = point;
    return best ? std::optional(tried_.whole(*best)) : std::nullopt;
  }

  /// The best with one change less, until each brings something. Its point is `best_`.
  void simplify() {
    best_ = tried_.best();
    if (!best_) return;
    double limit = tried_.points()[*best_].point.step_ms * (1 + kWorth);
    for (const auto& simpler : {out_.uniform, out_.greedy})
      if (simpler && simpler->point.step_ms >= tried_.points()[*best_].point.step_ms)
        limit = std::min(limit, simpler->point.step_ms);
    for (bool again = true; again && !tried_.limit();) {
      again = false;
      const std::string phrase = tried_.points()[*best_].phrase;
      std::vector<Neighbour> list = simpler_settings(request_.start, tried_.points()[*best_].point.settings);
      for (Neighbour& one : list) one.phrase = phrase;
      for (const auto& point : tried_.run(list, TriedPoints::Prune::no)) {
        if (!point || !tried_.fits(*point) || tried_.is_doubted(*point) != tried_.is_doubted(*best_)) continue;
        if (fits(tried_.points()[*point].point) != fits(tried_.points()[*best_].point)) continue;
        if (tried_.points()[*point].point.step_ms > limit) continue;
        best_ = point;
        again = true;
        break;
      }
    }
  }

  void count() {
    std::vector<SweepPoint> refused;
    for (std::size_t i = 0; i < tried_.points().size(); ++i) {
      const TunedPoint& one = tried_.points()[i];
      const SweepPoint& p = one.point;
      if (p.state == SweepPoint::State::refused) refused.push_back(p);
      if (p.state == SweepPoint::State::out_of_memory) ++out_.out_of_memory;
      if (p.state != SweepPoint::State::ran || !p.has_time) continue;
      if (p.floor.ms() > 0) out_.bound_ms = out_.bound_ms > 0 ? std::min(out_.bound_ms, p.floor.ms()) : p.floor.ms();
      if (!best_ || !tried_.is_doubted(i) || tried_.is_doubted(*best_)) continue;
      ++out_.doubted;
      const SweepPoint& fastest = out_.fastest_doubted ? out_.fastest_doubted->point : tried_.points()[*best_].point;
      if (tried_.fits(i) && p.step_ms < fastest.step_ms) out_.fastest_doubted = one;
    }
    out_.refused = refusals(refused);
  }

  void add_next() {
    std::vector<std::size_t> slower;
    for (std::size_t i = 0; i < tried_.points().size(); ++i)
      if (tried_.fits(i) && tried_.is_doubted(i) == tried_.is_doubted(*best_) &&
          fits(tried_.points()[i].point) == fits(out_.best->point))
        slower.push_back(i);
    std::sort(slower.begin(), slower.end(), [this](std::size_t a, std::size_t b) { return tried_.is_better(a, b); });
    auto smallest = static_cast<double>(out_.best->point.peaks.reserved);
    for (const std::size_t i : slower) {
      const auto reserved = static_cast<double>(tried_.points()[i].point.peaks.reserved);
      if (out_.next.size() == kNext || reserved > smallest * (1 - kSmaller)) continue;
      out_.next.push_back(tried_.whole(i));
      smallest = reserved;
    }
  }

  /// One family at a time as the start has it: simplify() tried them.
  void add_changes() {
    const Settings best = out_.best->point.settings;
    std::vector<Neighbour> list;
    for (const MoveFamily family : kEnumValues<MoveFamily>) {
      Settings without = with_family_of(request_.start, family, best);
      if (without != best) list.push_back({std::move(without), "one change less", {}, {}});
    }
    const auto points = tried_.run(list, TriedPoints::Prune::no);
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (!points[i]) continue;  // a limit came first
      ChangeWorth worth{setting_text(list[i].settings, best), {}};
      if (tried_.fits(*points[i]) && (!tried_.is_doubted(*points[i]) || tried_.is_doubted(*best_)))
        worth.ms = tried_.points()[*points[i]].point.step_ms - out_.best->point.step_ms;
      out_.changes.push_back(std::move(worth));
    }
  }

  Result<TuneResult> finish() {
    if (best_) {
      out_.best = tried_.whole(*best_);
      add_changes();
    }
    out_.start = tried_.whole(0);
    out_.tried = tried_.points().size();
    out_.pruned = tried_.pruned();
    out_.end = tried_.limit().value_or(TuneEnd::nothing_helps);
    count();
    if (!best_) return std::move(out_);
    if (out_.fastest_doubted)
      out_.fastest_doubted->point = simulate_point(source_, machine_, shared_, out_.fastest_doubted->point.settings);
    add_next();
    const auto workload = source_.at(out_.best->point.settings);
    FORESHARD_TRY(workload);
    auto waits = waits_at(out_.best->point.settings, **workload);
    FORESHARD_TRY(waits);
    out_.waits = std::move(*waits);
    return std::move(out_);
  }

  WorkloadSource& source_;
  const MachineProfile& machine_;
  const TuneRequest& request_;
  const PointRequest& shared_;
  TriedPoints tried_;
  std::optional<std::size_t> best_;  // once it is simplified
  TuneResult out_;
};

}  // namespace

Result<TuneResult> tune(WorkloadSource& source, const MachineProfile& machine, const TuneRequest& request) {
  FORESHARD_TRY(check_memory_limit(request.memory_limit, machine));
  const auto host_scale = common_host_scale(source, machine, request.start);
  FORESHARD_TRY(host_scale);
  const PointRequest shared{request.memory_limit, *host_scale};
  return Tuner(source, machine, request, shared).find();
}

}  // namespace foreshard::sim
