#include "core/straggler/compared_steps.hpp"

#include "core/run/steady_step.hpp"

namespace foreshard::straggler_detail {

std::set<std::int32_t> compared_steps(const Run& run) {
  std::set<std::int32_t> steps;
  for (const StepRecord& step : run.steps)
    if (step.recording == Recording::trace) steps.insert(step.index);
  if (steps.empty() && run.info.kind == RunKind::planned)
    if (const StepRecord* step = timed_step(run); step != nullptr) return {step->index};
  if (steps.size() > 1) steps.erase(steps.begin());
  return steps;
}

}  // namespace foreshard::straggler_detail
