// A job whose ranks wait for one another for ever, because one of them died or because they issue collectives in
// different orders: who waits for whom and in what, where hosts stand, and what it costs until PyTorch ends it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/run/run.hpp"
#include "sim/ranks/job.hpp"

namespace foreshard::sim {

/// How long ProcessGroupNCCL's watchdog lets a collective be, counted from its host's call:
/// torch/csrc/distributed/c10d/ ProcessGroupNCCL.hpp, kProcessGroupNCCLDefaultTimeout (PyTorch 2.11), which
/// init_process_group(timeout=) changes.
inline constexpr Nanoseconds kNcclTimeout{600'000'000'000};
/// How long the watchdog then waits for the flight recorder's dumps before it ends the process: four times
/// TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC, 15 s (ProcessGroupNCCL.cpp, Watchdog::runLoop).
inline constexpr Nanoseconds kNcclDumpWait{60'000'000'000};

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
  std::vector<Ranks> ranks;  ///< by lowest rank, without the dead
  std::uint32_t steps = 0;   ///< that every rank that lives has ended; the last one's end is `begin`
  Nanoseconds begin;
  Nanoseconds issued;  ///< the first collective that never ends, by the first rank that issued it
  Nanoseconds end;     ///< when that rank's watchdog ends its process, and with it the job
  /// Of all GPUs: from `begin`, since nothing of the unfinished step is kept, to `end`.
  [[nodiscard]] double gpu_seconds() const { return (end - begin).ms() / 1e3 * world; }
};

/// Of a job that is stuck, with the `programs` and `traits` that it was asked for. `run`: rank 0's program recorded,
/// for names; without device ops they are left out.
[[nodiscard]] Hang hang_of(const Job& job, const JobRequest& request, const Run& run);

/// "0-4, 6"; of many runs of numbers the first, and how many ranks more.
[[nodiscard]] std::string rank_list(const std::vector<std::uint32_t>& ranks);

/// Who waits for whom, a line for ranks that nothing tells apart.
[[nodiscard]] std::string text_of(const Hang& hang);

}  // namespace foreshard::sim
