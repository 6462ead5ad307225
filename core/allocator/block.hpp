// Blocks: the tiles of a segment, and the store that keeps them at fixed addresses.
//
// Internal to core/allocator. All blocks of a segment form a list in address order and share stream and
// pool for ever (caching allocator 1.1, 1.2). Not thread-safe. Nothing here depends on host addresses.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/allocator/free_set.hpp"
#include "core/base/check.hpp"
#include "core/base/quantity.hpp"

namespace foreshard::allocator_detail {

struct StreamBlocks;

/// The reserved virtual range behind an expandable segment (caching allocator 4.1).
struct ExpandableRange {
  Address base = 0;  ///< the origin of the page grid
  Bytes size = 0;
  Bytes page = 0;
};

/// Live: `allocated`. Pending free: not allocated and event_count > 0. Unmapped: not `mapped`. Else free.
struct Block {
  Address address = 0;
  Bytes size = 0;
  Bytes requested = 0;  ///< stale while the block is free (3.2)
  Block* prev = nullptr;
  Block* next = nullptr;
  StreamBlocks* home = nullptr;      ///< its stream's sets in its pool
  ExpandableRange* range = nullptr;  ///< null: a cudaMalloc segment
  FreeSet::iterator place;           ///< valid while in a set of `home`
  /// Rank of its segment in order of creation, which splits inherit; 0 under rules that do not order by it.
  std::uint64_t counter = 0;
  std::uint64_t gc_base = 0;   ///< the pool's call count when it became free (3.5)
  std::vector<StreamId> uses;  ///< other streams that use it, ascending
  std::uint32_t event_count = 0;
  std::uint32_t index = 0;  ///< its place in the store; the public handle
  bool allocated = false;
  bool mapped = true;
  bool in_store = false;

  [[nodiscard]] bool split() const { return prev != nullptr || next != nullptr; }
  /// Neither live nor pending: free or unmapped.
  [[nodiscard]] bool available() const { return !allocated && event_count == 0; }
};

/// Owns the blocks. Addresses of blocks stay fixed; indices are reused, the last freed first.
class BlockStore {
 public:
  Block* make(StreamBlocks* home, Address address, Bytes size) {
    if (free_.empty()) add_chunk();
    Block* block = &at(free_.back());
    free_.pop_back();
    block->address = address;
    block->size = size;
    block->requested = 0;
    block->prev = block->next = nullptr;
    block->home = home;
    block->range = nullptr;
    block->counter = 0;
    block->uses.clear();
    block->event_count = 0;
    block->allocated = false;
    block->mapped = true;
    block->in_store = true;
    return block;
  }
  /// A piece of `parent`'s segment: same stream, pool, range and counter. It is in no list yet.
  Block* make_piece(const Block& parent, Address address, Bytes size) {
    Block* block = make(parent.home, address, size);
    block->range = parent.range;
    block->counter = parent.counter;
    return block;
  }
  void drop(Block* block) {
    block->in_store = false;
    free_.push_back(block->index);
  }
  [[nodiscard]] Block& at(std::uint32_t index) { return chunks_[index / kChunk][index % kChunk]; }
  [[nodiscard]] std::uint32_t capacity() const { return static_cast<std::uint32_t>(chunks_.size() * kChunk); }

 private:
  static constexpr std::uint32_t kChunk = 256;

  void add_chunk() {
    const std::uint32_t first = capacity();
    chunks_.push_back(std::make_unique<Block[]>(kChunk));
    for (std::uint32_t i = kChunk; i-- > 0;) {
      chunks_.back()[i].index = first + i;
      free_.push_back(first + i);
    }
  }

  std::vector<std::unique_ptr<Block[]>> chunks_;
  std::vector<std::uint32_t> free_;
};

/// Puts `block` into the list between two neighbours, either of which may be null.
inline void splice(Block* block, Block* before, Block* after) {
  block->prev = before;
  block->next = after;
  if (before) before->next = block;
  if (after) after->prev = block;
}

}  // namespace foreshard::allocator_detail
