// What decides which addresses the next calls get, in 128 bits (caching_allocator.hpp).
#include "core/allocator/allocator_state.hpp"

namespace foreshard {
namespace {

/// MurmurHash3's finaliser: each bit of the word reaches each bit of the result.
constexpr std::uint64_t mixed(std::uint64_t word) {
  word = (word ^ (word >> 33)) * 0xff51afd7ed558ccd;
  word = (word ^ (word >> 33)) * 0xc4ceb9fe1a85ec53;
  return word ^ (word >> 33);
}

}  // namespace

void LayoutDigest::add(std::initializer_list<std::uint64_t> words) {
  std::uint64_t one = 0, other = 0x9e3779b97f4a7c15;
  for (const std::uint64_t word : words) {
    one = mixed(one ^ word) + 1;
    other = mixed(other + word) + 1;
  }
  first += one;
  second += other;
}

LayoutDigest CachingAllocator::Impl::layout() {
  LayoutDigest digest;
  for (std::uint32_t i = 0; i < blocks.capacity(); ++i) {
    const Block& block = blocks.at(i);
    if (!block.in_store) continue;
    const BlockPool& pool = *block.home->pool;
    const std::uint64_t state = std::uint64_t{block.allocated} | std::uint64_t{block.mapped} << 1 |
                                std::uint64_t{block.prev != nullptr} << 2 | std::uint64_t{block.next != nullptr} << 3 |
                                std::uint64_t{pool.small} << 4 | std::uint64_t{block.range != nullptr} << 5;
    digest.add({block.address, block.size, state, block.home->stream.value, pool.owner ? pool.owner->id.value : 0,
                block.counter});
  }
  return digest;
}

}  // namespace foreshard
