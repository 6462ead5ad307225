// Another wrapping of a model: embedding and head as FSDP2 units of their own. Internal to sim/sweep.
#pragma once

#include "core/base/error.hpp"
#include "core/settings/settings.hpp"
#include "core/workload/workload.hpp"
#include "sim/machine/profile.hpp"
#include "sim/sweep/candidates.hpp"

namespace foreshard::sim {

struct SplitCandidate {
  Workload workload;
  Candidate candidate;  ///< `settings`: the head stays gathered after forward, as backward needs it at once
};

/// Fails (usage) with the reason: of a recording, whose root's sections hold both, and as split_root() does.
[[nodiscard]] Result<SplitCandidate> split_workload(const Workload& workload, const MachineProfile& machine,
                                                    const Settings& settings);

}  // namespace foreshard::sim
