#include "sim/predict/simulate.hpp"

#include <algorithm>

#include "core/run/steady_step.hpp"
#include "sim/collectives/modelled_collectives.hpp"
#include "sim/machine/address_space.hpp"

namespace foreshard::sim {
namespace {

/// The recorded process's addresses. `anew`: what it held before its recording is asked of memory too, and first.
void follow(const Workload& workload, bool anew, SimMemoryOptions& memory) {
  if (workload.segment_addresses.empty()) return;
  if (anew) {
    for (const SnapshotSegment& segment : workload.initial_segments) {
      if (segment.is_expandable) continue;
      memory.recorded_addresses.push_back(segment.address);
      memory.recorded_sizes.push_back(segment.total_size);
    }
  }
  const auto add = [](auto& list, const auto& more) { list.insert(list.end(), more.begin(), more.end()); };
  add(memory.recorded_addresses, workload.segment_addresses);
  add(memory.recorded_sizes, workload.segment_sizes);
}

/// Blocks that are older than the workload keep the places they were recorded at, of which memory does not know: what
/// it gives lies below them, as the driver's newer arenas do.
void keep_clear(const Workload& workload, SimMemoryOptions& memory) {
  constexpr Address kAligned = 512 * kMiB;  // SimMemoryOptions::first_arena
  constexpr Address kFirstArena = 32 * kMiB;
  bool moved = true;
  while (moved) {
    moved = false;
    for (const SnapshotSegment& segment : workload.initial_segments) {
      const bool above = segment.address >= memory.first_arena + kFirstArena;
      const bool below = segment.address + segment.total_size + memory.total <= memory.first_arena;
      if (segment.is_expandable || above || below || segment.address < kAligned + kFirstArena + memory.total) continue;
      memory.first_arena = (segment.address - kFirstArena) / kAligned * kAligned;
      moved = true;
    }
  }
}

std::vector<Nanoseconds> ends_of_steps(const StepOutcome& outcome, const SimDevice& device) {
  const auto timings = device.timings();
  std::vector<Nanoseconds> ends;
  for (const StepOutcome::Step& step : outcome.steps)
    ends.push_back(step.last_compute_op ? timings[step.last_compute_op->value].end : Nanoseconds{});
  return ends;
}

}  // namespace

Result<Simulation> simulate(const Workload& workload, const Settings& settings, const MachineProfile& machine,
                            const SimulationRequest& request, Run& run) {
  const ModelledCollectives collectives(machine);
  SimOptions options = request.options;
  options.labels = &workload.labels;
  options.lowering = workload.lowering;
  SimDevice device(machine, collectives, options);
  SimMemoryOptions memory_setting = memory_options(machine, request.memory_limit);
  StepRequest steps = request.steps;
  steps.lowering = workload.lowering;
  const bool anew = steps.lowering == Lowering::foreshard;
  if (request.follow_recording &&
      settings == workload.settings) {  // else the process would have done other things: guess them all
    follow(workload, anew, memory_setting);
    steps.repeat_returns = steps.setup && !steps.warm;
  } else if (!anew) {
    keep_clear(workload, memory_setting);
  }
  SimMemory memory(std::move(memory_setting));
  auto outcome = run_steps(workload, settings, steps, device, memory, run);
  FORESHARD_TRY(outcome);
  Simulation result{std::move(*outcome),  device.deadlock(),         device.caveats(), device.collectives_ran(), {},
                    device.host_worked(), memory.follows_recording()};
  result.step_end = ends_of_steps(result.outcome, device);
  const std::size_t count = result.step_end.size();
  result.steady = steady_step(count);
  result.cycle = std::min<std::size_t>(workload.cycle, std::max<std::size_t>(count, 2) - 1);
  if (result.cycle > result.steady && count > 0) result.steady = count - 1;
  result.synchronized = request.steps.synchronized == 1;
  return result;
}

HostTimes times_of_host(const Simulation& simulation, const DeviceLog& log, const MachineProfile& machine,
                        const SimOptions& options) {
  const ModelledCollectives collectives(machine);
  SimDevice device(machine, collectives, options);
  const std::vector<Nanoseconds> asked = device.replay(log);
  Simulation other;
  other.steady = simulation.steady;
  other.cycle = simulation.cycle;
  other.step_end = ends_of_steps(simulation.outcome, device);
  return {other.steady_step(), asked.empty() ? Nanoseconds{} : asked.back() - asked.front()};
}

}  // namespace foreshard::sim
