#include "sim/predict/simulate.hpp"

#include <algorithm>

#include "core/allocator/config.hpp"
#include "core/run/steady_step.hpp"
#include "sim/collectives/modelled_collectives.hpp"
#include "sim/machine/address_space.hpp"
#include "sim/machine/timed_memory.hpp"
#include "sim/predict/process_memory_options.hpp"

namespace foreshard::sim {
namespace {

std::vector<Nanoseconds> ends_of_steps(const StepOutcome& outcome, const SimDevice& device) {
  const auto timings = device.timings();
  std::vector<Nanoseconds> ends;
  for (const StepOutcome::Step& step : outcome.steps)
    ends.push_back(step.last_compute_op && step.last_compute_op->value < timings.size()
                       ? timings[step.last_compute_op->value].end
                       : Nanoseconds{});
  return ends;
}

/// From the last op of the compute stream in the step before to the last one in the steady step: one period of all.
StepFloor floor_of(const Simulation& simulation, const SimDevice& device) {
  const auto& steps = simulation.outcome.steps;
  if (simulation.steady < simulation.cycle || simulation.steady >= steps.size()) return {};
  const auto& begin = steps[simulation.steady - simulation.cycle].last_compute_op;
  const auto& end = steps[simulation.steady].last_compute_op;
  if (!begin || !end) return {};
  const IssuedWork work = device.issued_between(*begin, *end);
  const auto each = [&](Nanoseconds time) { return time.ms() / static_cast<double>(simulation.cycle); };
  return {each(work.compute), each(work.links), each(work.host)};
}

/// Times up to the end of `until`, or all.
HostTimes replayed(const Simulation& simulation, const DeviceLog& log, const MachineProfile& machine,
                   const SimOptions& options, std::optional<OpId> until) {
  const ModelledCollectives collectives(machine);
  SimDevice device(machine, collectives, options);
  const std::vector<Nanoseconds> asked = device.replay(log, until);
  Simulation other;
  other.steady = simulation.steady;
  other.cycle = simulation.cycle;
  other.step_end = ends_of_steps(simulation.outcome, device);
  return {other.steady_step(), asked.empty() ? Nanoseconds{} : asked.back() - asked.front()};
}

}  // namespace

Result<Simulation> simulate(const Workload& workload, const Settings& settings, const MachineProfile& machine,
                            const SimulationRequest& request, Run& run) {
  const ModelledCollectives collectives(machine);
  SimOptions options = request.options;
  options.labels = &workload.labels;
  options.lowering = workload.lowering;
  SimDevice device(machine, collectives, options);
  ProcessMemoryOptions process =
      process_memory_options(workload, settings, machine, request.memory_limit, request.follow_recording);
  StepRequest steps = request.steps;
  steps.lowering = workload.lowering;
  if (process.follows_recording) steps.repeat_returns = steps.setup && !steps.warm;
  SimMemory memory(std::move(process.memory));
  bool gave_back = false;
  const auto config = parse_alloc_conf(settings.alloc_conf, settings.pytorch);
  const Bytes page = config ? config->large_segment_size : AllocatorConfig{}.large_segment_size;
  TimedMemory timed(memory, machine.driver_calls, page, [&](const TimedMemory::Call& call) {
    gave_back |= call.waits;
    const Nanoseconds begin = steps.record ? device.host_now() : Nanoseconds{};
    if (call.waits) device.synchronize();
    device.driver_call(call.time);
    if (steps.record)
      run.host_ops.push_back(
          {HostOpRecord::Kind::work, 0, run.labels.intern(std::string(call.name)), begin, device.host_now(), 0});
  });
  DeviceMemory& asked = request.times_driver ? static_cast<DeviceMemory&>(timed) : memory;
  auto outcome = run_steps(workload, settings, steps, device, asked, run);
  FORESHARD_TRY(outcome);
  Simulation result{std::move(*outcome),  device.deadlock(),         device.derived(), device.collectives_ran(), {},
                    device.host_worked(), memory.follows_recording()};
  result.step_end = ends_of_steps(result.outcome, device);
  const std::size_t count = result.step_end.size();
  const SteadyCycle mean = steady_cycle(count, workload.cycle);
  result.steady = mean.last;
  result.cycle = mean.count;
  result.floor = floor_of(result, device);
  result.gave_back = gave_back;
  result.synchronized = request.steps.synchronized == 1;
  return result;
}

HostTimes times_of_host(const Simulation& simulation, const DeviceLog& log, const MachineProfile& machine,
                        const SimOptions& options) {
  return replayed(simulation, log, machine, options, {});
}

Nanoseconds steady_step_of_host(const Simulation& simulation, const DeviceLog& log, const MachineProfile& machine,
                                const SimOptions& options) {
  const auto& steps = simulation.outcome.steps;
  const auto last = simulation.steady < steps.size() ? steps[simulation.steady].last_compute_op : std::nullopt;
  return replayed(simulation, log, machine, options, last).steady_step;
}

}  // namespace foreshard::sim
