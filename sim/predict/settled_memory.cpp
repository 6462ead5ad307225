#include "sim/predict/settled_memory.hpp"

#include <algorithm>
#include <vector>

#include "core/run/run.hpp"

namespace foreshard::sim {
namespace {

using Steps = std::vector<StepOutcome::Step>;

// Chosen: the programs of docs/accuracy.md settle within 16 steps, in which the host is held behind the first ten; a
// host that is faster than the GPU by less than kPace gains no whole step in what a plan can tell of a training.
constexpr std::int32_t kFirstSteps = 16;
/// So many last steps reserve no more, and the host goes no further ahead in them.
constexpr std::size_t kStillSteps = 6;
/// Of the GPU's time what the host takes for as many steps where it goes no further ahead: queues hold whole ops.
constexpr double kPace = 0.998;

/// The first step that reserves as much as any.
std::size_t largest(const Steps& steps) {
  const auto reserves_less = [](const StepOutcome::Step& a, const StepOutcome::Step& b) {
    return a.peaks.reserved < b.peaks.reserved;
  };
  return static_cast<std::size_t>(std::max_element(steps.begin(), steps.end(), reserves_less) - steps.begin());
}

/// The first step behind step 0 with a retry; as many as there are: none has one.
std::size_t first_retry(const Steps& steps) {
  for (std::size_t i = 1; i < steps.size(); ++i)
    if (steps[i].num_alloc_retries > steps[i - 1].num_alloc_retries) return i;
  return steps.size();
}

/// Retries are told as their mean, so what meets its limit is played for as long as that may be.
bool has_settled(const Simulation& simulation) {
  const Steps& steps = simulation.outcome.steps;
  if (first_retry(steps) < steps.size()) return false;
  const std::size_t last = steps.size() - 1;
  const std::size_t first = last - kStillSteps;
  if (largest(steps) > first) return false;
  const double host = (steps[last].host_begin - steps[first].host_begin).ms();
  return host >= kPace * (simulation.step_end[last - 1] - simulation.step_end[first - 1]).ms();
}

SettledMemory told(const Simulation& simulation, bool settled) {
  const Steps& steps = simulation.outcome.steps;
  const std::size_t step = largest(steps);
  SettledMemory out{.reserved = steps[step].peaks.reserved, .step = static_cast<std::int32_t>(step), .grows = !settled};
  const std::size_t from = first_retry(steps);
  if (from >= steps.size()) return out;
  out.grows = false;
  out.first_retry = static_cast<std::int32_t>(from);
  out.num_alloc_retries = steps.back().num_alloc_retries - steps[from - 1].num_alloc_retries;
  out.steps = static_cast<std::int32_t>(steps.size() - from);
  out.step_time = {(simulation.step_end.back() - simulation.begin_of(from)).count / out.steps};
  return out;
}

}  // namespace

Result<std::optional<SettledMemory>> settled_memory(const Workload& adapted, const Settings& settings,
                                                    const MachineProfile& machine, SimulationRequest simulation,
                                                    double host_scale) {
  simulation.steps.record = false;
  simulation.options.host_scale = host_scale;
  for (simulation.steps.steps = kFirstSteps;; simulation.steps.steps *= 2) {
    Run ignored;
    const auto played = simulate(adapted, settings, machine, simulation, ignored);
    FORESHARD_TRY(played);
    const StepOutcome& outcome = played->outcome;
    if (outcome.out_of_memory)
      return SettledMemory{
          .reserved = outcome.out_of_memory_peaks.reserved, .step = outcome.out_of_memory_step, .out_of_memory = true};
    if (played->deadlock || outcome.stopped_step) return std::nullopt;
    const bool settled = has_settled(*played);
    if (settled || simulation.steps.steps >= kMaxStepsToSettle) return told(*played, settled);
  }
}

}  // namespace foreshard::sim
