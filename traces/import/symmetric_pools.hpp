// Which private pools of a snapshot are symmetric memory's, which the snapshot does not say.
#pragma once

#include <vector>

#include "core/allocator/replay.hpp"
#include "core/settings/settings.hpp"

namespace foreshard::traces {

/// The pool that torch.distributed._symmetric_memory.get_mem_pool makes is no_split: a request takes a whole segment.
/// So, where `settings` gather or reduce through symmetric memory, the private pools of which no segment ever held two
/// blocks at once.
[[nodiscard]] std::vector<ReplayPool> symmetric_pools(const Snapshot& snapshot, const Settings& settings);

}  // namespace foreshard::traces
