// A job played again and again, each time with other draws of its jitter.
//
// Trials share programs and tables; each has engines of its own. What a trial draws depends on the seed, its number,
// the rank and the op alone, so results do not depend on threads. A rank that draws times is unlike all others: nothing
// is folded. Ranks may draw what they run as well, for each step (StepPrograms): a trial's programs are put together
// from the steps that its ranks drew.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "sim/parallel/part.hpp"
#include "sim/ranks/job.hpp"
#include "sim/ranks/logged_steps.hpp"

namespace foreshard::sim {

inline constexpr std::uint32_t kNobody = UINT32_MAX;
inline constexpr std::uint32_t kMaxTrials = 1'000'000;

/// What one trial gave, a step on average.
struct Trial {
  Nanoseconds step;              ///< from the last rank's end to the last rank's end, on the compute streams
  Nanoseconds waiting;           ///< Engine::idle_for_ranks(): the ranks' mean
  std::uint32_t last = kNobody;  ///< the rank that all others together waited for longest; of equal ones the lowest
  Awaited awaited;               ///< how long they did, each collective's ranks added up, by what of it held them up
  double drawn = 0;              ///< where ranks draw programs: StepPrograms::sizes, the mean of all ranks
  bool operator==(const Trial&) const = default;
};

struct TrialsRequest {
  Jitter jitter;
  std::uint64_t seed = 0;
  std::uint32_t trials = 100;
  unsigned threads = 1;                                 ///< at most; changes no result
  Part part = {};                                       ///< of the trials; the others are left empty
  std::function<void(std::size_t done)> progress = {};  ///< on the calling thread alone; none: nobody is told
  /// By trial: what is known of it, which is not simulated again; empty: nothing is known.
  std::vector<Trial> known = {};
};

/// The steps that are looked at: from the end of step `begin` to that of step `end`.
struct TrialSteps {
  std::size_t begin = 0;
  std::size_t end = 1;
};

/// Programs that each rank draws one of for each step, in place of the job's.
struct StepPrograms {
  std::vector<StepLog> logs;  ///< all of one form (StepLog::same_form())
  std::vector<double> sizes;  ///< by log: what Trial::drawn counts
  /// Which one the owner of `key` has in a step. Called on any thread.
  std::function<std::size_t(std::uint64_t key, std::size_t step)> draw;
};

/// By trial. `job` is played with the draws of each on top of its ranks' traits; its `jitter` is the request's. Every
/// rank must live. `drawn`: null, or what ranks draw besides; those that draw the same in all steps are folded unless
/// there is jitter.
[[nodiscard]] std::vector<Trial> simulate_trials(const MachineProfile& machine, const JobRequest& job,
                                                 const TrialSteps& steps, const TrialsRequest& request,
                                                 const StepPrograms* drawn = nullptr);

/// How many trials of so many ranks are simulated at once: at most `threads`, and few enough that their ranks, about
/// 16 kB each, take no more than 1.6 GB.
[[nodiscard]] unsigned trial_threads(std::uint32_t ranks, unsigned threads);

}  // namespace foreshard::sim
