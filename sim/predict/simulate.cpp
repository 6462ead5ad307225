#include "sim/predict/simulate.hpp"

#include "sim/collectives/modelled_collectives.hpp"
#include "sim/machine/address_space.hpp"

namespace foreshard::sim {

Result<Simulation> simulate(const Workload& workload, const Settings& settings, const MachineProfile& machine,
                            const SimulationRequest& request, Run& run) {
  const ModelledCollectives collectives(machine);
  SimOptions options = request.options;
  options.labels = &workload.labels;
  SimDevice device(machine, collectives, options);
  SimMemoryOptions memory_choice = memory_options(machine, request.memory_limit);
  StepRequest steps = request.steps;
  steps.bind = machine.host_program == HostProgram::foreshard;
  if (settings == workload.settings) {  // else the process would have done other things: guess them all
    memory_choice.recorded_addresses = workload.segment_addresses;
    memory_choice.recorded_sizes = workload.segment_sizes;
    steps.repeat_returns = steps.setup && !steps.warm;
  }
  SimMemory memory(std::move(memory_choice));
  auto outcome = run_steps(workload, settings, steps, device, memory, run);
  if (!outcome) return tl::unexpected(outcome.error());
  Simulation result{std::move(*outcome), device.deadlock(), device.caveats(), device.collectives_ran(), {},
                    device.host_worked()};
  const auto timings = device.timings();
  for (const StepOutcome::Step& step : result.outcome.steps)
    result.step_end.push_back(step.last_compute_op ? timings[step.last_compute_op->value].end : Nanoseconds{});
  return result;
}

}  // namespace foreshard::sim
