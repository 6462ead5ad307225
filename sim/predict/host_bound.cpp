#include "sim/predict/host_bound.hpp"

#include "sim/predict/simulate.hpp"

namespace foreshard::sim {
namespace {

Result<Simulation> steady(const Workload& workload, const Settings& settings, const MachineProfile& machine,
                          const SimOptions& options) {
  Run ignored;
  SimulationRequest request;
  request.steps = {.steps = steps_of_cycle(workload), .record = false, .warm = true};
  request.options = options;
  return simulate(workload, settings, machine, request, ignored);
}

}  // namespace

Result<HostBound> host_bound(const Workload& workload, const Settings& settings, const MachineProfile& machine,
                             double host_scale) {
  HostBound result;
  auto real = steady(workload, settings, machine, {host_scale, false, {}});
  FORESHARD_TRY(real);
  auto free_host = steady(workload, settings, machine, {host_scale, true, {}});
  FORESHARD_TRY(free_host);
  result.step_ms = real->steady_step().ms();
  result.gpu_step_ms = free_host->steady_step().ms();
  if (!real->outcome.steps.empty())
    result.host_ms = real->host_worked.ms() / static_cast<double>(real->outcome.steps.size());
  const PredictionSpec& spec = machine.prediction;
  result.host_bound =
      result.step_ms > spec.step_excess * result.gpu_step_ms || result.host_ms > spec.host_share * result.gpu_step_ms;
  return result;
}

}  // namespace foreshard::sim
