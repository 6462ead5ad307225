// Compares what the allocator did with what the recording shows. Internal to core/allocator's replay.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/allocator/replay_plan.hpp"

namespace foreshard::allocator_detail {

class ReplayComparison {
 public:
  explicit ReplayComparison(const ReplayPlan& plan) : plan_(plan) {}

  /// One operation's entries: kind, address, size, stream and position.
  void entries(std::span<const ReplayEntry> recorded, std::span<const AllocatorEvent> replayed);
  /// The state at the end, stale requested sizes included where they can be known.
  void final_segments(const std::vector<SnapshotSegment>& replayed);
  /// Whether nothing has differed so far.
  [[nodiscard]] bool agrees() const { return mismatches_ == 0; }
  /// Writes the counts and the first difference.
  void report(ReplayReport& into) const;

 private:
  void blocks(const SnapshotSegment& recorded, const SnapshotSegment& replayed);
  void mismatch(const std::string& where, const std::string& what);
  [[nodiscard]] std::string describe(const AllocatorEvent& event) const;

  const ReplayPlan& plan_;
  std::uint64_t mismatches_ = 0;
  std::uint64_t unknown_requested_sizes_ = 0;
  std::string first_;
};

}  // namespace foreshard::allocator_detail
