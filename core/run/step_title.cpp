#include "core/run/step_title.hpp"

#include <algorithm>
#include <iterator>

#include "core/run/run_names.hpp"

namespace foreshard {

StepTitles::StepTitles(const Run& run) : run_(run) {
  constexpr std::string_view kOwn = "ProfilerStep#";  // torch/profiler/profiler.py, 2.11
  const auto add = [&](std::vector<Range>& to, const auto& range) {
    if (run.labels.text(range.label).starts_with(kOwn)) to.push_back({range.start, range.end, range.label});
  };
  for (const AnnotationRecord& range : run.annotations) add(of_snapshot_, range);
  for (const HostOpRecord& op : run.host_ops)
    if (op.kind == HostOpRecord::Kind::annotation) add(of_others_, op);
  for (std::vector<Range>* ranges : {&of_snapshot_, &of_others_})
    std::stable_sort(ranges->begin(), ranges->end(), [](const Range& a, const Range& b) { return a.start < b.start; });
  for (const StepRecord& step : run.steps) {
    steps_.try_emplace({step.recording, step.index}, &step);
    several_ |= step.recording != run.steps.front().recording;
  }
}

/// torch.profiler's ranges follow one another: a step can only begin in the last one that began before it.
std::string StepTitles::recorded_name(const StepRecord& step) const {
  const std::vector<Range>& ranges = step.recording == Recording::snapshot ? of_snapshot_ : of_others_;
  const auto after = std::upper_bound(ranges.begin(), ranges.end(), step.start,
                                      [](Nanoseconds time, const Range& range) { return time < range.start; });
  if (after == ranges.begin() || step.start >= std::prev(after)->end) return {};
  return run_.labels.text(std::prev(after)->label);
}

std::string StepTitles::title(Recording recording, std::int32_t index) const {
  std::string title = "step " + std::to_string(index);
  if (several_ || (!run_.steps.empty() && run_.steps.front().recording != recording))
    title += " of the " + std::string(name(recording));
  if (const auto step = steps_.find({recording, index}); step != steps_.end())
    if (const std::string own = recorded_name(*step->second); !own.empty()) title += " (" + own + ")";
  return title;
}

std::string step_title(const Run& run, Recording recording, std::int32_t index) {
  return StepTitles(run).title(recording, index);
}

}  // namespace foreshard
