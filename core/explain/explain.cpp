#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>

#include "core/base/units.hpp"
#include "core/explain/causes.hpp"
#include "core/explain/explanation.hpp"
#include "core/explain/failures.hpp"
#include "core/explain/moments.hpp"
#include "core/run/steady_step.hpp"

namespace foreshard {
namespace explain_detail {
namespace {

/// What one walk over the whole run leaves, one entry an event.
struct Series {
  std::vector<GapPoint> points;
  std::vector<Bytes> requested_active;
  std::uint64_t odd_events = 0;
};

Series whole_series(const Run& run, MemoryWalk walk) {
  Series series;
  series.points.reserve(run.allocator.size());
  series.requested_active.reserve(run.allocator.size());
  while (walk.next()) {
    const std::size_t event = walk.applied() - 1;
    series.points.push_back({event, run.allocator[event].time, walk.state().parts()});
    series.requested_active.push_back(walk.state().requested_active());
  }
  series.odd_events = walk.odd_events();
  return series;
}

/// Events [begin, end) and the state before them, which counts where there is one.
struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
  [[nodiscard]] std::size_t first() const { return begin > 0 ? begin - 1 : 0; }
};

std::size_t event_at(const Run& run, Nanoseconds time) {
  const auto it = std::partition_point(run.allocator.begin(), run.allocator.end(),
                                       [&](const AllocatorRecord& event) { return event.time < time; });
  return static_cast<std::size_t>(it - run.allocator.begin());
}

Range range_of(const Run& run, Nanoseconds start, Nanoseconds end) {
  const std::size_t begin = event_at(run, start);
  return {begin, std::max(begin, event_at(run, end))};
}

/// The best point of a range by `better(candidate, best)`, which the first one wins where they are equal.
template <class Better>
std::size_t best_of(const Series& series, Range range, Better&& better) {
  std::size_t best = range.first();
  for (std::size_t i = range.first(); i < range.end; ++i)
    if (better(series.points[i].parts, series.points[best].parts)) best = i;
  return best;
}

bool reserves_more(const MemoryParts& a, const MemoryParts& b) {
  return a.reserved() != b.reserved() ? a.reserved() > b.reserved() : a.active() > b.active();
}

std::size_t reserved_peak(const Series& series, Range range) {
  return best_of(series, range, reserves_more);
}

PeriodParts period(const Series& series, Range range) {
  PeriodParts out;
  for (std::size_t i = range.first(); i < range.end; ++i) {
    const MemoryParts& parts = series.points[i].parts;
    out.peaks.requested = std::max(out.peaks.requested, series.requested_active[i]);
    out.peaks.allocated = std::max(out.peaks.allocated, parts.allocated());
    out.peaks.active = std::max(out.peaks.active, parts.active());
    out.peaks.reserved = std::max(out.peaks.reserved, parts.reserved());
    out.pending_free_peak = std::max(out.pending_free_peak, parts.pending_free);
  }
  out.peak = series.points[reserved_peak(series, range)];
  return out;
}

/// These peaks count as the period's, too.
void raise(const MemoryPeaks& peaks, Bytes pending, PeriodParts& period) {
  period.peaks.requested = std::max(period.peaks.requested, peaks.requested);
  period.peaks.allocated = std::max(period.peaks.allocated, peaks.allocated);
  period.peaks.active = std::max(period.peaks.active, peaks.active);
  period.peaks.reserved = std::max(period.peaks.reserved, peaks.reserved);
  period.pending_free_peak = std::max(period.pending_free_peak, pending);
}

/// A step and its events.
struct StepEvents {
  StepRecord step;
  Range range;
};

/// The steps of the allocator's recording: each from its start to the next one's, the last to the end of the record,
/// as memory_stats() after reset_peak_memory_stats() counts them. One that ran out of memory is a step as well.
std::vector<StepEvents> step_events(const Run& run) {
  std::vector<StepEvents> out;
  for (const StepRecord& step : run.steps)
    if (step.recording != Recording::trace) out.push_back({step, {}});
  if (const auto failed = failed_step(run)) out.push_back({*failed, {}});
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i].range = {event_at(run, out[i].step.start), run.allocator.size()};
    if (i + 1 < out.size()) out[i].range = range_of(run, out[i].step.start, out[i + 1].step.start);
  }
  return out;
}

std::vector<PeriodParts> step_periods(const std::vector<StepEvents>& steps, const Series& series) {
  std::vector<PeriodParts> out;
  for (const StepEvents& one : steps) {
    out.push_back(period(series, one.range));
    out.back().step = one.step.index;
    out.back().start = one.step.start;
    out.back().end = one.step.end;
  }
  return out;
}

/// Phases follow one another; one that begins before the last has ended is left out.
std::vector<PeriodParts> phase_periods(const Run& run, const Series& series, std::optional<std::int32_t> step) {
  std::vector<PeriodParts> out;
  for (const PhaseRecord& phase : run.phases) {
    if (phase.recording == Recording::trace || (step && phase.step != *step)) continue;
    if (!out.empty() && phase.start < out.back().end) continue;
    out.push_back(period(series, range_of(run, phase.start, phase.end)));
    out.back().step = phase.step;
    out.back().phase = phase.name;
    out.back().start = phase.start;
    out.back().end = phase.end;
  }
  return out;
}

/// What the events of `range` that are in none of `phases` come to, where some peak of it is in none of these.
std::optional<PeriodParts> between_phases(const Run& run, const Series& series, Range range,
                                          const std::vector<PeriodParts>& phases) {
  if (phases.empty()) return std::nullopt;
  std::vector<Range> gaps;
  std::size_t begin = range.begin;
  for (const PeriodParts& phase : phases) {
    const Range of_phase = range_of(run, phase.start, phase.end);
    if (of_phase.begin > begin) gaps.push_back({begin, of_phase.begin});
    begin = std::max(begin, of_phase.end);
  }
  if (range.end > begin) gaps.push_back({begin, range.end});
  std::optional<PeriodParts> out;
  for (const Range& gap : gaps) {
    const PeriodParts part = period(series, gap);
    if (!out || reserves_more(part.peak.parts, out->peak.parts)) {
      const MemoryPeaks before = out ? out->peaks : MemoryPeaks{};
      const Bytes pending = out ? out->pending_free_peak : 0;
      out = part;
      raise(before, pending, *out);
    } else {
      raise(part.peaks, part.pending_free_peak, *out);
    }
  }
  const auto is_higher = [&](auto of) {
    return std::all_of(phases.begin(), phases.end(), [&](const PeriodParts& phase) { return of(*out) > of(phase); });
  };
  const bool some = out && (is_higher([](const PeriodParts& p) { return p.peaks.requested; }) ||
                            is_higher([](const PeriodParts& p) { return p.peaks.allocated; }) ||
                            is_higher([](const PeriodParts& p) { return p.peaks.active; }) ||
                            is_higher([](const PeriodParts& p) { return p.peaks.reserved; }) ||
                            is_higher([](const PeriodParts& p) { return p.pending_free_peak; }));
  return some ? out : std::nullopt;
}

/// What is asked for: a step, or the whole record.
struct Asked {
  Range range;
  std::optional<std::int32_t> step;
  Nanoseconds start;
};

/// memory_step(), or the one that failed. 0: there is none.
std::int32_t default_step(const Run& run, const std::vector<StepEvents>& steps) {
  if (steps.empty()) return 0;
  const std::int32_t last = steps.back().step.index;
  if (failed_step(run)) return last;
  const auto largest = memory_step(run);
  return largest ? largest->index : last;
}

/// Of a run with events. Fails where it has no such step, or none of the step's events.
Result<Asked> asked_of(const Run& run, const ExplainRequest& request, const std::vector<StepEvents>& steps) {
  if (request.whole_run || (steps.empty() && !request.step))
    return Asked{{0, run.allocator.size()}, {}, run.allocator.front().time};
  const std::int32_t wanted = request.step.value_or(default_step(run, steps));
  for (const StepEvents& one : steps) {
    if (one.step.index != wanted) continue;
    if (one.range.end == 0)
      return fail(ErrorKind::usage, "the memory record begins after the step that is asked for", {},
                  "ask for a later one");
    return Asked{one.range, wanted, one.step.start};
  }
  const std::string has = steps.empty()
                              ? "it records none"
                              : fmt::format("it has steps {} to {}", steps.front().step.index, steps.back().step.index);
  return fail(ErrorKind::usage, fmt::format("the run's memory record has no step {}", wanted), {}, has);
}

Result<MemoryWalk> begin_walk(const Run& run) {
  if (run.allocator.empty())
    return fail(ErrorKind::usage, "the run holds no record of its memory", {},
                "import a memory snapshot (torch.cuda.memory._dump_snapshot()), or make a plan with -o");
  return MemoryWalk::begin(run);
}

/// The last event that is not later than the time asked for. Fails where that is no time of what is looked at: of the
/// step, or of the whole record.
Result<std::size_t> asked_event(Nanoseconds at, const Run& run, Range range, const Explanation& out) {
  const auto step = std::find_if(out.steps.begin(), out.steps.end(),
                                 [&](const PeriodParts& period) { return out.step && period.step == *out.step; });
  // What comes behind the last step's end is its own, as in asked_of().
  const Nanoseconds last = run.allocator[range.end - 1].time;
  const Nanoseconds end = step == out.steps.end() || step->end < last ? last : step->end;
  if (at.count > 0 && at > end - out.start)
    return fail(ErrorKind::usage,
                fmt::format("{} is {} long: {} is behind its end",
                            out.step ? fmt::format("step {}", *out.step) : "the memory record",
                            format_time(end - out.start), format_time(at)),
                "--at", "times count from the begin of the step that --step names, or of the record with --step all");
  // Unsigned, so that no pair of times overflows; the next nanosecond is the first that is too late.
  const auto wanted = static_cast<std::uint64_t>(out.start.count) + static_cast<std::uint64_t>(at.count);
  const std::size_t after = event_at(run, {std::bit_cast<std::int64_t>(wanted + 1)});
  if (after == 0)
    return fail(ErrorKind::usage, "the memory record begins later than the time asked for", "--at",
                "times count from the step's begin");
  return after - 1;
}

/// Describes the moments after the events `wanted`, in one walk.
std::vector<Moment> describe(const Moments& moments, MemoryWalk walk, const std::vector<std::size_t>& wanted) {
  std::vector<std::size_t> order = wanted;
  std::sort(order.begin(), order.end());
  std::vector<Moment> described(wanted.size());
  for (const std::size_t event : order) {
    while (walk.applied() <= event && walk.next()) {
    }
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (wanted[i] == event && described[i].streams.empty()) described[i] = moments.describe(walk);
  }
  return described;
}

Result<void> add_moments(const Run& run, const Moments& moments, const MemoryWalk& walk, const ExplainRequest& request,
                         const Series& series, Range range, Explanation& out) {
  std::vector<std::size_t> wanted{
      reserved_peak(series, range),
      best_of(series, range, [](const MemoryParts& a, const MemoryParts& b) { return a.allocated() > b.allocated(); }),
      best_of(series, range,
              [](const MemoryParts& a, const MemoryParts& b) { return a.pending_free > b.pending_free; })};
  if (out.pending_free_peak == 0) wanted[2] = wanted[0];
  if (request.at) {
    const auto event = asked_event(*request.at, run, range, out);
    FORESHARD_TRY(event);
    wanted.push_back(*event);
  }
  std::vector<Moment> described = describe(moments, walk, wanted);
  out.reserved_peak = std::move(described[0]);
  out.allocated_peak = std::move(described[1]);
  out.pending_peak = std::move(described[2]);
  if (request.at) out.asked = std::move(described[3]);
  return {};
}

}  // namespace
}  // namespace explain_detail

Result<Explanation> explain(const Run& run, const ExplainRequest& request) {
  using namespace explain_detail;
  const auto walk = begin_walk(run);
  FORESHARD_TRY(walk);
  const std::vector<StepEvents> steps = step_events(run);
  const auto asked = asked_of(run, request, steps);
  FORESHARD_TRY(asked);
  const Range range = asked->range;
  const Series series = whole_series(run, *walk);
  Explanation out;
  out.steps = step_periods(steps, series);
  out.step = asked->step;
  out.start = asked->start;
  out.odd_events = series.odd_events;
  const std::size_t before = steps.empty() ? series.points.size() : event_at(run, steps.front().step.start);
  out.before_steps = period(series, {0, before}).peaks;
  out.first_event = range.begin;
  out.end_event = range.end;
  const PeriodParts whole = period(series, range);
  out.peaks = whole.peaks;
  out.pending_free_peak = whole.pending_free_peak;
  out.phases = phase_periods(run, series, out.step);
  if (auto between = out.step ? between_phases(run, series, range, out.phases) : std::nullopt) {
    between->step = *out.step;
    out.phases.push_back(*between);
  }
  out.series.assign(series.points.begin() + static_cast<std::ptrdiff_t>(range.first()),
                    series.points.begin() + static_cast<std::ptrdiff_t>(range.end));
  for (const GapPoint& point : out.series) out.gap_peak = std::max(out.gap_peak, point.parts.gap());
  const Moments moments(run, request.largest);
  FORESHARD_TRY(add_moments(run, moments, *walk, request, series, range, out));
  out.causes = find_causes(run, moments, out);
  out.failures = failed_requests(run, moments, *walk);
  return out;
}

Result<Moment> explain_reserved_peak(const Run& run, const ExplainRequest& request) {
  using namespace explain_detail;
  auto walk = begin_walk(run);
  FORESHARD_TRY(walk);
  const auto asked = asked_of(run, request, step_events(run));
  FORESHARD_TRY(asked);
  while (walk->applied() < asked->range.first() && walk->next()) {
  }
  const MemoryWalk before = *walk;
  std::size_t peak = walk->applied();
  MemoryParts most;
  while (walk->applied() < asked->range.end && walk->next()) {
    const MemoryParts parts = walk->state().parts();
    if (walk->applied() > before.applied() + 1 && !reserves_more(parts, most)) continue;
    peak = walk->applied() - 1;
    most = parts;
  }
  return describe(Moments(run, request.largest), before, {peak}).front();
}

Result<std::vector<MemoryParts>> gap_series(const Run& run) {
  if (run.allocator.empty()) return std::vector<MemoryParts>();
  auto walk = explain_detail::MemoryWalk::begin(run);
  FORESHARD_TRY(walk);
  std::vector<MemoryParts> out;
  out.reserve(run.allocator.size());
  while (walk->next()) out.push_back(walk->state().parts());
  return out;
}

std::vector<GapPoint> downsample(const std::vector<GapPoint>& series, std::size_t points) {
  if (series.size() <= points) return series;
  std::vector<GapPoint> out;
  out.reserve(points);
  for (std::size_t i = 0; i < points; ++i) {
    const std::size_t begin = series.size() * i / points;
    const std::size_t end = series.size() * (i + 1) / points;
    std::size_t best = begin;
    for (std::size_t k = begin; k < end; ++k) {
      if (explain_detail::reserves_more(series[k].parts, series[best].parts)) best = k;
    }
    out.push_back(series[best]);
  }
  return out;
}

std::string_view name(CauseKind kind) {
  constexpr std::array<std::string_view, 7> kNames{"record_stream",    "stream_pools",       "reduce_input_held",
                                                   "first_step_spike", "hard_fragmentation", "soft_fragmentation",
                                                   "private_pool_idle"};
  return kNames.at(static_cast<std::size_t>(kind));
}

}  // namespace foreshard
