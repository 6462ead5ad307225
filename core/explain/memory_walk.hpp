// Walks a run's allocator events and keeps the memory's state beside them.
//
// Internal to core/explain. `run` must outlive the walk.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "core/allocator/config.hpp"
#include "core/explain/memory_parts.hpp"

namespace foreshard::explain_detail {

inline constexpr std::size_t kNoEvent = std::numeric_limits<std::size_t>::max();

class MemoryWalk {
 public:
  /// Stands before the first event, with what was there already: a recording may begin late, and a plan from one begins
  /// with what it began with. Fails (input) where events and final segments contradict each other, so that nothing can
  /// be known of that.
  [[nodiscard]] static Result<MemoryWalk> begin(const Run& run);

  /// Applies the next event. False at the end.
  bool next();
  /// Events applied so far.
  [[nodiscard]] std::size_t applied() const { return applied_; }
  [[nodiscard]] const MemoryState& state() const { return state_; }
  /// Those that contradicted the state; they were passed over.
  [[nodiscard]] std::uint64_t odd_events() const { return odd_; }

 private:
  explicit MemoryWalk(const Run& run);
  Result<void> lay_initial_segments();
  [[nodiscard]] bool apply(const AllocatorRecord& event);
  [[nodiscard]] bool apply_alloc(const AllocatorRecord& event);
  /// The segment that memory got at `applied_` becomes: the block that it was asked for says its pool and class.
  [[nodiscard]] Segment new_segment(const AllocatorRecord& event, bool expandable) const;
  [[nodiscard]] Bytes page_size(bool small) const;

  const Run& run_;
  AllocatorConfig config_;
  MemoryState state_;
  std::size_t applied_ = 0;
  std::uint64_t odd_ = 0;
};

/// Null for a block that is older than the recording.
[[nodiscard]] inline const BlockRecord* record_of(const Run& run, BlockId block) {
  return block.value < run.blocks.size() ? &run.blocks[block.value] : nullptr;
}

/// For each allocator event of a block's life, by BlockId; kNoEvent where it did not happen.
struct BlockLife {
  std::size_t made = kNoEvent;
  std::size_t freed = kNoEvent;
  std::size_t back = kNoEvent;
};
[[nodiscard]] std::vector<BlockLife> block_lives(const Run& run);

/// The run's settings as the allocator reads them; defaults where it cannot.
[[nodiscard]] AllocatorConfig allocator_config(const Run& run);

}  // namespace foreshard::explain_detail
