// What the trials of a job with jitter say: how long its steps take, and for whom the ranks wait.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/quantity.hpp"
#include "sim/ranks/trials.hpp"

namespace foreshard::sim {

/// Quantiles are nearest ranks: the least value that so many of them do not exceed.
struct Distribution {
  double median = 0;
  double p95 = 0;
  double mean = 0;
  double least = 0;
  double most = 0;
};

/// A rank that the others waited for longest in some trials.
struct LastRank {
  std::uint32_t rank = 0;
  std::uint32_t trials = 0;
  double awaited_ms = 0;  ///< for how long each other rank's collectives stood and waited for it then, on average
  /// Of that, what a resource of it held up; and in how many of its trials that was the most of all.
  struct Part {
    std::uint32_t trials = 0;
    double awaited_ms = 0;
  };
  std::array<Part, kResources> by = {};  ///< Resource
};

/// A change of settings under which none of these processes runs out of memory, nor one of the longest samples alone.
struct DrawnFit {
  std::string setting;                 ///< as plan's options
  Bytes most = 0;                      ///< peak of reserved memory, of the process that reserves most
  std::int64_t num_alloc_retries = 0;  ///< of all processes
};

/// What the allocator reserves in processes of so many steps, each with lengths of its own draws: more than the longest
/// samples alone ask for, as soon as a step's blocks do not fit another's requests.
struct DrawnMemory {
  std::size_t steps = 0;
  std::size_t processes = 0;
  std::uint64_t seed = 0;  ///< the first one's; of each of the others one more
  Bytes least = 0;         ///< peaks of reserved memory, by process
  Bytes most = 0;
  std::size_t out_of_memory = 0;       ///< processes that run out of memory
  std::int64_t num_alloc_retries = 0;  ///< of all
  double driver_ms = 0;              ///< of all: what the driver's calls take once segments go back, in no step's time
  std::optional<DrawnFit> fit = {};  ///< where the job does not fit and one was found
};

/// Where each rank draws the length of its samples for each step.
struct LengthTimes {
  std::string said;           ///< as they were asked for
  std::size_t count = 0;      ///< of different ones that can be drawn
  std::uint32_t least = 0;    ///< tokens a sample, as the next ones
  std::uint32_t longest = 0;  ///< the longest that can be drawn
  double mean = 0;            ///< of all ranks in the steps that count
  std::uint32_t equal = 0;    ///< the mean as a whole length
  double equal_step_ms = 0;   ///< the step without jitter if all samples had it
  double work = 0;            ///< tokens of a mean step and GPU
  double low_ms = 0;          ///< nine of ten measured means lie from here, by what the plan's own interval rests on
  double high_ms = 0;         ///< to here
};

struct TrialTimes {
  Jitter jitter;
  std::uint64_t seed = 0;
  Distribution step_ms;
  Distribution waiting_ms;       ///< Trial::waiting
  std::vector<double> steps_ms;  ///< by trial
  std::vector<LastRank> last;    ///< most trials first
  bool only_chance = false;      ///< nothing else tells the ranks apart
  std::uint32_t world = 0;
  std::optional<LengthTimes> lengths = {};  ///< then `last` is empty
};

/// `factor` anchors the times. `request`: what the trials were asked for.
[[nodiscard]] TrialTimes trial_times(const std::vector<Trial>& trials, const TrialsRequest& request,
                                     std::uint32_t world, double factor);

}  // namespace foreshard::sim
