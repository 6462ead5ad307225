// Verify mode of the replay (caching allocator 10.2, 10.4).
#include <algorithm>

#include "core/allocator/replay_verifier.hpp"

namespace foreshard {
namespace allocator_detail {
namespace {

/// Those of before the first entry; their streams are handles again, where the plan has ids of its own.
std::vector<SnapshotSegment> early_segments(const ReplayPlan& plan) {
  std::vector<SnapshotSegment> segments;
  for (const InitialSegment& early : plan.initial.segments) {
    segments.push_back(early.segment);
    segments.back().stream = plan.streams[early.segment.stream];
  }
  return segments;
}

/// What is known of the limit without the recording: nothing, or all.
Result<Assumptions> known_limit(const ReplayOptions& options, const AllocatorConfig& config) {
  Assumptions known;
  const double fraction = options.memory_fraction.value_or(config.per_process_memory_fraction);
  if (options.memory_fraction && fraction < 1 && options.total_memory == 0)
    return fail(ErrorKind::usage, "a memory fraction is set, but the device's memory is not known", {},
                "give the device's total memory (--device-memory): no snapshot holds it");
  // Pools of this kind may serve what a limit refuses, which the search for a limit does not look at.
  known.fixed = std::any_of(options.pools.begin(), options.pools.end(),
                            [](const ReplayPool& pool) { return pool.options.use_on_oom; });
  if (options.memory_fraction) known.fixed = true;  // 1: nothing but the driver refuses
  if (fraction < 1 && options.total_memory > 0) {
    known.fixed = true;
    // setMemoryFraction: static_cast<size_t>(fraction * device_prop.totalGlobalMem).
    known.limit = static_cast<Bytes>(fraction * static_cast<double>(options.total_memory));
    known.limits = LimitSet();
    known.limits.add(known.limit, known.limit + 1);
  }
  return known;
}

/// The limit to go on with, of those that explain a recording: the largest, under which a release that may be
/// either's is empty_cache's, or the least, under which it is a malloc's retry.
Bytes preferred(const LimitSet& limits, bool retries) {
  return retries ? limits.all().begin()->first : limits.all().rbegin()->second - 1;
}

/// Replays until the limit that a run began with explains all of it. Each run knows what those before it found.
Findings settle(const ReplayPlan& plan, const ReplayOptions& options, Assumptions assumed) {
  // Of 42 recordings (reference runs, allocator, samples) 41 take one run and fuzz_gc two; of 2,179 recordings of
  // random programs under any options (tests/property/allocator_replay_test.cpp) none takes more than two. A damaged
  // one may never settle.
  constexpr int kRuns = 6;
  for (int run = 1;;) {
    Findings found = Verifier(plan, options, assumed).run();
    if (found.refuted) {
      const auto [entry, reading] = *found.refuted;
      if (reading == Reading::polled) {  // who released is open again
        assumed.refuted.erase({entry, Reading::by_malloc});
        assumed.refuted.erase({entry, Reading::by_program});
      }
      assumed.refuted.insert(*found.refuted);
      continue;
    }
    if (assumed.fixed || run == kRuns) return found;
    if (found.contradicts && !assumed.driver_refuses) {
      assumed = Assumptions();
      assumed.driver_refuses = true;
      continue;
    }
    const bool agrees = contains(found.limits, assumed.limit) && assumed.limits.all() == found.limits.all();
    const bool unlimited = assumed.limit == kNoLimit && contains(found.limits, kNoLimit) &&
                           !(options.releases_are_retries && found.report.unexplained_releases > 0);
    if (agrees || unlimited) return found;
    assumed.limit = preferred(found.limits, options.releases_are_retries);
    assumed.limits = found.limits;
    ++run;
  }
}

}  // namespace
}  // namespace allocator_detail

Result<ReplayReport> verify(const Snapshot& snapshot, const ReplayOptions& options) {
  const Result<AllocatorConfig> config =
      options.config ? Result<AllocatorConfig>(*options.config) : recorded_config(snapshot.settings, options.pytorch);
  FORESHARD_TRY(config);
  const auto assumed = allocator_detail::known_limit(options, *config);
  FORESHARD_TRY(assumed);
  const Result<allocator_detail::ReplayPlan> plan = allocator_detail::make_plan(snapshot, options, *config);
  FORESHARD_TRY(plan);
  allocator_detail::Findings found = allocator_detail::settle(*plan, options, *assumed);
  ReplayReport& report = found.report;
  report.initial_segments = allocator_detail::early_segments(*plan);
  report.limit_contradicts = found.contradicts && !assumed->fixed;
  const auto& ranges = assumed->fixed ? assumed->limits.all() : found.limits.all();
  if (!ranges.empty() && ranges.rbegin()->second <= kNoLimit)
    report.limit = MemoryLimitRange{ranges.begin()->first, ranges.rbegin()->second};
  return std::move(report);
}

Result<std::vector<SnapshotSegment>> initial_segments(const Snapshot& snapshot, const AllocatorConfig& config) {
  const Result<allocator_detail::ReplayPlan> plan = allocator_detail::make_plan(snapshot, {}, config);
  FORESHARD_TRY(plan);
  return allocator_detail::early_segments(*plan);
}

}  // namespace foreshard
