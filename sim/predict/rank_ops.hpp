// The ops of one of a job's ranks as rows of Run::rank_ops, as an import of every rank's trace has them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/run/run.hpp"

namespace foreshard::sim {

struct StepRange {
  std::int32_t first = 0;
  std::int32_t last = 0;  ///< included
};

/// Adds `rank` to `run`, with its device ops of `steps` by their issue, from `of`, which may be `run` itself.
/// `groups`: by communicator of this rank, its number over all ranks.
void append_rank_ops(const Run& of, std::uint32_t rank, const std::vector<std::uint32_t>& groups,
                     const StepRange& steps, Run& run);

/// Of a run that hangs: what began and never ended (OpTiming::kNever), on any rank, ends where the last that is known
/// of any of them does.
void end_open_ops(Run& run);

}  // namespace foreshard::sim
