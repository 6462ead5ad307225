#include "core/compare/run_totals.hpp"

#include <algorithm>
#include <charconv>

#include "core/base/median.hpp"

namespace foreshard {
namespace {

constexpr std::ptrdiff_t kWarmUp = 2;  // steps that are slower than the others
constexpr std::size_t kFewSteps = 4;   // of so few none is left out

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

enum class Seen { device, memory };

const StepRecord* last_step(const Run& run, Seen seen, const WantedStep& wanted) {
  const StepRecord* found = nullptr;
  for (const StepRecord& step : run.steps) {
    const bool saw =
        step.recording == Recording::run || (step.recording == Recording::snapshot) == (seen == Seen::memory);
    if (!saw || (wanted && step.index != *wanted)) continue;
    if (found == nullptr || step.index >= found->index) found = &step;
  }
  return found;
}

}  // namespace

std::optional<StepTime> step_time(const Run& run) {
  if (const auto predicted = result_number(run, "step_ms")) return StepTime{*predicted, "predicted"};
  if (run.measured && !run.measured->step_ms.empty()) {
    std::vector<double> steps = run.measured->step_ms;
    if (steps.size() > kFewSteps) steps.erase(steps.begin(), steps.begin() + kWarmUp);
    return StepTime{median(std::move(steps)), "measured"};
  }
  const StepRecord* step = last_step(run, Seen::device, {});
  if (step == nullptr) return std::nullopt;
  return StepTime{(step->end - step->start).ms(), "profiled"};
}

const StepRecord* memory_step(const Run& run, const WantedStep& wanted) {
  return last_step(run, Seen::memory, wanted);
}

std::vector<std::pair<std::string, double>> phases_ms(const Run& run, const WantedStep& wanted) {
  const StepRecord* step = last_step(run, Seen::device, wanted);
  if (step == nullptr) step = last_step(run, Seen::memory, wanted);
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
