#include "core/optimizer/multi_tensor.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "core/base/check.hpp"

namespace foreshard {
namespace {

// kChunkSize elements a block, depth_to_max_blocks, depth_to_max_tensors.
constexpr std::uint64_t kChunkElements = 65536;
constexpr std::uint64_t kMaxBlocks = 320;
constexpr std::array<std::size_t, 5> kMaxTensors{110, 64, 48, 36, 30};

}  // namespace

std::vector<MultiTensorLaunch> multi_tensor_launches(std::span<const std::uint64_t> numels, std::uint32_t depth) {
  FORESHARD_CHECK(depth >= 1 && depth <= kMaxTensors.size(), "multi-tensor ops take one to five lists");
  std::vector<MultiTensorLaunch> launches;
  MultiTensorLaunch ranges;
  std::uint64_t blocks = 0;
  const auto flush = [&] {
    if (!ranges.empty()) launches.push_back(std::exchange(ranges, {}));
    blocks = 0;
  };
  for (std::size_t tensor = 0; tensor < numels.size(); ++tensor) {
    std::uint64_t first = 0;
    while (first < numels[tensor]) {
      const std::uint64_t left = numels[tensor] - first;
      const std::uint64_t taken = std::min((left + kChunkElements - 1) / kChunkElements, kMaxBlocks - blocks);
      const std::uint64_t numel = std::min(left, taken * kChunkElements);
      ranges.push_back({tensor, first, numel});
      blocks += taken;
      first += numel;
      // A list is full when its last tensor is done, a launch's blocks at any chunk.
      if (blocks == kMaxBlocks || (numel == left && ranges.size() == kMaxTensors[depth - 1])) flush();
    }
  }
  flush();
  return launches;
}

}  // namespace foreshard
