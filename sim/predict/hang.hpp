// A job whose ranks wait for one another for ever, because one of them died or because they issue collectives in
// different orders: who waits for whom and in what, where hosts stand, and what it costs until PyTorch ends it.
//
// NCCL puts calls on one communicator together by their order alone. Of calls that are not of one kind and size it says
// "undefined behavior, including hangs, crashes, or data corruption" (NCCL's user guide, Collective Operations); here
// they hang. Those that are alike but for the unit go on, with wrong numbers (MixedCollectives).
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/run/run.hpp"
#include "sim/predict/rank_difference.hpp"
#include "sim/ranks/job.hpp"

namespace foreshard::sim {

/// How long ProcessGroupNCCL's watchdog lets a collective be, counted from its host's call:
/// torch/csrc/distributed/c10d/ ProcessGroupNCCL.hpp, kProcessGroupNCCLDefaultTimeout (PyTorch 2.11), which
/// init_process_group(timeout=) changes.
inline constexpr Nanoseconds kNcclTimeout{600'000'000'000};
/// How long the watchdog then waits for the flight recorder's dumps before it ends the process: four times
/// TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC, 15 s (ProcessGroupNCCL.cpp, Watchdog::runLoop).
inline constexpr Nanoseconds kNcclDumpWait{60'000'000'000};

/// Collectives that their group called in the same places, of one kind and size, but for other units: NCCL gives no
/// error, and each rank computes with other ranks' numbers.
struct MixedCollectives {
  std::vector<std::uint32_t> ranks;
  std::vector<std::uint32_t> others;
  std::size_t count = 0;
  std::string first;            ///< of `ranks`: "all-gather of layers.6"
  std::string first_of_others;  ///< in the same place
};

struct Hang {
  struct Dead {
    std::uint32_t rank = 0;
    std::uint32_t step = 0;  ///< from which on it issues nothing
  };
  struct Collective {
    std::string what;                   ///< "all-gather of layers.3"
    std::string communicator;           ///< "shard"
    std::uint32_t of = 0;               ///< ranks
    std::vector<std::uint32_t> absent;  ///< that do not come, in the groups of those that wait
    Nanoseconds issued;
  };
  /// Ranks that nothing tells apart.
  struct Ranks {
    std::vector<std::uint32_t> ranks;
    std::vector<Collective> waits;
    HostStop host = HostStop::program_end;
    std::uint32_t host_step = 0;  ///< in which their hosts stand
  };
  std::uint32_t world = 0;
  std::vector<Dead> dead;
  std::map<std::uint32_t, SkippedUnit> skips;  ///< by rank
  std::vector<MixedCollectives> mixed;         ///< before it hangs
  std::vector<Ranks> ranks;                    ///< by lowest rank, without the dead
  std::uint32_t steps = 0;                     ///< that every rank that lives has ended; the last one's end is `begin`
  Nanoseconds begin;
  Nanoseconds issued;  ///< the first collective that never ends, by the first rank that issued it
  Nanoseconds end;     ///< when that rank's watchdog ends its process, and with it the job
  /// Of all GPUs: from `begin`, since nothing of the unfinished step is kept, to `end`.
  [[nodiscard]] double gpu_seconds() const { return (end - begin).ms() / 1e3 * world; }
};

/// What the collectives of a program are called, by op: "all-gather of layers.3".
using CollectiveNames = std::map<std::uint32_t, std::string>;
/// `run`: the program recorded.
[[nodiscard]] CollectiveNames collective_names(const Run& run);

/// Of a job that is stuck, with the `programs` and `traits` that it was asked for. `names`: by program.
[[nodiscard]] Hang hang_of(const Job& job, const JobRequest& request, const std::vector<CollectiveNames>& names);

/// Of a job that is not stuck: the collectives of all its steps.
[[nodiscard]] std::vector<MixedCollectives> mixed_collectives(const Job& job, const JobRequest& request,
                                                              const std::vector<CollectiveNames>& names);

/// "21 collectives of rank 3 meet …", a sentence.
[[nodiscard]] std::string text_of(const MixedCollectives& mixed);

/// "0-4, 6"; of many runs of numbers the first, and how many ranks more.
[[nodiscard]] std::string rank_list(const std::vector<std::uint32_t>& ranks);

/// Who waits for whom, a line for ranks that nothing tells apart.
[[nodiscard]] std::string text_of(const Hang& hang);

}  // namespace foreshard::sim
