// Pools: for each stream the free and the unmapped blocks; default and private pools.
// Internal to core/allocator (caching allocator 1.1, 6).
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/allocator/block.hpp"
#include "core/allocator/caching_allocator.hpp"

namespace foreshard::allocator_detail {

struct BlockPool;
struct PrivatePool;

/// One stream's blocks in one pool.
struct StreamBlocks {
  StreamBlocks(StreamId of_stream, BlockPool* of_pool, NodeStore& nodes)
      : stream(of_stream),
        pool(of_pool),
        free(NodeAllocator<FreeKey>(nodes)),
        unmapped(NodeAllocator<FreeKey>(nodes)) {}

  StreamId stream;
  BlockPool* pool;
  FreeSet free;      ///< by (size, counter, address)
  FreeSet unmapped;  ///< by address
};

struct BlockPool {
  BlockPool(bool is_small, PrivatePool* of_owner, NodeStore& node_store)
      : small(is_small), owner(of_owner), nodes(&node_store) {}

  bool small;
  PrivatePool* owner;            ///< null: a default pool
  std::uint64_t call_count = 0;  ///< get_free_block calls, counted for garbage collection
  NodeStore* nodes;
  std::vector<std::unique_ptr<StreamBlocks>> streams;  ///< ascending by stream

  StreamBlocks& of(StreamId stream) {
    for (const auto& entry : streams)
      if (entry->stream == stream) return *entry;
    auto made = std::make_unique<StreamBlocks>(stream, this, *nodes);
    const auto place = std::lower_bound(streams.begin(), streams.end(), stream,
                                        [](const auto& entry, StreamId key) { return entry->stream < key; });
    return **streams.insert(place, std::move(made));
  }
};

/// A MemPool or a graph's pool.
struct PrivatePool {
  PrivatePool(PoolId of_id, const PoolOptions& with_options, NodeStore& nodes)
      : id(of_id), options(with_options), small(true, this, nodes), large(false, this, nodes) {}

  PoolId id;
  PoolOptions options;
  BlockPool small;
  BlockPool large;
  std::int64_t use_count = 1;
  std::int64_t malloc_count = 0;  ///< segments, and expandable growths less unmaps (4.4)

  [[nodiscard]] bool custom() const { return options.kind != MemoryKind::device; }
};

inline void insert_free(Block* block) {
  block->gc_base = block->home->pool->call_count;
  block->place = block->home->free.insert(FreeKey{block->size, block->counter, block->address, block});
}
inline void insert_unmapped(Block* block) {
  block->place = block->home->unmapped.insert(FreeKey{0, 0, block->address, block});
}
inline void erase_from_set(Block* block) {
  (block->mapped ? block->home->free : block->home->unmapped).erase(block->place);
}

}  // namespace foreshard::allocator_detail
