// The steady step: which step of a run its time is of. The one rule for `plan`, `run`, `import` and `compare`.
//
// Who: sim/predict for the step of a plan, core/compare for the steps that are set side by side, gpu/cuda for what its
// recorded pass reports. What stands for steps measured without a profiler is Measured::steady_ms(). Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/run/run.hpp"

namespace foreshard {

/// By place, of `count` steps that were issued back to back with nothing behind the last: of four or more the last one
/// that another follows, else the last; 0 of none. The first two differ from those after them (first use, a start from
/// an idle GPU); behind the last nothing is issued, so that its end lacks the next step's all-gathers concurrent with
/// it, and where the host is ahead of the GPU whole gaps (foreshard's llama-tiny without reshard, 4 x H200, NCCL: steps
/// of 10.6 ms, the last 9.6; PyTorch's llama-1b: 0.2 to 0.8 %). Steps between repeat one another to the nanosecond.
[[nodiscard]] std::size_t steady_step(std::size_t count);

/// Of steps that differ and repeat after some: those whose mean a step time is, by place.
struct SteadyCycle {
  std::size_t last = 0;
  std::size_t count = 1;  ///< at least one
  [[nodiscard]] std::size_t first() const { return last + 1 - count; }
};
/// The last whole cycle of `cycle` steps among `count` that ends with the steady step; where that is none behind the
/// first step, the one that ends with the last. Of 1 the steady step alone. Never more than all but the first step.
[[nodiscard]] SteadyCycle steady_cycle(std::size_t count, std::size_t cycle);

/// A step by its index; none: the one that a report is of.
using WantedStep = std::optional<std::int32_t>;

/// The step whose time a report of `run` is of, among those of the recording that saw the device; of the ones whose end
/// there is known, if there are any. Of a plan or an executed run the steady one; of an import the last one that the
/// profiler saw, which others followed unseen. Null where there is none, and of a plan that failed (plan_failure()) or
/// has no step time (step_time_unknown()).
[[nodiscard]] const StepRecord* timed_step(const Run& run, const WantedStep& wanted = {});

/// Indices of the steps whose mean the step time of a plan is, ascending: the steady one, or its answer's `cycle` of
/// them. Empty: it has no step time, or `run` is no plan.
[[nodiscard]] std::vector<std::int32_t> mean_steps(const Run& run);

/// The step whose memory a report of `run` is of: the last one of the recording that saw memory, because reserved
/// memory grows until then; where steps differ (StepShapes) the one whose peak of reserved memory is the largest, of
/// equal ones the one that allocates most, of these the first; of a plan that ran out of memory the one in which it did
/// (out_of_memory_step()). None where there is none.
[[nodiscard]] std::optional<StepRecord> memory_step(const Run& run, const WantedStep& wanted = {});

/// What a step's time is of, on the compute stream.
struct DeviceSpan {
  Nanoseconds begin;  ///< the end of the step before; of a recording's first step its own begin on the host
  Nanoseconds end;    ///< not before `begin`
};
/// None where the step's end on the device is not known.
[[nodiscard]] std::optional<DeviceSpan> device_span(const Run& run, const StepRecord& step);

/// Of every step, in the order of the run's.
[[nodiscard]] std::vector<std::optional<DeviceSpan>> device_spans(const Run& run);

/// The step before `step` in its recording, where its end on the device is known; else null.
[[nodiscard]] const StepRecord* step_before(const Run& run, const StepRecord& step);

}  // namespace foreshard
