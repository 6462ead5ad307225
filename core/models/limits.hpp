// How large a model and a step may be: far beyond what anybody trains, and small enough that a plan ends and that no
// count of bytes, FLOP or nanoseconds of it leaves 64 bits.
//
// Who: generate.cpp; traces/model_files, to name the key of a config.json. Pure; counts in double, so that the check
// itself cannot overflow.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/error.hpp"
#include "core/models/model_config.hpp"

namespace foreshard::model {

/// 17.6 trillion: the largest published models have about 2 trillion, and an optimizer's launches, each at most
/// 320 × 65,536 elements, grow with it.
inline constexpr double kMaxParameters = 0x1p44;
/// A step's autograd graph is walked and freed node by node, recursively where it is a chain.
inline constexpr std::uint32_t kMaxLayers = 2'048;
/// Bytes of a step's widest tensor, 8 bytes an element: a thousand times any GPU's memory.
inline constexpr double kMaxTensorBytes = 0x1p50;
/// Products of parameters and tokens, and of attention, in one microbatch: 7e21 FLOP, days on one GPU.
inline constexpr double kMaxProducts = 0x1p70;
/// Blocks times microbatches of a step, each with ops of its own: 256 microbatches of 32 Llama blocks take 12 s and
/// 3.5 GB to plan.
inline constexpr std::uint64_t kMaxBlockRuns = 8'192;

/// Where a model's parameters are.
struct ParameterCounts {
  double attention = 0;
  double feed_forward = 0;
  double embedding = 0;  ///< tokens, positions and head
  double other = 0;      ///< of units that are given
  [[nodiscard]] double all() const { return attention + feed_forward + embedding + other; }
};

/// Weights of the matrices; biases and norms, below a thousandth of them, are left out.
[[nodiscard]] ParameterCounts parameter_counts(const ModelConfig& model);

/// Usage errors where the model, or a microbatch of `batch` × `seq`, is beyond the limits.
[[nodiscard]] Result<void> check_limits(const ModelConfig& model, std::uint64_t batch, std::uint64_t seq);
/// The same where so many microbatches make too long a step.
[[nodiscard]] Result<void> check_microbatches(const ModelConfig& model, std::uint32_t accumulate);

}  // namespace foreshard::model
