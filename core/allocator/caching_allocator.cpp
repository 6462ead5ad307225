#include "core/allocator/caching_allocator.hpp"

#include <cmath>

#include "core/allocator/allocator_state.hpp"
#include "core/base/check.hpp"

namespace foreshard {

CachingAllocator::Impl::Impl(const AllocatorConfig& with_config, DeviceMemory& with_memory, StreamEvents& with_events,
                             AllocatorObserver* with_observer)
    : config(with_config),
      memory(&with_memory),
      events(&with_events),
      observer(with_observer),
      device_total(with_memory.info().total),
      small_pool(true, nullptr, nodes),
      large_pool(false, nullptr, nodes) {
  limited = config.per_process_memory_fraction < 1.0;
  // setMemoryFraction: static_cast<size_t>(fraction * device_prop.totalGlobalMem).
  allowed = limited ? static_cast<Bytes>(config.per_process_memory_fraction * static_cast<double>(device_total)) : 0;
}

PrivatePool& CachingAllocator::Impl::private_pool(PoolId pool) {
  FORESHARD_CHECK(pool.value >= 1 && pool.value <= private_pools.size(), "no private pool has this id");
  return *private_pools[pool.value - 1];
}

BlockPool& CachingAllocator::Impl::pool_of(PoolId pool, bool small) {
  if (pool == kDefaultPool) return small ? small_pool : large_pool;
  PrivatePool& owner = private_pool(pool);
  return small ? owner.small : owner.large;
}

Block* CachingAllocator::Impl::live_block(BlockHandle handle) {
  FORESHARD_CHECK(
      handle.value < blocks.capacity() && blocks.at(handle.value).in_store && blocks.at(handle.value).allocated,
      "the handle is not a live block");
  return &blocks.at(handle.value);
}

CachingAllocator::CachingAllocator(const AllocatorConfig& config, DeviceMemory& memory, StreamEvents& events,
                                   AllocatorObserver* observer)
    : impl_(std::make_unique<Impl>(config, memory, events, observer)) {}

CachingAllocator::~CachingAllocator() = default;

tl::expected<BlockHandle, OutOfMemory> CachingAllocator::malloc(Bytes size, StreamId stream, PoolId pool) {
  return impl_->malloc(size, stream, pool);
}

void CachingAllocator::free(BlockHandle block) {
  impl_->free(impl_->live_block(block));
}

void CachingAllocator::record_stream(BlockHandle block, StreamId stream) {
  impl_->record_stream(impl_->live_block(block), stream);
}

void CachingAllocator::empty_cache(PoolId pool) {
  impl_->empty_cache(pool);
}

void CachingAllocator::process_events() {
  impl_->process_events();
}

void CachingAllocator::set_limit(Bytes allowed) {
  impl_->limited = true;
  impl_->allowed = allowed;
}

bool CachingAllocator::finds_block(Bytes size, StreamId stream, PoolId pool) const {
  return impl_->find_free_block(impl_->make_request(size, stream, pool)) != nullptr;
}

LimitOutcomes CachingAllocator::limit_outcomes(Bytes size, StreamId stream, PoolId pool, std::size_t at_most) const {
  return impl_->limit_outcomes(impl_->make_request(size, stream, pool), at_most);
}

std::vector<Address> CachingAllocator::cached_segments() const {
  return impl_->cached_segments();
}

bool CachingAllocator::would_serve(BlockHandle pending, Bytes size, StreamId stream, PoolId pool) const {
  return impl_->would_serve(pending, size, stream, pool);
}

PoolId CachingAllocator::create_pool(const PoolOptions& options) {
  const PoolId id{static_cast<std::uint32_t>(impl_->private_pools.size() + 1)};
  impl_->private_pools.push_back(std::make_unique<PrivatePool>(id, options, impl_->nodes));
  return id;
}

void CachingAllocator::release_pool(PoolId pool) {
  PrivatePool& owner = impl_->private_pool(pool);
  FORESHARD_CHECK(owner.use_count > 0, "the private pool was released before");
  --owner.use_count;
}

Address CachingAllocator::address(BlockHandle block) const {
  return impl_->live_block(block)->address;
}
Bytes CachingAllocator::block_size(BlockHandle block) const {
  return impl_->live_block(block)->size;
}

const AllocatorStatistics& CachingAllocator::statistics() const {
  return impl_->statistics;
}

void CachingAllocator::reset_peak_statistics() {
  AllocatorStatistics& statistics = impl_->statistics;
  for (StatisticGroup* group : {&statistics.all, &statistics.small_pool, &statistics.large_pool}) {
    for (Statistic* one :
         {&group->allocation, &group->segment, &group->active, &group->inactive_split, &group->allocated_bytes,
          &group->reserved_bytes, &group->active_bytes, &group->inactive_split_bytes, &group->requested_bytes})
      one->peak = one->current;
  }
  for (Statistic* one : {&statistics.oversize_allocations, &statistics.oversize_segments}) one->peak = one->current;
}

MemoryPeaks CachingAllocator::peaks() const {
  const StatisticGroup& all = impl_->statistics.all;
  return {static_cast<Bytes>(all.requested_bytes.peak), static_cast<Bytes>(all.allocated_bytes.peak),
          static_cast<Bytes>(all.active_bytes.peak), static_cast<Bytes>(all.reserved_bytes.peak)};
}

LayoutDigest CachingAllocator::layout() const {
  return impl_->layout();
}

std::vector<SnapshotSegment> CachingAllocator::snapshot() const {
  return impl_->snapshot();
}

void CachingAllocator::adopt_range(Address base, StreamId stream, bool small_pool, PoolId pool) {
  BlockPool& into = impl_->pool_of(pool, small_pool);
  impl_->add_range_block(impl_->add_range(base, impl_->page_size(into)), into.of(stream));
}

std::vector<BlockHandle> CachingAllocator::adopt_segment(const SnapshotSegment& segment, PoolId pool) {
  return impl_->adopt_segment(segment, pool);
}

}  // namespace foreshard
