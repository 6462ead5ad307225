// Kernels over many tensors at once: which tensor a block works on. The table of tensors is a kernel parameter.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "gpu/kernels/arguments.hpp"

namespace foreshard::gpu {

/// A table's capacities: the small one keeps a launch cheap, the large one stays below the 32,764 bytes of parameters
/// that a kernel may have on sm_70 and later.
inline constexpr int kFewEntries = 16;
inline constexpr int kManyEntries = 480;

/// The entry whose blocks hold `block`: the last one with chunks_before ≤ block. Entries without blocks are not found.
template <class Entry>
__device__ inline const Entry& entry_of(const Entry* entries, std::uint32_t count, std::uint32_t block) {
  std::uint32_t low = 0;
  std::uint32_t high = count;
  while (high - low > 1) {
    const std::uint32_t middle = (low + high) / 2;
    if (entries[middle].chunks_before <= block)
      low = middle;
    else
      high = middle;
  }
  return entries[low];
}

/// Fills `table` with the tensors 0 … `tensors` − 1 and puts a kernel whenever it is full. Tensors are cut into chunks
/// of `chunk` elements, a block each. `fill(entry, i)` sets an entry but for its chunks_before, its numel too (0:
/// nothing to do); `put(blocks)` launches the table's kernel. Errors: theirs; a tensor of more blocks than a grid has.
template <int kEntries, class Table, class Fill, class Put>
[[nodiscard]] Result<void> put_in_tables(Table& table, std::size_t tensors, std::uint64_t chunk, const char* name,
                                         const Fill& fill, const Put& put) {
  constexpr std::uint32_t kMaxBlocks = 0x7fffffffU;
  std::uint32_t blocks = 0;
  const auto flush = [&]() -> Result<void> {
    if (blocks > 0) {
      put(blocks);
      FORESHARD_TRY(launched(name));
    }
    table.entries = 0;
    blocks = 0;
    return {};
  };
  table.entries = 0;
  for (std::size_t i = 0; i < tensors; ++i) {
    std::decay_t<decltype(table.entry[0])> made{};
    FORESHARD_TRY(fill(made, i));
    const std::uint64_t chunks = (made.numel + chunk - 1) / chunk;
    if (chunks == 0) continue;
    if (chunks > kMaxBlocks) return bad_operand(name, i, "is too large");
    if (table.entries == kEntries || chunks > kMaxBlocks - blocks) FORESHARD_TRY(flush());
    made.chunks_before = blocks;
    blocks += static_cast<std::uint32_t>(chunks);
    table.entry[table.entries++] = made;
  }
  return flush();
}

}  // namespace foreshard::gpu
