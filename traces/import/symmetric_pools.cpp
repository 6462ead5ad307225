#include "traces/import/symmetric_pools.hpp"

#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "core/allocator/sizes.hpp"
#include "core/device/transport_traits.hpp"
#include "traces/capture/capture_events.hpp"
#include "traces/import/snapshot_ranges.hpp"
#include "traces/infer/inference.hpp"

namespace foreshard::traces {
namespace {

using PoolKey = std::pair<std::uint64_t, std::uint64_t>;

/// Private segments by their addresses: which of their pools ever split one, and which would have, were they to split.
class Splits {
 public:
  Splits(const Snapshot& snapshot, const AllocatorConfig& config) : config_(config) {
    for (const SnapshotSegment& segment : snapshot.segments)
      if (segment.pool_id != PoolKey{}) add(segment);
    const auto made_at = [&](std::size_t i) {
      const AllocatorEvent& event = snapshot.events[i];
      const auto at = event.action == AllocatorAction::segment_alloc ? segments_.find(event.address) : segments_.end();
      return at == segments_.end() ? nullptr : &at->second;
    };
    // Other segments may have lain there before: the last one is the snapshot's.
    for (std::size_t i = 0; i < snapshot.events.size(); ++i)
      if (Held* held = made_at(i)) held->made = i;
    for (std::size_t i = 0; i < snapshot.events.size(); ++i) note(snapshot.events[i], i);
  }
  /// Of which no segment ever held two blocks at once.
  [[nodiscard]] std::set<PoolKey> whole() const {
    std::set<PoolKey> out = pools_;
    for (const PoolKey& pool : split_) out.erase(pool);
    return out;
  }
  /// Of which a block was left with more than its request where any other pool would have cut the rest off.
  [[nodiscard]] bool is_left_whole(const PoolKey& pool) const { return left_whole_.contains(pool); }

 private:
  struct Held {
    const SnapshotSegment* segment = nullptr;
    std::size_t made = 0;             ///< the event from which on it is there
    bool served = false;              ///< a request, since then
    std::map<Address, Bytes> blocks;  ///< requested sizes
  };

  void add(const SnapshotSegment& segment) {
    segments_[segment.address].segment = &segment;
    pools_.insert(segment.pool_id);
    if (segment.blocks.size() > 1) split_.insert(segment.pool_id);
    if (segment.blocks.size() != 1) return;
    const SnapshotBlock& block = segment.blocks.front();
    if (block.state == BlockState::live && cut_off(segment, block.requested_size) > 0)
      left_whole_.insert(segment.pool_id);
  }

  void note(const AllocatorEvent& event, std::size_t index) {
    const bool made = event.action == AllocatorAction::alloc;
    if (!made && event.action != AllocatorAction::free_completed) return;
    const auto after = segments_.upper_bound(event.address);
    if (after == segments_.begin()) return;
    Held& held = std::prev(after)->second;
    if (event.address - held.segment->address >= held.segment->total_size || index < held.made) return;
    std::multiset<Bytes>& room = room_[{held.segment->pool_id, held.segment->stream, held.segment->small_pool}];
    const bool had_room = !room.empty() && *room.rbegin() >= round_size(event.size, config_);
    if (made && !std::exchange(held.served, true) && held.made > 0 && had_room)
      left_whole_.insert(held.segment->pool_id);
    if (const Bytes left = room_behind(held); left > 0) room.erase(room.find(left));
    made ? (void)held.blocks.emplace(event.address, event.size) : (void)held.blocks.erase(event.address);
    if (const Bytes left = room_behind(held); left > 0) room.insert(left);
    if (held.blocks.size() > 1) split_.insert(held.segment->pool_id);
  }

  [[nodiscard]] Bytes room_behind(const Held& held) const {
    return held.blocks.size() == 1 ? cut_off(*held.segment, held.blocks.begin()->second) : 0;
  }

  /// What a pool that splits cuts off behind a block at the segment's start (caching allocator 2.4).
  [[nodiscard]] Bytes cut_off(const SnapshotSegment& segment, Bytes requested) const {
    const Bytes rounded = round_size(requested, config_);
    if (segment.is_expandable || segment.total_size < rounded || segment.total_size >= config_.max_split_size) return 0;
    const Bytes left = segment.total_size - rounded;
    return left > kSmallSize || (segment.small_pool && left >= kMinBlockSize) ? left : 0;
  }

  const AllocatorConfig& config_;
  std::map<Address, Held> segments_;
  /// By pool, stream and whether it is of small blocks: room_behind() each of the segments.
  std::map<std::tuple<PoolKey, std::uint64_t, bool>, std::multiset<Bytes>> room_;
  std::set<PoolKey> pools_;
  std::set<PoolKey> split_;
  std::set<PoolKey> left_whole_;
};

}  // namespace

std::vector<ReplayPool> symmetric_pools(const Snapshot& snapshot, const Settings& settings) {
  const bool symmetric = memory_of(settings.all_gather) == MemoryKind::symmetric ||
                         memory_of(settings.reduce_scatter) == MemoryKind::symmetric;
  std::vector<ReplayPool> out;
  const auto config = recorded_config(snapshot.settings, settings.pytorch);
  if (!config) return out;  // verify() says why
  const Splits splits(snapshot, *config);
  for (const PoolKey& pool : splits.whole())
    if (symmetric || splits.is_left_whole(pool))
      out.push_back({pool, {.no_split = true, .kind = MemoryKind::symmetric}});
  return out;
}

std::vector<ReplayPool> symmetric_pools(const Snapshot& snapshot, std::string_view pytorch) {
  const std::vector<Range> ranges = snapshot_ranges(snapshot);
  const std::vector<CaptureEvent> events = capture_events(snapshot.events, snapshot_origin_us(snapshot));
  Settings settings = infer({snapshot, events, ranges}).settings;
  settings.pytorch = pytorch;
  return symmetric_pools(snapshot, settings);
}

}  // namespace foreshard::traces
