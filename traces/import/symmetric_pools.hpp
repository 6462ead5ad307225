// Which private pools of a snapshot are symmetric memory's, which the snapshot does not say.
#pragma once

#include <string_view>
#include <vector>

#include "core/allocator/replay.hpp"
#include "core/settings/settings.hpp"

namespace foreshard::traces {

/// The pool that torch.distributed._symmetric_memory.get_mem_pool makes is no_split: a request takes a whole segment.
/// So the private pools of which no segment ever held two blocks at once, where `settings` gather or reduce through
/// symmetric memory, or where the recording shows one that any other pool would have split. The rule of every replay of
/// a recording: import's and `replay`'s.
[[nodiscard]] std::vector<ReplayPool> symmetric_pools(const Snapshot& snapshot, const Settings& settings);
/// With the settings that the recording itself shows, where no about file has them.
[[nodiscard]] std::vector<ReplayPool> symmetric_pools(const Snapshot& snapshot, std::string_view pytorch);

}  // namespace foreshard::traces
