// What a link that flaps (sim/network/flapping_link.hpp) costs a job: its steps over a run in which it does.
//
// A trial plays some steps of the job. Where the link is up again for longer than that takes, each trial has one
// outage, which begins somewhere in the first of its steps: the step is dealt to the trials in equal parts, and each
// draws a place in its own. Between the outages of a run lie steps as they are without. Where outages follow one
// another more closely, each trial plays steps over four periods (fewer where that is more than kMaxFlappingSteps),
// whose parts are dealt likewise.
//
// Not modelled: that packets which a link lost are sent again only when the transport notices
// (kTransportTimeout at most, where no later packet tells it).
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "sim/network/flapping_link.hpp"
#include "sim/predict/simulate.hpp"
#include "sim/predict/trial_times.hpp"

namespace foreshard::sim {

struct Differences;

struct FlappingRequest {
  FlappingLink link;
  std::uint64_t seed = 0;
  std::uint32_t trials = 100;
  unsigned threads = 1;                                 ///< at most; changes no result
  std::function<void(std::size_t done)> progress = {};  ///< on the calling thread alone; none: nobody is told
};

/// The steps of the trials, each from the last rank's end to the last rank's end.
struct FlappingSteps {
  Nanoseconds without;                          ///< such a step of the same job while the link is up
  bool one_outage = false;                      ///< in each trial; else over four periods
  std::vector<std::vector<Nanoseconds>> steps;  ///< by trial
};

/// Of a job that a link ends.
struct JobEnd {
  /// From the begin of a job, with the link up, until it has ended; none: an outage hardly longer than the transport
  /// tries may fall between two collectives, and the job outlive it.
  std::optional<Nanoseconds> within;
  double gpu_seconds = 0;  ///< lost at most: a step that is not whole, and the wait, of all GPUs
};

struct FlappingTimes {
  FlappingLink link;
  std::uint64_t seed = 0;
  std::uint32_t trials = 0;
  std::uint32_t steps = 0;  ///< that each plays
  /// The transport gives up before the link is up again (ends_job()): there are no steps.
  std::optional<JobEnd> job_end;
  double without_ms = 0;    ///< the step while the link is up
  Distribution step_ms;     ///< of all steps of such a run
  double outage_costs = 0;  ///< ms that a period takes longer for the one in it
};

/// `longer_ms`: by so much the steps of a plan are longer than those of the simulation (HostScale::anchor), outages
/// not.
[[nodiscard]] FlappingTimes flapping_times(const FlappingRequest& request, const FlappingSteps& played,
                                           double longer_ms);

/// Of a link that ends_job(), with steps of `step_ms` on `world` GPUs while it is up.
[[nodiscard]] JobEnd job_end(const FlappingLink& link, double step_ms, std::uint32_t world);

/// Steps that one plan plays in a trial, at most.
inline constexpr std::int64_t kMaxFlappingSteps = 400;

/// Plays the trials, of a job with `differences`, of which `alone` is the simulation without the flap; none of a link
/// that ends_job(). Fails (usage) where the link is none of the job's, memory depends on time (record_stream), steps
/// differ, or more than kMaxFlappingSteps of them lie in one outage or period.
[[nodiscard]] Result<FlappingSteps> simulate_flapping(const Workload& workload, const Settings& settings,
                                                      const MachineProfile& machine, const SimulationRequest& request,
                                                      const Differences& differences, const Simulation& alone,
                                                      const FlappingRequest& flapping);

}  // namespace foreshard::sim
