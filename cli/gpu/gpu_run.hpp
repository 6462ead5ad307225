// One rank of `foreshard run`: what foreshard-gpu does once a launcher started it.
#pragma once

#include "cli/verbs/gpu_backend.hpp"
#include "cli/verbs/verbs.hpp"

namespace foreshard::cli {

/// This process is a rank. Meets the others, executes, and on rank 0 shows and stores the result.
[[nodiscard]] Result<int> run_rank(const RunOptions& options, Console& console);

}  // namespace foreshard::cli
