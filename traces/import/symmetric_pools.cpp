#include "traces/import/symmetric_pools.hpp"

#include <map>
#include <set>

#include "core/device/transport_traits.hpp"

namespace foreshard::traces {
namespace {

using PoolKey = std::pair<std::uint64_t, std::uint64_t>;

/// Private segments by their addresses, and which of their pools ever split one.
class Splits {
 public:
  explicit Splits(const Snapshot& snapshot) {
    for (const SnapshotSegment& segment : snapshot.segments) {
      if (segment.pool_id == PoolKey{}) continue;
      segments_[segment.address] = {segment.address + segment.total_size, segment.pool_id, {}};
      pools_.insert(segment.pool_id);
      if (segment.blocks.size() > 1) split_.insert(segment.pool_id);
    }
    for (const AllocatorEvent& event : snapshot.events) note(event);
  }
  [[nodiscard]] std::set<PoolKey> whole() const {
    std::set<PoolKey> out = pools_;
    for (const PoolKey& pool : split_) out.erase(pool);
    return out;
  }

 private:
  struct Held {
    Address end = 0;
    PoolKey pool;
    std::set<Address> blocks;
  };

  void note(const AllocatorEvent& event) {
    const bool made = event.action == AllocatorAction::alloc;
    if (!made && event.action != AllocatorAction::free_completed) return;
    const auto after = segments_.upper_bound(event.address);
    if (after == segments_.begin() || event.address >= std::prev(after)->second.end) return;
    Held& held = std::prev(after)->second;
    made ? (void)held.blocks.insert(event.address) : (void)held.blocks.erase(event.address);
    if (held.blocks.size() > 1) split_.insert(held.pool);
  }

  std::map<Address, Held> segments_;
  std::set<PoolKey> pools_;
  std::set<PoolKey> split_;
};

}  // namespace

std::vector<ReplayPool> symmetric_pools(const Snapshot& snapshot, const Settings& settings) {
  const bool symmetric = memory_of(settings.all_gather) == MemoryKind::symmetric ||
                         memory_of(settings.reduce_scatter) == MemoryKind::symmetric;
  std::vector<ReplayPool> out;
  if (!symmetric) return out;
  for (const PoolKey& pool : Splits(snapshot).whole())
    out.push_back({pool, {.no_split = true, .kind = MemoryKind::symmetric}});
  return out;
}

}  // namespace foreshard::traces
