// How run and probe come to be several processes: this command line once more a rank, in foreshard-gpu.
#pragma once

#include <cstdint>

#include "cli/terminal/console.hpp"
#include "core/base/error.hpp"

namespace foreshard::cli {

/// Whether torchrun, srun, mpirun or foreshard itself started this process as a rank.
[[nodiscard]] bool is_rank();

/// Replaces this process by foreshard-gpu with the same arguments; returns only where that fails.
[[nodiscard]] Result<int> become_rank();

/// Starts `ranks` processes of foreshard-gpu with this process's arguments and waits for them; the exit status. Their
/// lines on standard error are passed on, rank 0's standard output is this process's. Errors: foreshard-gpu is missing
/// or cannot be loaded (says which library), a rank's failure.
[[nodiscard]] Result<int> start_ranks(std::uint32_t ranks, Console& console);

}  // namespace foreshard::cli
