#include "sim/predict/length_trials.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "sim/predict/plan_times.hpp"
#include "sim/predict/rank_programs.hpp"
#include "sim/predict/simulate_ranks.hpp"
#include "sim/predict/throughput.hpp"

namespace foreshard::sim {
namespace {

/// The program of one length, logged.
Result<StepLog> log_of_length(std::uint32_t length, const PredictRequest& request, const MachineProfile& machine,
                              const SimulationRequest& simulation_request, Prediction& p) {
  const auto source = request.lengths->program(length);
  FORESHARD_TRY(source);
  Prediction doubts;
  doubts.host_scale = p.host_scale;
  auto workload = adapted_to_length(**source, length, request, machine, doubts);
  FORESHARD_TRY(workload);
  for (const std::string& why : doubts.not_valid) {
    if (std::find(p.not_valid.begin(), p.not_valid.end(), why) != p.not_valid.end()) continue;
    p.not_valid.push_back(why);
    p.warnings.push_back(why);
    p.valid = false;
  }
  Settings settings = request.settings;
  settings.seq = length;
  return step_log(*workload, settings, machine, simulation_request);
}

/// The trials' draws, as steps of programs.
Result<StepPrograms> programs_of_lengths(const PredictRequest& request, const MachineProfile& machine,
                                         const SimulationRequest& simulation_request, Prediction& p) {
  StepPrograms out;
  const DrawnLengths& lengths = *request.lengths;
  for (const std::uint32_t length : lengths.lengths) {
    auto log = log_of_length(length, request, machine, simulation_request, p);
    FORESHARD_TRY(log);
    out.logs.push_back(std::move(*log));
    out.sizes.push_back(length);
    if (!out.logs.back().same_form(out.logs.front()))
      return fail(ErrorKind::usage,
                  fmt::format("steps of {} and of {} tokens a sample differ in more than their kernels",
                              lengths.lengths.front(), length),
                  "--lengths", "leave one of the two out");
  }
  out.draw = [&lengths](std::uint64_t key, std::size_t step) {
    const auto at = std::lower_bound(lengths.lengths.begin(), lengths.lengths.end(), lengths.draw(key, step));
    return static_cast<std::size_t>(at - lengths.lengths.begin());
  };
  return out;
}

double mean_drawn(const std::vector<Trial>& trials) {
  double sum = 0;
  for (const Trial& trial : trials) sum += trial.drawn;
  return sum / static_cast<double>(trials.size());
}

}  // namespace

Result<void> add_length_trials(const Workload& adapted, const PredictRequest& request, const MachineProfile& machine,
                               const SimulationRequest& simulation_request, const AdaptedRanks& others,
                               const Simulation& simulation, Prediction& p) {
  if (!request.lengths || !request.trials || simulation.steady == 0) return {};
  const DrawnLengths& lengths = *request.lengths;
  const TrialSteps steps{simulation.steady - simulation.cycle, simulation.steady};
  const auto play = [&](const TrialsRequest& trials, const StepPrograms& programs) {
    return simulate_rank_trials(adapted, request.settings, machine, simulation_request, others.differences, steps,
                                trials, &programs);
  };
  const auto programs = programs_of_lengths(request, machine, simulation_request, p);
  FORESHARD_TRY(programs);
  const auto trials = play(*request.trials, *programs);
  FORESHARD_TRY(trials);
  LengthTimes out{lengths.said, lengths.lengths.size(), lengths.lengths.front(), lengths.lengths.back(), 0, 0, 0, 0};
  out.mean = mean_drawn(*trials);
  out.equal = static_cast<std::uint32_t>(std::round(out.mean));
  auto equal = log_of_length(out.equal, request, machine, simulation_request, p);
  FORESHARD_TRY(equal);
  StepPrograms alike;
  alike.logs.push_back(std::move(*equal));
  alike.sizes = {static_cast<double>(out.equal)};
  alike.draw = [](std::uint64_t, std::size_t) { return std::size_t{0}; };
  TrialsRequest once;
  once.trials = 1;
  const auto step = play(once, alike);
  FORESHARD_TRY(step);
  const double anchor = applied_anchor(machine.prediction, p);
  out.equal_step_ms = step->front().step.ms() * anchor;
  Settings of_mean = request.settings;
  of_mean.seq = 1;
  out.work = work_of_step(of_mean) * out.mean;
  p.trials = trial_times(*trials, *request.trials, request.settings.world(), anchor);
  p.trials->last.clear();  // whoever has drawn the longest samples
  p.trials->lengths = std::move(out);
  return {};
}

}  // namespace foreshard::sim
