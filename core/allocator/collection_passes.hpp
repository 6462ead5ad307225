// The passes of garbage collection over cached segments, oldest first (caching allocator 3.5).
// Internal to core/allocator.
#pragma once

#include <cstdint>
#include <vector>

#include "core/allocator/block_pool.hpp"

namespace foreshard::allocator_detail {

/// garbage_collect_cached_blocks (2.11): a pass takes every whole cudaMalloc segment of at least average age, in set
/// order. The average counts unsplit expandable blocks too, which never go. The pool must not change meanwhile.
class CollectionPasses {
 public:
  explicit CollectionPasses(const BlockPool& pool) : calls_(pool.call_count) {
    for (const auto& stream : pool.streams) {
      for (const auto& key : stream->free) {
        if (key.block->split()) continue;
        total_age_ += age(key.block);
        left_.push_back(key.block);
      }
    }
  }

  /// The next pass's blocks; none: nothing is left that may go.
  [[nodiscard]] std::vector<Block*> next() {
    std::vector<Block*> taken;
    if (left_.empty()) return taken;
    const double threshold = static_cast<double>(total_age_) / static_cast<double>(left_.size());
    std::vector<Block*> younger;
    for (Block* block : left_) {
      const bool goes = !block->range && static_cast<double>(age(block)) >= threshold;
      if (goes) total_age_ -= age(block);
      (goes ? taken : younger).push_back(block);
    }
    left_ = std::move(younger);
    return taken;
  }

 private:
  [[nodiscard]] std::uint64_t age(const Block* block) const { return calls_ - block->gc_base; }

  std::uint64_t calls_;
  std::uint64_t total_age_ = 0;
  std::vector<Block*> left_;  // in set order
};

}  // namespace foreshard::allocator_detail
