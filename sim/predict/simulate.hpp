// One simulation of a workload: device, memory and host program put together.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "core/base/error.hpp"
#include "core/run/run.hpp"
#include "core/step/step_runner.hpp"
#include "sim/engine/deadlock.hpp"
#include "sim/engine/sim_device.hpp"
#include "sim/machine/profile.hpp"
#include "sim/predict/step_floor.hpp"

namespace foreshard::sim {

/// Of Run::rank_ops, each of 200 bytes in memory, and half of that in a store.
inline constexpr std::size_t kMaxRankOps = 20'000'000;

struct SimulationRequest {
  StepRequest steps;
  SimOptions options;
  std::optional<Bytes> memory_limit;  ///< none: the machine's
  bool times_driver = true;           ///< cudaMalloc and cudaFree take their time (sim/machine/timed_memory.hpp)
  unsigned threads = 1;               ///< for ranks that differ; changes no result
  bool follow_recording = true;       ///< PredictRequest::follow_recording
  /// Of ranks that differ: of how many Run::rank_ops has the ops, or kAllRanks. Where that is all of a job of up to
  /// kSmallJob ranks, each has its own; else one of each group of equal ranks, those that are waited for longest first,
  /// the told rank always among them, of 0 as of 1. None: kSmallJob.
  std::optional<std::uint32_t> kept_ranks = {};
  /// As many ops as the programs of the kept ranks issue at most (usage).
  std::size_t max_rank_ops = kMaxRankOps;
};

/// Two nodes of eight GPUs are seen whole; a store grows by one rank's ops with each group of equal ranks.
inline constexpr std::uint32_t kSmallJob = 16;

struct Simulation {
  StepOutcome outcome;
  std::optional<Deadlock> deadlock;
  std::vector<DerivedPrices> derived;  ///< prices that were not read off a measurement
  std::vector<CollectiveRan> collectives_ran;
  std::vector<Nanoseconds> step_end;  ///< by step: end of its last op on the compute stream
  Nanoseconds host_worked;            ///< host work of all steps, waits for the device left out
  bool follows_recording = true;      ///< every segment of cudaMalloc lies where the recording has it

  /// The step whose times are a training run's, and how many of them up to it are one cycle of the workload: 1 where
  /// its steps are equal (steady_cycle(), core/run/steady_step.hpp).
  std::size_t steady = 0;
  std::size_t cycle = 1;

  StepFloor floor = {};  ///< of the steady step, or the mean of the cycle

  bool gave_back = false;  ///< a segment, or pages of one, went back to the driver

  bool synchronized = false;  ///< the host waited for the GPU behind the first step, and began the second anew

  /// When a step, from 1, begins on the device: with the end of the one before.
  [[nodiscard]] Nanoseconds begin_of(std::size_t step) const {
    if (step == 1 && synchronized) return std::max(step_end[0], outcome.steps[1].host_begin);
    return step_end[step - 1];
  }
  [[nodiscard]] Nanoseconds steady_begin() const { return begin_of(steady - cycle + 1); }
  /// The time of that step, or the mean of the cycle, from the end of the step before; zero without kernels.
  [[nodiscard]] Nanoseconds steady_step() const {
    if (step_end.size() < 2) return {};
    return {(step_end[steady] - steady_begin()).count / static_cast<std::int64_t>(cycle)};
  }
  /// Host time of a step, from its first call to its last.
  [[nodiscard]] Nanoseconds host_time(std::size_t step) const {
    return outcome.steps[step].host_end - outcome.steps[step].host_begin;
  }
};

/// How many steps show a whole cycle of `workload`, with a step before it and one behind.
[[nodiscard]] inline std::int32_t steps_of_cycle(const Workload& workload) {
  return std::max<std::int32_t>(4, static_cast<std::int32_t>(workload.cycle) + 2);
}

/// `workload` must be adapted to `settings`. Fills `run` when `request.steps.record` is set.
[[nodiscard]] Result<Simulation> simulate(const Workload& workload, const Settings& settings,
                                          const MachineProfile& machine, const SimulationRequest& request, Run& run);

struct HostTimes {
  Nanoseconds steady_step;  ///< Simulation::steady_step()
  Nanoseconds host;         ///< from the first step's first call to the last one's last
};

/// Times of the simulation that wrote `log` on the host of `options`. Only of one that recorded no Run and was not
/// `synchronized`, and of a log that does not depend on time.
[[nodiscard]] HostTimes times_of_host(const Simulation& simulation, const DeviceLog& log, const MachineProfile& machine,
                                      const SimOptions& options);
/// HostTimes::steady_step alone: what comes behind that step is not played where nothing waits for it.
[[nodiscard]] Nanoseconds steady_step_of_host(const Simulation& simulation, const DeviceLog& log,
                                              const MachineProfile& machine, const SimOptions& options);

}  // namespace foreshard::sim
