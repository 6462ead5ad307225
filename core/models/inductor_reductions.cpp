#include "core/models/inductor_reductions.hpp"

#include <algorithm>
#include <bit>

#include "core/base/quantity.hpp"

namespace foreshard::model {
namespace {

constexpr std::uint64_t kResidentThreads = 2048;  ///< of an SM

}  // namespace

bool mixes_orders(std::uint64_t rows, std::uint64_t columns) {
  constexpr std::uint64_t kMinElements = std::uint64_t{5} << 20;
  constexpr std::uint64_t kMinRows = 4096;
  return rows * columns >= kMinElements && rows >= 2 * columns && rows >= kMinRows;
}

std::uint64_t mixed_splits(std::uint64_t rows, std::uint32_t sm_count) {
  constexpr std::uint64_t kBlocksPerSm = 8;
  constexpr std::uint64_t kMin = 16;
  constexpr std::uint64_t kMax = 128;
  const std::uint64_t size = std::bit_floor(rows / (kBlocksPerSm * sm_count));
  return ceil_div(rows, std::clamp(size, kMin, kMax));
}

std::uint64_t outer_splits(std::uint64_t rows, std::uint64_t columns, std::uint32_t sm_count) {
  constexpr std::uint64_t kThreads = 256;
  constexpr std::uint64_t kMin = 32;  ///< elements of a thread
  constexpr std::uint64_t kRowsOfThread = 4;
  constexpr std::uint64_t kColumnsOfBlock = 128;
  std::uint64_t size = kMin;
  if (rows * columns >= kMin * sm_count * kResidentThreads) {
    const std::uint64_t blocks = ceil_div(sm_count * kResidentThreads / kThreads, ceil_div(columns, kColumnsOfBlock));
    size = std::max(kMin, std::bit_floor(ceil_div(rows, kRowsOfThread * blocks)));
  }
  return ceil_div(rows, kRowsOfThread * size);
}

}  // namespace foreshard::model
