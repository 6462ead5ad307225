#include "core/compare/run_totals.hpp"

#include <algorithm>
#include <charconv>

namespace foreshard {
namespace {

/// An answer of `plan`, where it is a number.
std::optional<double> result_number(const Run& run, const std::string& key) {
  const auto found = run.results.find(key);
  if (found == run.results.end()) return std::nullopt;
  const std::string& text = found->second;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

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
  const StepRecord* step = timed_step(run, wanted);
  if (step == nullptr) step = memory_step(run, wanted);
  std::vector<std::pair<std::string, double>> out;
  if (step == nullptr) return out;
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
