// What links that flap (sim/network/flapping_link.hpp) cost a job: its steps over a run in which they do.
//
// A trial plays some steps of the job. Of a link that is up again for longer than that takes, outages lie far apart:
// each of its trials has one, which begins somewhere in the first of the steps (the step is dealt to the trials in
// equal parts, and each draws a place in its own), while every other link flaps from an instant that is drawn in its
// period, and counts by how long these make that step: outages fall into time, not into steps. Of the links whose
// outages follow one another more closely each trial plays steps over four periods of the longest (fewer where that is
// more than kMaxFlappingSteps). A run has the steps of each link's outage as often as that link goes down; a step that
// belongs to outages of two such links counts half for each; and between them lie steps as they are without these, or,
// where others flap more closely, as those have them.
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
  std::vector<FlappingLink> links;  ///< one at least, each once
  std::uint64_t seed = 0;
  std::uint32_t trials = 100;  ///< of each FlappingPlay
  unsigned threads = 1;        ///< at most; changes no result
  /// By how many trials of all are done, on the calling thread alone; none: nobody is told.
  std::function<void(std::size_t done, std::size_t all)> progress = {};
};

/// From the last rank's end to the last rank's end.
struct FlappingStep {
  Nanoseconds time;
  std::uint32_t outages = 1;  ///< of links whose outages lie far apart: of how many it is a step
};

struct FlappingTrial {
  std::vector<FlappingStep> steps;
  /// The step that the outage begins in, as it would be without it: an outage falls into a longer step more often.
  Nanoseconds begun_in = {};
};

/// Trials of one kind.
struct FlappingPlay {
  std::optional<std::size_t> link;  ///< of which each has an outage; none: steps between such outages
  std::vector<FlappingTrial> trials;
};

struct FlappingSteps {
  Nanoseconds without;              ///< such a step of the same job while all links are up
  std::vector<FlappingPlay> plays;  ///< empty: a link ends_job()
};

/// Of a job that a link ends.
struct JobEnd {
  FlappingLink link;
  /// From the begin of a job, with the link up, until it has ended; none: an outage hardly longer than the transport
  /// tries may fall between two collectives, and the job outlive it.
  std::optional<Nanoseconds> within;
  double gpu_seconds = 0;  ///< lost at most: a step that is not whole, and the wait, of all GPUs
};

struct FlappingTimes {
  std::vector<FlappingLink> links;
  std::uint64_t seed = 0;
  std::uint32_t trials = 0;  ///< of all kinds
  std::uint32_t steps = 0;   ///< that each plays, at most
  /// The transport gives up before a link is up again: there are no steps. Of several such links the first to end it.
  std::optional<JobEnd> job_end;
  double without_ms = 0;    ///< the step while all links are up
  Distribution step_ms;     ///< of all steps of such a run
  double outage_costs = 0;  ///< ms that a run takes longer for each outage in it
};

/// `longer_ms`: by so much the steps of a plan are longer than those of the simulation (HostScale::anchor), outages
/// not.
[[nodiscard]] FlappingTimes flapping_times(const FlappingRequest& request, const FlappingSteps& played,
                                           double longer_ms);

/// Of links of which one ends_job(), with steps of `step_ms` on `world` GPUs while all are up; none: none does.
[[nodiscard]] std::optional<JobEnd> job_end(const std::vector<FlappingLink>& links, double step_ms,
                                            std::uint32_t world);

/// Steps that one plan plays in a trial, at most.
inline constexpr std::int64_t kMaxFlappingSteps = 400;

/// Plays the trials, of a job with `differences`, of which `alone` is the simulation without the flaps; none of a link
/// that ends_job(). Fails (usage) where a link is none of the job's, memory depends on time (record_stream), steps
/// differ, or more than kMaxFlappingSteps of them lie in one outage or period.
[[nodiscard]] Result<FlappingSteps> simulate_flapping(const Workload& workload, const Settings& settings,
                                                      const MachineProfile& machine, const SimulationRequest& request,
                                                      const Differences& differences, const Simulation& alone,
                                                      const FlappingRequest& flapping);

}  // namespace foreshard::sim
