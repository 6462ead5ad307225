// One simulation of a workload: device, memory and host program put together.
#pragma once

#include <optional>

#include "core/base/error.hpp"
#include "core/run/run.hpp"
#include "core/step/step_runner.hpp"
#include "sim/engine/deadlock.hpp"
#include "sim/engine/sim_device.hpp"
#include "sim/machine/profile.hpp"

namespace foreshard::sim {

struct SimulationRequest {
  StepRequest steps;
  SimOptions options;
  std::optional<Bytes> memory_limit;  ///< none: the machine's
};

struct Simulation {
  StepOutcome outcome;
  std::optional<Deadlock> deadlock;
  std::vector<std::string> caveats;  ///< prices that were not read off a measurement
  std::vector<CollectiveRan> collectives_ran;
  std::vector<Nanoseconds> step_end;  ///< by step: end of its last op on the compute stream
  Nanoseconds host_worked;            ///< host work of all steps, waits for the device left out
  bool follows_recording = true;      ///< every segment of cudaMalloc lies where the recording has it

  /// The step whose times are a training run's: steady_step() of them (core/run/steady_step.hpp).
  std::size_t steady = 0;

  /// The time of that step, from the end of the step before to its own end; zero without kernels.
  [[nodiscard]] Nanoseconds steady_step() const {
    return step_end.size() < 2 ? Nanoseconds{} : step_end[steady] - step_end[steady - 1];
  }
  /// Host time of a step, from its first call to its last.
  [[nodiscard]] Nanoseconds host_time(std::size_t step) const {
    return outcome.steps[step].host_end - outcome.steps[step].host_begin;
  }
};

/// `workload` must be adapted to `settings`. Fills `run` when `request.steps.record` is set.
[[nodiscard]] Result<Simulation> simulate(const Workload& workload, const Settings& settings,
                                          const MachineProfile& machine, const SimulationRequest& request, Run& run);

}  // namespace foreshard::sim
