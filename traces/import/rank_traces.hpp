// Profiler traces of further ranks, brought into a Run that holds the first one's.
//
// A rank's trace is cut into steps and phases by the same hook places as the first one's (traces/capture/hooks.hpp);
// the n-th collective of a communicator in a step is the same on all its ranks, and brings the clocks together
// (clock_alignment.hpp).
//
// Who: import. Deterministic: ranks come in their order, whatever the files'.
#pragma once

#include <string>
#include <vector>

#include "core/base/error.hpp"
#include "core/run/run.hpp"
#include "traces/pytorch/profiler_trace.hpp"

namespace foreshard::traces {

/// A trace, and the file it came from.
struct RankTrace {
  std::string file;
  ProfilerTrace trace;
};

/// What the first rank's trace says of itself beside its Run.
struct FirstRank {
  std::uint32_t rank = 0;
  std::optional<std::uint32_t> world_size;
  std::int64_t origin_ns = 0;
  std::vector<TraceCommunicator> communicators;
};

/// Fills run.ranks and run.rank_ops; `run` has its trace, units, steps and phases. A trace whose steps or collectives
/// are not the first one's, or whose clock none can bring to it, is left out: an import stat (data_loss) says why. So
/// does one (info) where ranks of the world are missing.
///
/// Fails with ErrorKind::mismatch where a trace does not say its rank, where two are of one rank or of worlds of
/// different sizes, or where FSDP's ranges name units that the run has not.
[[nodiscard]] Result<void> add_ranks(const FirstRank& first, std::vector<RankTrace> others, Run& run);

}  // namespace foreshard::traces
