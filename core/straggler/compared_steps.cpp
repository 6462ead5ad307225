#include "core/straggler/compared_steps.hpp"

#include <algorithm>
#include <vector>

#include "core/run/steady_step.hpp"

namespace foreshard::straggler_detail {
namespace {

std::set<std::int32_t> of_trace(const Run& run) {
  std::set<std::int32_t> steps;
  for (const StepRecord& step : run.steps)
    if (step.recording == Recording::trace) steps.insert(step.index);
  if (steps.size() > 1) steps.erase(steps.begin());
  return steps;
}

/// Of `steps` those whose ranks' ops are known from their begin on, which is the end of the step before.
std::set<std::int32_t> kept(const Run& run, const std::vector<std::int32_t>& steps) {
  if (run.rank_ops.empty() || run.steps.empty()) return {};
  const auto begins =
      std::min_element(run.steps.begin(), run.steps.end(), [](const StepRecord& a, const StepRecord& b) {
        return a.index < b.index;
      })->index;
  const auto [first, last] =
      std::minmax_element(run.rank_ops.begin(), run.rank_ops.end(),
                          [](const RankOpRecord& a, const RankOpRecord& b) { return a.step < b.step; });
  std::set<std::int32_t> out;
  for (const std::int32_t step : steps)
    if ((step > first->step || step == begins) && step >= first->step && step <= last->step) out.insert(step);
  return out;
}

}  // namespace

std::set<std::int32_t> compared_steps(const Run& run) {
  std::set<std::int32_t> steps = of_trace(run);
  return steps.empty() ? kept(run, mean_steps(run)) : steps;
}

std::set<std::int32_t> compared_steps(const Run& run, std::int32_t step) {
  const std::set<std::int32_t> steps = of_trace(run);
  if (!steps.empty()) return steps.contains(step) ? std::set{step} : std::set<std::int32_t>{};
  return run.info.kind == RunKind::planned && !mean_steps(run).empty() ? kept(run, {step}) : std::set<std::int32_t>{};
}

}  // namespace foreshard::straggler_detail
