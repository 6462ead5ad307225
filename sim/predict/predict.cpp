#include "sim/predict/predict.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/adapt/adapt.hpp"
#include "core/base/units.hpp"
#include "core/settings/carried_out.hpp"
#include "core/settings/settings_table.hpp"
#include "sim/compute/measured.hpp"
#include "sim/machine/address_space.hpp"
#include "sim/predict/busy_time.hpp"
#include "sim/predict/confidence.hpp"
#include "sim/predict/cuda_graph.hpp"
#include "sim/predict/host_bound.hpp"
#include "sim/predict/plan_memory.hpp"
#include "sim/predict/plan_times.hpp"
#include "sim/predict/reprice.hpp"
#include "sim/predict/simulate.hpp"
#include "sim/predict/simulate_ranks.hpp"
#include "sim/predict/throughput.hpp"

namespace foreshard::sim {
namespace {

constexpr Bytes kSmallestLimit = 2 * kMiB;  // the smallest segment (caching allocator 2.2)

SimulationRequest simulation_of(const Workload& workload, const PredictRequest& request, const HostScale& host_scale) {
  SimulationRequest out;
  out.steps.steps = request.steps;
  out.steps.synchronized = 1;
  out.options.host_scale = host_scale.factor;
  if (records_streams(workload, request.settings) && !host_scale.host_bound)
    out.options.host_scale = std::sqrt(host_scale.factor * host_scale.recorded_factor);
  out.memory_limit = request.memory_limit;
  return out;
}

/// The workload's times become the machine's.
void move_to(const MachineProfile& machine, const RecordedElsewhere& elsewhere, Workload& workload, Prediction& p) {
  p.recorded_on = elsewhere.profile ? elsewhere.profile->name : elsewhere.gpu;
  p.host = HostConfidence::elsewhere;
  if (elsewhere.profile) p.repriced = reprice(workload, *elsewhere.profile, machine);
}

void add_info(const Workload& workload, const MachineProfile& machine, const Settings& settings, Prediction& p) {
  p.run.info.kind = RunKind::planned;
  p.run.info.name = workload.name;
  p.run.info.torch = workload.torch;
  p.run.info.gpu = workload.gpu;
  p.run.info.sm_count = workload.sm_count;
  p.run.info.machine = machine.name;
  p.run.info.valid = p.valid;
  p.run.info.warnings = p.warnings;
  p.run.settings = settings;
}

/// By the ratio of two warm simulations, so that a graph that gains nothing leaves the step as it is.
Result<void> add_cuda_graph(const Workload& workload, const MachineProfile& machine, const Settings& settings,
                            const HostBound& bound, Prediction& p) {
  p.not_capturable = not_capturable(workload, settings);
  if (!p.not_capturable.empty() || bound.step_ms <= 0) return {};
  const auto graphed = cuda_graph_bound(workload, settings, machine, p.host_scale.factor);
  FORESHARD_TRY(graphed);
  p.cuda_graph_ms = p.step_ms * std::min(1.0, *graphed / bound.step_ms);
  return {};
}

/// As simulate(), with the ranks that differ: the simulation is rank 0's.
Result<Simulation> with_ranks(const Workload& adapted, const PredictRequest& request, const MachineProfile& machine,
                              const std::optional<RecordedElsewhere>& elsewhere,
                              const SimulationRequest& simulation_request, Prediction& p) {
  std::vector<RankDifference> differences = request.ranks;
  std::map<const Workload*, Workload> others;
  for (RankDifference& difference : differences) {
    if (difference.workload == nullptr) continue;
    const auto [at, is_new] = others.try_emplace(difference.workload);
    if (is_new) {
      auto other = adapt(*difference.workload, request.settings);
      FORESHARD_TRY(other);
      at->second = std::move(other->workload);
      if (elsewhere && elsewhere->profile) reprice(at->second, *elsewhere->profile, machine);
    }
    difference.workload = &at->second;
  }
  auto ranks = simulate_ranks(adapted, request.settings, machine, simulation_request, differences, p.run);
  FORESHARD_TRY(ranks);
  p.ranks = std::move(ranks->groups);
  p.step_alike_ms = ranks->alike.ms();
  if (!ranks->deadlock.empty() && !ranks->simulation.deadlock) ranks->simulation.deadlock = {{}, {}, ranks->deadlock};
  return std::move(ranks->simulation);
}

}  // namespace

bool records_streams(const Workload& workload, const Settings& settings) {
  if (settings.release == Release::record_stream || settings.reduce_scatter_release == Release::record_stream)
    return true;
  const auto waits = [](const Op& op) { return op.kind == OpKind::free && op.user_stream != 0; };
  return std::any_of(workload.steps.begin(), workload.steps.end(),
                     [&](const Program& step) { return std::any_of(step.ops.begin(), step.ops.end(), waits); });
}

bool from_model(const Workload& workload) {
  if (workload.measured || !workload.has_timing || workload.steps.empty()) return false;
  const std::vector<Op>& ops = workload.steps.back().ops;
  return std::any_of(ops.begin(), ops.end(), [](const Op& op) {
    return op.kind == OpKind::kernel && op.kernel.work.count == 0 &&
           (op.kernel.math.kind != KernelMath::Kind::bytes || op.kernel.bytes > 0);
  });
}

std::size_t largest_step(const std::vector<PredictedStep>& steps) {
  const auto by_peaks = [](const PredictedStep& a, const PredictedStep& b) {
    return std::pair(a.peaks.reserved, a.peaks.allocated) < std::pair(b.peaks.reserved, b.peaks.allocated);
  };
  return static_cast<std::size_t>(std::max_element(steps.begin(), steps.end(), by_peaks) - steps.begin());
}

MemoryPeaks largest_peaks(const Prediction& prediction) {
  const bool several = !prediction.out_of_memory && !prediction.steps.empty();
  return several ? prediction.steps[largest_step(prediction.steps)].peaks : prediction.peaks;
}

Result<void> check_memory_limit(std::optional<Bytes> limit, const MachineProfile& machine) {
  if (!limit) return {};
  if (*limit < kSmallestLimit)
    return fail(ErrorKind::usage, fmt::format("a memory limit of {} bytes holds no segment", *limit), {},
                "give the unit: 80GiB");
  const Bytes most = memory_options(machine, {}).capacity;
  if (*limit > most)
    return fail(ErrorKind::usage,
                fmt::format("a memory limit of {} is more than {} gives the caching allocator, {}",
                            format_bytes(*limit), machine.name, format_bytes(most)),
                {}, "leave it out for all of it, or name a larger machine");
  return {};
}

Result<Prediction> predict(const Workload& workload, const MachineProfile& machine, const PredictRequest& wanted) {
  PredictRequest request = wanted;
  request.settings = carried_out(workload.lowering, wanted.settings);
  FORESHARD_TRY(check_memory_limit(request.memory_limit, machine));
  if (!workload.recorded.empty()) request.steps = static_cast<std::int32_t>(workload.recorded.size());
  auto adapted = adapt(workload, request.settings);
  FORESHARD_TRY(adapted);
  Prediction p;
  p.warnings = adapted->warnings;
  p.memory_capacity = memory_options(machine, request.memory_limit).capacity;
  p.not_valid = p.time_unknown = adapted->time_unknown;
  p.valid = p.not_valid.empty();
  judge_version(request.settings, p);
  auto scale = request.host_scale ? Result<HostScale>(*request.host_scale) : find_host_scale(workload, machine);
  FORESHARD_TRY(scale);
  p.host_scale = *scale;
  Workload& w = adapted->workload;
  p.host = host_confidence(workload);
  const auto elsewhere = recorded_elsewhere(workload, machine);
  if (elsewhere) move_to(machine, *elsewhere, w, p);
  const SimulationRequest simulation_request = simulation_of(w, request, p.host_scale);
  p.run.units = w.units;
  p.run.labels = w.labels;
  auto simulation = request.ranks.empty() ? simulate(w, request.settings, machine, simulation_request, p.run)
                                          : with_ranks(w, request, machine, elsewhere, simulation_request, p);
  FORESHARD_TRY(simulation);
  p.deadlock = simulation->deadlock;
  p.collectives_ran = simulation->collectives_ran;
  add_memory(w, request, *simulation, p);
  FORESHARD_TRY(add_peak_range(w, machine, request, simulation_request, p));
  if (w.has_timing && !adapted->untimed && !p.out_of_memory && !p.deadlock) {
    const HostRange host = host_range(machine.prediction, workload, p);
    auto bound = host_bound(w, request.settings, machine, p.host_scale.factor, host.range);
    FORESHARD_TRY(bound);
    add_times(machine.prediction, workload, *simulation, *bound, p);
    if (!p.ranks.empty()) {
      p.step_alike_ms *= p.host_bound ? 1 : p.host_scale.anchor;
      p.stragglers = find_stragglers(p.run);
    }
    judge_basis(machine.prediction, workload, request.settings, host, *bound, p);
    if (request.cuda_graph) FORESHARD_TRY(add_cuda_graph(w, machine, request.settings, *bound, p));
    p.utilization = model_flops_utilization(w, request.settings, machine.peaks, p.step_ms);
  }
  p.work = work_of_steps(workload, request.settings, p.cycle);
  if (!w.has_timing)
    p.warnings.push_back("the workload has no timing (no profiler trace was imported): only memory is predicted");
  judge_workload(workload, w, machine, p);
  judge_steps(workload, p);
  judge_prices(w, *simulation, p);
  judge_machine(workload, w, machine, request.settings, !simulation->caveats.empty(), p);
  if (elsewhere && p.has_time) judge_elsewhere(machine, p);
  if (p.has_time) close_interval(p.step_ms, p.interval);
  add_info(workload, machine, request.settings, p);
  return p;
}

}  // namespace foreshard::sim
