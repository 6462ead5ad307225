#include "core/run/steady_step.hpp"

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "core/run/plan_results.hpp"
#include "core/run/step_shapes.hpp"

namespace foreshard {
namespace {

constexpr std::size_t kFewSteps = 4;  // of fewer none lies between the first two and the last

using Steps = std::vector<const StepRecord*>;

/// By index. `recording`: the one that saw what is asked for, beside Recording::run.
Steps steps_of(const Run& run, Recording recording, const WantedStep& wanted) {
  Steps out;
  for (const StepRecord& step : run.steps)
    if ((step.recording == Recording::run || step.recording == recording) && (!wanted || step.index == *wanted))
      out.push_back(&step);
  std::stable_sort(out.begin(), out.end(),
                   [](const StepRecord* a, const StepRecord* b) { return a->index < b->index; });
  return out;
}

/// Those that a time may be of; where the end of some on the device is known only these.
Steps timed_steps(const Run& run, const WantedStep& wanted) {
  if (!plan_failure(run).empty() || !step_time_unknown(run).empty()) return {};
  Steps steps = steps_of(run, Recording::trace, wanted);
  Steps ended;
  for (const StepRecord* step : steps)
    if (step->device_end) ended.push_back(step);
  return ended.empty() ? steps : ended;
}

std::optional<DeviceSpan> span_behind(const StepRecord* before, const StepRecord& step) {
  if (!step.device_end) return std::nullopt;
  const Nanoseconds begin = before != nullptr ? *before->device_end : step.start;
  return DeviceSpan{std::min(begin, *step.device_end), *step.device_end};
}

}  // namespace

std::size_t steady_step(std::size_t count) {
  if (count == 0) return 0;
  return count >= kFewSteps ? count - 2 : count - 1;
}

SteadyCycle steady_cycle(std::size_t count, std::size_t cycle) {
  SteadyCycle out;
  out.last = steady_step(count);
  out.count = std::clamp<std::size_t>(cycle, 1, std::max<std::size_t>(count, 2) - 1);
  if (out.count > out.last && count > 0) out.last = count - 1;
  return out;
}

const StepRecord* timed_step(const Run& run, const WantedStep& wanted) {
  const Steps steps = timed_steps(run, wanted);
  if (steps.empty()) return nullptr;
  return steps.back()->recording == Recording::run ? steps[steady_step(steps.size())] : steps.back();
}

std::vector<std::int32_t> mean_steps(const Run& run) {
  if (run.info.kind != RunKind::planned) return {};
  const Steps steps = timed_steps(run, {});
  if (steps.empty()) return {};
  const double all = static_cast<double>(steps.size()), cycle = result_number(run, "cycle").value_or(1);
  const SteadyCycle mean = steady_cycle(steps.size(), cycle >= 1 ? static_cast<std::size_t>(std::min(cycle, all)) : 1);
  std::vector<std::int32_t> out;
  for (std::size_t place = mean.first(); place <= mean.last; ++place) out.push_back(steps[place]->index);
  return out;
}

std::optional<StepRecord> memory_step(const Run& run, const WantedStep& wanted) {
  if (auto failed = out_of_memory_step(run); failed && (!wanted || failed->index == *wanted)) return failed;
  const Steps steps = steps_of(run, Recording::snapshot, wanted);
  if (steps.empty()) return std::nullopt;
  if (!StepShapes(run).differ()) return *steps.back();
  const auto smaller = [](const StepRecord* a, const StepRecord* b) {
    return std::pair(a->peaks.reserved, a->peaks.allocated) < std::pair(b->peaks.reserved, b->peaks.allocated);
  };
  return **std::max_element(steps.begin(), steps.end(), smaller);
}

std::optional<DeviceSpan> device_span(const Run& run, const StepRecord& step) {
  return span_behind(step_before(run, step), step);
}

std::vector<std::optional<DeviceSpan>> device_spans(const Run& run) {
  std::map<std::pair<Recording, std::int32_t>, const StepRecord*> ended;  // as step_before() finds them
  for (const StepRecord& step : run.steps)
    if (step.device_end) ended.try_emplace({step.recording, step.index}, &step);
  std::vector<std::optional<DeviceSpan>> out;
  for (const StepRecord& step : run.steps) {
    const auto before = ended.find({step.recording, step.index - 1});
    out.push_back(span_behind(before == ended.end() ? nullptr : before->second, step));
  }
  return out;
}

const StepRecord* step_before(const Run& run, const StepRecord& step) {
  const auto found = std::find_if(run.steps.begin(), run.steps.end(), [&](const StepRecord& other) {
    return other.recording == step.recording && other.index == step.index - 1 && other.device_end;
  });
  return found == run.steps.end() ? nullptr : &*found;
}

}  // namespace foreshard
