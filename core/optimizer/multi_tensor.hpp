// How PyTorch cuts one op over lists of tensors (torch._foreach_*, _fused_adam_) into launches
// (ATen/native/cuda/MultiTensorApply.cuh, PyTorch 2.11, multi_tensor_apply).
//
// Pure. Used by core/models to price launches and by core/step to say what each computes: one rule, so that a
// run executes the launches that a plan prices.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace foreshard {

/// A stretch of elements of one tensor of the list.
struct TensorRange {
  std::size_t tensor = 0;
  std::uint64_t first = 0;
  std::uint64_t numel = 0;
  bool operator==(const TensorRange&) const = default;
};

/// What one launch handles, in order; at most one range a tensor.
using MultiTensorLaunch = std::vector<TensorRange>;

[[nodiscard]] inline std::uint64_t elements_of(const MultiTensorLaunch& launch) {
  std::uint64_t elements = 0;
  for (const TensorRange& range : launch) elements += range.numel;
  return elements;
}

/// Launches of one op over `depth` (1 to 5) lists of tensors with `numels` elements. Empty tensors take no part.
[[nodiscard]] std::vector<MultiTensorLaunch> multi_tensor_launches(std::span<const std::uint64_t> numels,
                                                                   std::uint32_t depth);

}  // namespace foreshard
