// Requests that found no memory: why nothing fitted, and what would have.
//
// Internal to core/explain.
#pragma once

#include <vector>

#include "core/explain/moments.hpp"

namespace foreshard::explain_detail {

/// The first kMaxFailures `oom` entries of the run. `walk` stands before the first event.
[[nodiscard]] std::vector<FailedRequest> failed_requests(const Run& run, const Moments& moments, MemoryWalk walk);

}  // namespace foreshard::explain_detail
