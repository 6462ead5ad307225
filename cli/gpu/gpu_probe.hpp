// One rank of `foreshard probe`: measures, and on rank 0 writes the profile.
#pragma once

#include "cli/verbs/gpu_backend.hpp"
#include "cli/verbs/verbs.hpp"

namespace foreshard::cli {

[[nodiscard]] Result<int> probe_rank(const ProbeOptions& options, Console& console);

}  // namespace foreshard::cli
