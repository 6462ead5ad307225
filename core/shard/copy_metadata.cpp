#include "core/shard/copy_metadata.hpp"

#include <algorithm>
#include <cmath>

namespace foreshard {
namespace {

constexpr std::uint64_t kThreads = 128;         // BLOCK_SIZE of both kernels
constexpr std::uint64_t kBytesPerBlock = 2048;  // BLOCK_SIZE × 16-byte vectors
constexpr std::uint64_t kThreadsPerSm = 2048;   // cudaDeviceProp::maxThreadsPerMultiProcessor, sm_80 to sm_100
constexpr std::uint64_t kWaves = 2;             // "max_active_blocks" × 2 of the split kernel

}  // namespace

Bytes split_metadata_bytes(std::span<const Bytes> chunk_bytes, std::uint32_t ranks, std::uint32_t sm_count) {
  std::uint64_t blocks = 0;
  for (Bytes b : chunk_bytes) blocks += ceil_div(b, kBytesPerBlock);
  const std::uint64_t max_blocks = sm_count * kThreadsPerSm / kThreads * kWaves;
  const std::uint64_t iterations = std::max<std::uint64_t>(1, ceil_div(blocks * ranks, max_blocks));
  auto chunks_per_block = static_cast<std::uint64_t>(std::ceil(std::sqrt(static_cast<double>(iterations))));
  chunks_per_block = std::min<std::uint64_t>(chunks_per_block, ranks);
  const std::uint64_t iterations_per_chunk = ceil_div(iterations, chunks_per_block);
  std::uint64_t grid = 0;
  for (Bytes b : chunk_bytes) grid += ceil_div(b, kBytesPerBlock * iterations_per_chunk);
  return 8 * (4 * chunk_bytes.size() + grid + 1);
}

Bytes chunk_cat_metadata_bytes(std::span<const Bytes> chunk_bytes) {
  std::uint64_t grid = 0;
  for (Bytes b : chunk_bytes) grid += ceil_div(b, kBytesPerBlock);
  return 8 * (6 * chunk_bytes.size() + grid + 2);
}

}  // namespace foreshard
