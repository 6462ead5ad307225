#include "traces/export/selection.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "core/run/plan_results.hpp"
#include "core/timeline/check_times.hpp"

namespace foreshard::traces {
namespace {

std::optional<StepRecord> step_of(const Run& run, Recording recording, const std::optional<std::int32_t>& wanted) {
  std::optional<StepRecord> found;
  for (const StepRecord& step : run.steps)
    if (step.recording == recording && (wanted ? step.index == *wanted : !found || step.index >= found->index))
      found = step;
  return found;
}

tl::unexpected<Error> no_such_step(const Run& run, std::int32_t step) {
  std::set<std::int32_t> have;
  for (const StepRecord& record : run.steps) have.insert(record.index);
  std::string list;
  for (const std::int32_t index : have) list += fmt::format("{}{}", list.empty() ? "" : ", ", index);
  return fail(ErrorKind::usage, fmt::format("the run has no step {}", step), "--step",
              list.empty() ? "it has no steps: leave --step out" : "it has " + list);
}

Nanoseconds first_of_lanes(const Run& run, const ExportSelection& selection) {
  Nanoseconds first{INT64_MAX};
  for (const DeviceOpRecord& op : run.device_ops)
    if (selection.has_device && selection.holds(op)) first = std::min({first, op.issue, op.start});
  for (const HostOpRecord& op : run.host_ops)
    if (selection.holds(op)) first = std::min(first, op.start);
  for (const EventRecord& event : run.events)
    if (selection.holds(event)) first = std::min(first, event.time);
  for (const StepRecord& step : run.steps)
    if (step.recording == selection.lanes && selection.holds(step.recording, step.start))
      first = std::min(first, step.start);
  for (const PhaseRecord& phase : run.phases)
    if (phase.recording == selection.lanes && selection.holds(phase.recording, phase.start))
      first = std::min(first, phase.start);
  return first;
}

Nanoseconds first_of_memory(const Run& run, const ExportSelection& selection) {
  Nanoseconds first{INT64_MAX};
  for (const AllocatorRecord& record : run.allocator)
    if (selection.holds(record)) first = std::min(first, record.time);
  for (const StepRecord& step : run.steps)
    if (step.recording == selection.memory && selection.holds(step.recording, step.start))
      first = std::min(first, step.start);
  for (const AnnotationRecord& range : run.annotations)
    if (!selection.memory_step) first = std::min(first, range.start);
  return first;
}

void choose_shifts(const Run& run, const std::optional<std::int32_t>& wanted, ExportSelection& selection) {
  if (selection.two_clocks()) {
    const auto lanes = step_of(run, selection.lanes, wanted);
    const auto memory = step_of(run, selection.memory, wanted);
    if (lanes && memory) selection.memory_shift = lanes->start - memory->start;
  }
  Nanoseconds first = first_of_lanes(run, selection);
  if (const Nanoseconds memory = first_of_memory(run, selection); memory.count != INT64_MAX)
    first = std::min(first, memory + selection.memory_shift);
  if (first.count >= 0) return;
  selection.lanes_shift -= first;
  selection.memory_shift -= first;
}

}  // namespace

Result<ExportSelection> select_export(const Run& run, std::optional<std::int32_t> step) {
  FORESHARD_TRY(check_times(run));
  ExportSelection selection;
  const bool imported = run.info.kind == RunKind::imported;
  selection.lanes = imported ? Recording::trace : Recording::run;
  selection.memory = imported ? Recording::snapshot : Recording::run;
  selection.has_device = !run.device_ops.empty() && !counts_events(run);
  selection.has_lanes = !run.device_ops.empty() || !run.host_ops.empty();
  selection.has_memory = !run.allocator.empty();
  if (!selection.has_lanes && !selection.has_memory)
    return fail(ErrorKind::input, "the run holds neither ops nor allocator events", run.info.name);
  if (step) {
    selection.lanes_step = step_of(run, selection.lanes, step);
    selection.memory_step = step_of(run, selection.memory, step);
    selection.has_lanes = selection.has_lanes && selection.lanes_step.has_value();
    selection.has_memory = selection.has_memory && selection.memory_step.has_value();
    if (!selection.has_lanes && !selection.has_memory) return no_such_step(run, *step);
  }
  choose_shifts(run, step, selection);
  return selection;
}

std::optional<std::int32_t> last_lanes_step(const Run& run) {
  const Recording lanes = run.info.kind == RunKind::imported ? Recording::trace : Recording::run;
  if (const auto hung = hung_step(run); hung && *hung > 0) return *hung - 1;  // the last whole
  const auto step = step_of(run, lanes, std::nullopt);
  return step ? std::optional(step->index) : std::nullopt;
}

}  // namespace foreshard::traces
