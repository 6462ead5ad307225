// Settings::fully_shard_embedding_and_head of a generated workload.
#pragma once

#include "core/base/error.hpp"
#include "core/models/host_calls.hpp"
#include "core/workload/workload.hpp"

namespace foreshard::model {

/// Gives a model's workload the units that the setting asks for (core/adapt/split_root.hpp), and FSDP2's sections of
/// them at `workload.settings`, in which it is set from then on. Fails (usage) as split_root() does: of tied weights,
/// or frozen ones in the root.
[[nodiscard]] Result<void> wrap_embedding_and_head(Workload& workload, const HostCosts& host);

}  // namespace foreshard::model
