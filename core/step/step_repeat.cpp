#include "core/step/step_repeat.hpp"

#include <algorithm>
#include <tuple>

namespace foreshard {
namespace {

bool equal(const SnapshotBlock& a, const SnapshotBlock& b) {
  if (a.state == BlockState::pending_free || a.address != b.address || a.size != b.size || a.state != b.state)
    return false;
  return a.state == BlockState::inactive || a.requested_size == b.requested_size;  // of free blocks it is stale
}

bool equal(const SnapshotSegment& a, const SnapshotSegment& b) {
  const auto what = [](const SnapshotSegment& s) {
    return std::tie(s.address, s.total_size, s.stream, s.small_pool, s.pool_id, s.is_expandable);
  };
  return what(a) == what(b) && std::equal(a.blocks.begin(), a.blocks.end(), b.blocks.begin(), b.blocks.end(),
                                          [](const SnapshotBlock& x, const SnapshotBlock& y) { return equal(x, y); });
}

}  // namespace

bool begins_alike(const std::vector<SnapshotSegment>& step, const std::vector<SnapshotSegment>& before) {
  return std::equal(step.begin(), step.end(), before.begin(), before.end(),
                    [](const SnapshotSegment& a, const SnapshotSegment& b) { return equal(a, b); });
}

}  // namespace foreshard
