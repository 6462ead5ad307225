// The pool that a program's buffers of a kind of memory come from.
#pragma once

#include <array>

#include "core/allocator/caching_allocator.hpp"

namespace foreshard {

/// Device memory is of the default pools. Each other kind has a MemPool with an allocator of its own
/// (torch.cuda.MemPool), made when it is first asked for; symmetric memory's splits no block (no_split).
class PoolsByKind {
 public:
  [[nodiscard]] PoolId pool_of(MemoryKind kind, CachingAllocator& allocator) {
    if (kind == MemoryKind::device) return kDefaultPool;
    PoolId& pool = pools_[static_cast<std::size_t>(kind)];
    if (!pool.valid()) pool = allocator.create_pool({false, kind == MemoryKind::symmetric, kind});
    return pool;
  }

 private:
  std::array<PoolId, 3> pools_{};
};

}  // namespace foreshard
