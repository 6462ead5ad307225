// Profiler traces of further ranks, brought into a Run that holds the first one's.
//
// A rank's trace is cut into steps and phases by the same hook places as the first one's (traces/capture/hooks.hpp);
// the n-th collective of a communicator in a step is the same on all its ranks, and brings the clocks together
// (clock_alignment.hpp).
//
// Who: import. Deterministic: ranks come in their order, whatever the files'.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
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

/// Fails (mismatch) with a trace of a rank that its world has not.
[[nodiscard]] Result<void> check_rank(std::optional<std::uint32_t> rank, std::optional<std::uint32_t> world,
                                      const std::string& file);

/// Takes one trace after the other and keeps its device ops alone. `run` has its trace, units, steps and phases, and
/// outlives this.
class RankTraces {
 public:
  RankTraces(const FirstRank& first, Run& run);
  ~RankTraces();
  RankTraces(const RankTraces&) = delete;
  RankTraces& operator=(const RankTraces&) = delete;

  /// A trace whose units, steps or collectives are not the first one's is left out: an import stat (data_loss) says
  /// why. Fails with ErrorKind::mismatch where a trace does not say its rank, where two are of one rank or of worlds of
  /// different sizes.
  [[nodiscard]] Result<void> add(RankTrace other);
  /// A trace that cannot be read is left out in the same way.
  void leave_out(const std::string& file, const std::string& why);
  /// Brings the clocks together and fills run.ranks and run.rank_ops; a rank whose clock none can bring to the others'
  /// is left out. An import stat (info) says which ranks of the world are missing.
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace foreshard::traces
