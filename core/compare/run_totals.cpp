#include "core/compare/run_totals.hpp"

#include <algorithm>

#include "core/run/plan_results.hpp"

namespace foreshard {
namespace {

/// On the GPU, from the end of the step before there, where that is known; else on the host.
Nanoseconds step_length(const Run& run, const StepRecord& step) {
  if (!step.device_end) return step.end - step.start;
  const StepRecord* before = step_before(run, step);
  return *step.device_end - (before != nullptr ? *before->device_end : step.start);
}

}  // namespace

std::optional<StepTime> step_time(const Run& run) {
  if (const auto predicted = result_number(run, "step_ms")) return StepTime{*predicted, "predicted"};
  if (run.measured && run.measured->steady_ms() > 0) return StepTime{run.measured->steady_ms(), "measured"};
  const StepRecord* step = timed_step(run);
  if (step == nullptr) return std::nullopt;
  return StepTime{step_length(run, *step).ms(), "profiled"};
}

std::vector<std::pair<std::string, double>> phases_ms(const Run& run, const WantedStep& wanted) {
  std::vector<std::pair<std::string, double>> out;
  if (!plan_failure(run).empty()) return out;
  const StepRecord* timed = timed_step(run, wanted);
  const auto step = timed != nullptr ? std::optional(*timed) : memory_step(run, wanted);
  if (!step) return out;
  for (const PhaseRecord& phase : run.phases) {
    if (phase.recording != step->recording || phase.step != step->index) continue;
    const double ms = (phase.end - phase.start).ms();
    const auto found =
        std::find_if(out.begin(), out.end(), [&](const auto& entry) { return entry.first == phase.name; });
    if (found == out.end())
      out.emplace_back(phase.name, ms);
    else
      found->second += ms;
  }
  return out;
}

}  // namespace foreshard
