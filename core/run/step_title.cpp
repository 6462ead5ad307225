#include "core/run/step_title.hpp"

#include <algorithm>

#include "core/run/run_names.hpp"

namespace foreshard {

std::string recorded_name(const Run& run, const StepRecord& step) {
  constexpr std::string_view kOwn = "ProfilerStep#";  // torch/profiler/profiler.py, 2.11
  const auto names = [&](const auto& range) {
    return range.start <= step.start && step.start < range.end && run.labels.text(range.label).starts_with(kOwn);
  };
  if (step.recording == Recording::snapshot) {
    const auto found = std::find_if(run.annotations.begin(), run.annotations.end(), names);
    return found == run.annotations.end() ? std::string() : run.labels.text(found->label);
  }
  const auto found = std::find_if(run.host_ops.begin(), run.host_ops.end(), [&](const HostOpRecord& op) {
    return op.kind == HostOpRecord::Kind::annotation && names(op);
  });
  return found == run.host_ops.end() ? std::string() : run.labels.text(found->label);
}

std::string step_title(const Run& run, Recording recording, std::int32_t index) {
  std::string title = "step " + std::to_string(index);
  const bool several = std::any_of(run.steps.begin(), run.steps.end(),
                                   [&](const StepRecord& step) { return step.recording != recording; });
  if (several) title += " of the " + std::string(name(recording));
  for (const StepRecord& step : run.steps) {
    if (step.recording != recording || step.index != index) continue;
    if (const std::string own = recorded_name(run, step); !own.empty()) title += " (" + own + ")";
    break;
  }
  return title;
}

}  // namespace foreshard
