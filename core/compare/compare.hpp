// Two runs side by side: one step of each, aligned by phase and unit, in time and in memory.
//
// Who: cli's compare (table, JSON) and the page's comparison, which show these numbers and no others. Pure;
// deterministic; linear in the runs but for sorting. Simulated, executed and imported runs alike; every rule is in
// docs/compare.md.
//
// A is what B is held against: differences are B − A. For a prediction's error budget A is the recording and B the
// plan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/quantity.hpp"
#include "core/run/run.hpp"
#include "core/run/run_names.hpp"
#include "core/timeline/places.hpp"

namespace foreshard {

/// What a moment of a step went to. Every moment between the step's begin and its end on the compute stream has
/// exactly one cause, so that the causes of a step add up to its time. They are those of `plan` and `explain --time`
/// (core/explain_time/phase_times.hpp), whose compute is the first two together. Of a recording against a plan that was
/// made from it, the causes are those of the recording's plan at its own settings, and what that plan differs from the
/// recording by is a cause of its own: the model's, not the settings'.
enum class TimeCause : std::uint8_t {
  isolated_compute = 0,       ///< the compute stream works, as fast as the same kernels do when no collective runs
  kernel_contention = 1,      ///< it works, slower than the same kernels do when isolated, while a collective runs
  exposed_communication = 2,  ///< it does not, and a collective runs
  host = 3,                   ///< neither, and the host was late: it had not issued the next op
  other = 4,                  ///< neither: gaps between kernels, latencies, copies
  untraced = 5,               ///< reported step time less the time on the timeline: the profiler's slowing
  model_bias = 6,             ///< of a recording: itself less its plan at its own settings; of other runs none
};
template <>
struct EnumNames<TimeCause> {
  static constexpr std::array<std::string_view, 7> kNames{
      "isolated_compute", "kernel_contention", "exposed_communication", "host", "other", "untraced", "model_bias"};
};
static_assert(names_end_with(TimeCause::model_bias));

/// One part of the error budget. The rows' differences add up to the difference of the steps' times, to the
/// nanosecond.
struct BreakdownRow {
  std::string phase;  ///< "forward", …; empty: outside every phase, and of `untraced`
  TimeCause cause = TimeCause::isolated_compute;
  Nanoseconds a;
  Nanoseconds b;
};

/// Time that ops take, overlapping or not; of the host the phase's length.
struct LaneRow {
  TimeLane lane = TimeLane::compute;
  std::string phase;  ///< empty: outside every phase
  std::string unit;   ///< its name, "root", or empty where an op belongs to none (the optimizer, the host)
  Nanoseconds a;
  Nanoseconds b;
  std::uint64_t ops_a = 0;  ///< device ops; of the host those it issued
  std::uint64_t ops_b = 0;
};

/// Allocated bytes at the moment of each step's peak of allocated bytes.
struct MemoryRow {
  std::string name;  ///< a category ("before_recording" for blocks never seen allocated), or a unit; empty: no unit
  std::int64_t a = 0;
  std::int64_t b = 0;
};

/// The step whose time is compared: from the end of the step before on the compute stream (for a recording's first
/// step: from its begin on the host) to its own end there.
struct TimedStep {
  Recording recording = Recording::run;
  std::int32_t index = 0;
  Nanoseconds begin;
  Nanoseconds end;
  Nanoseconds reported;  ///< the step time that the budget explains; end − begin where none was given
  Nanoseconds
      contention_unknown;   ///< of its compute: overlapped work whose kernels were never isolated in the recording
  Nanoseconds allocator;    ///< of `host`: the caching allocator held it up (cudaMalloc, cudaFree and their waits)
  std::string unexplained;  ///< why the step's time could not be explained: all of it is then `other`; empty: it was
};

/// The step whose memory is compared.
struct PeakStep {
  Recording recording = Recording::run;
  std::int32_t index = 0;
  MemoryPeaks peaks;
  std::int64_t num_alloc_retries = 0;
  Nanoseconds peak_time;  ///< when allocated bytes were first at their peak
};

struct ComparedSide {
  std::optional<TimedStep> time;   ///< none: no device ops were recorded
  std::optional<PeakStep> memory;  ///< none: no allocator events were recorded
};

struct Comparison {
  ComparedSide a;
  ComparedSide b;
  std::vector<BreakdownRow> breakdown;  ///< by phase in order, then cause; empty unless both have a time
  std::vector<LaneRow> lanes;           ///< by lane, phase, unit in A's order; what neither has is left out
  std::vector<MemoryRow> categories;    ///< the larger of both first; 0 of a side without memory
  std::vector<MemoryRow> units;         ///< in A's order of units, then B's
  /// Where CompareRequest::model_a or model_b was given: by phase and cause the recording and its plan at its own
  /// settings, each on its side; their differences add up to the budget's of `model_bias`. Else empty.
  std::vector<BreakdownRow> bias;
  std::optional<TimedStep> model;  ///< then, of that plan
};

struct CompareRequest {
  std::optional<std::int32_t> step_a = {};  ///< none: timed_step() and memory_step() (steady_step.hpp)
  std::optional<std::int32_t> step_b = {};
  std::optional<std::int32_t> memory_a = {};  ///< of the memory, where that is another step; none: as `step_a`
  std::optional<std::int32_t> memory_b = {};
  std::optional<Nanoseconds> reported_a = {};  ///< the step time to explain; none: the timeline's own
  std::optional<Nanoseconds> reported_b = {};
  /// Of one side that is a recording, where the other was planned from it: its plan at its own settings. Its time must
  /// be known (check_times(), timed_step()), else it is as if it were not given.
  const Run* model_a = nullptr;
  const Run* model_b = nullptr;
  std::optional<Nanoseconds> reported_model = {};
};

/// Fails (usage) when a step is asked for that the run does not have, and as check_times() does. A side that recorded
/// no time or no memory is compared in what it has.
[[nodiscard]] Result<Comparison> compare_runs(const Run& a, const Run& b, const CompareRequest& request = {});

/// Sum of the budget's rows: both steps' times.
[[nodiscard]] BreakdownRow total(const std::vector<BreakdownRow>& rows);

/// Of those with that cause; without a phase.
[[nodiscard]] BreakdownRow total(const std::vector<BreakdownRow>& rows, TimeCause cause);

}  // namespace foreshard
