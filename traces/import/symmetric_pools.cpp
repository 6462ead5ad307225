#include "traces/import/symmetric_pools.hpp"

#include <map>

#include "core/device/transport_traits.hpp"

namespace foreshard::traces {

std::vector<ReplayPool> symmetric_pools(const Snapshot& snapshot, const Settings& settings) {
  const bool symmetric = memory_of(settings.all_gather) == MemoryKind::symmetric ||
                         memory_of(settings.reduce_scatter) == MemoryKind::symmetric;
  if (!symmetric) return {};
  std::map<std::pair<std::uint64_t, std::uint64_t>, bool> whole;
  for (const SnapshotSegment& segment : snapshot.segments)
    whole.try_emplace(segment.pool_id, true).first->second &= segment.blocks.size() == 1;
  whole.erase({0, 0});
  std::vector<ReplayPool> out;
  for (const auto& [pool, one_block] : whole)
    if (one_block) out.push_back({pool, {.no_split = true, .kind = MemoryKind::symmetric}});
  return out;
}

}  // namespace foreshard::traces
