// The dimensions that several tensors of one shape share, with neighbours merged where every tensor lies contiguous
// there.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "gpu/kernels/arguments.hpp"

namespace foreshard::gpu {

inline constexpr int kMaxDims = 6;
inline constexpr int kMaxTensors = 5;

/// Innermost dimension first. Passed to kernels by value.
struct Dims {
  int count = 0;
  std::uint32_t sizes[kMaxDims] = {};
  std::int64_t strides[kMaxTensors][kMaxDims] = {};  ///< in elements; 0 where a tensor repeats
};

/// The dimensions of `tensors`, broadcast to `shape`, merged. Errors: one does not broadcast, more than kMaxDims
/// remain, or one is too long for 32 bits.
[[nodiscard]] Result<Dims> common_dims(const std::vector<std::uint64_t>& shape, std::span<const Argument> tensors,
                                       std::string_view op);

}  // namespace foreshard::gpu
