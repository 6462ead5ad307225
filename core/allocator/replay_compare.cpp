#include "core/allocator/replay_compare.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace foreshard::allocator_detail {
namespace {

AllocatorEvent event_of(const ReplayEntry& entry) {
  return {entry.action, entry.address, entry.size, entry.stream.value, 0};
}

std::string place(const SnapshotSegment& segment) {
  return fmt::format("final segment {:#x}", segment.address);
}

}  // namespace

void ReplayComparison::report(ReplayReport& into) const {
  into.mismatches = mismatches_;
  into.first_mismatch = first_;
  into.unknown_requested_sizes = unknown_requested_sizes_;
}

void ReplayComparison::mismatch(const std::string& where, const std::string& what) {
  if (mismatches_++ == 0) first_ = where + ": " + what;
}

std::string ReplayComparison::describe(const AllocatorEvent& event) const {
  const std::uint64_t stream = event.stream < plan_.streams.size() ? plan_.streams[event.stream] : 0;
  return fmt::format("{} at {:#x} of {} bytes on stream {}",
                     kAllocatorActionNames[static_cast<std::size_t>(event.action)], event.address, event.size, stream);
}

void ReplayComparison::entries(std::span<const ReplayEntry> recorded, std::span<const AllocatorEvent> replayed) {
  const std::size_t both = std::min(recorded.size(), replayed.size());
  const auto where = [&](std::size_t k) {
    return fmt::format("event {}", recorded[std::min(k, recorded.size() - 1)].index);
  };
  for (std::size_t k = 0; k < both; ++k) {
    const AllocatorEvent a = event_of(recorded[k]);
    const AllocatorEvent& b = replayed[k];
    if (a.action == b.action && a.address == b.address && a.size == b.size && a.stream == b.stream) continue;
    mismatch(where(k), fmt::format("recorded {}, replayed {}", describe(a), describe(b)));
  }
  for (std::size_t k = both; k < recorded.size(); ++k)
    mismatch(where(k), fmt::format("recorded {}, replayed nothing", describe(event_of(recorded[k]))));
  for (std::size_t k = both; k < replayed.size(); ++k)
    mismatch(where(k), fmt::format("recorded nothing more, replayed {}", describe(replayed[k])));
}

void ReplayComparison::blocks(const SnapshotSegment& recorded, const SnapshotSegment& replayed) {
  const std::size_t both = std::min(recorded.blocks.size(), replayed.blocks.size());
  for (std::size_t k = 0; k < both; ++k) {
    const SnapshotBlock& a = recorded.blocks[k];
    SnapshotBlock b = replayed.blocks[k];
    if (b.requested_size == kUnknownRequestedSize) {
      ++unknown_requested_sizes_;
      b.requested_size = a.requested_size;
    }
    if (a == b) continue;
    mismatch(fmt::format("final block {:#x}", a.address),
             fmt::format("recorded {} bytes for {}, state {}; replayed at {:#x} {} bytes for {}, state {}", a.size,
                         a.requested_size, static_cast<int>(a.state), b.address, b.size, b.requested_size,
                         static_cast<int>(b.state)));
  }
  if (recorded.blocks.size() != replayed.blocks.size())
    mismatch(place(recorded),
             fmt::format("recorded {} blocks, replayed {}", recorded.blocks.size(), replayed.blocks.size()));
}

void ReplayComparison::final_segments(const std::vector<SnapshotSegment>& replayed) {
  std::size_t r = 0;
  for (const InitialSegment& last : plan_.final_segments) {
    const SnapshotSegment& a = last.segment;
    for (; r < replayed.size() && replayed[r].address < a.address; ++r)
      mismatch(place(replayed[r]), "not in the recording");
    if (r == replayed.size() || replayed[r].address != a.address) {
      mismatch(place(a), "not in the replay");
      continue;
    }
    const SnapshotSegment& b = replayed[r++];
    const bool same = a.total_size == b.total_size && a.stream == b.stream && a.small_pool == b.small_pool &&
                      a.pool_id == b.pool_id && a.is_expandable == b.is_expandable;
    if (!same)
      mismatch(place(a), fmt::format("recorded {} bytes, replayed {}, or another stream, pool or kind", a.total_size,
                                     b.total_size));
    blocks(a, b);
  }
  for (; r < replayed.size(); ++r) mismatch(place(replayed[r]), "not in the recording");
}

}  // namespace foreshard::allocator_detail
