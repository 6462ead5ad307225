// What a running step lets the outside read: its loss and its gradients, while their memory still holds them.
//
// Who: gpu/ implements it by copies on the compute stream; tests by reading host memory. Called in host order; what it
// puts on the compute stream to read a loss runs before that memory is written again.
#pragma once

#include <cstdint>
#include <span>

#include "core/base/dtype.hpp"
#include "core/base/quantity.hpp"

namespace foreshard {

/// This rank's shard of one parameter's reduced gradient, before the optimizer's step.
struct ShardedGradient {
  ParameterId parameter;
  DType dtype = DType::float32;
  std::uint64_t first = 0;  ///< flat index, in the whole parameter, of its first element
  std::uint64_t numel = 0;
  Address gradient = 0;
  Address shard = 0;  ///< of the parameter itself
};

class ValueObserver {
 public:
  virtual ~ValueObserver() = default;
  /// Once a step, after the last microbatch's forward; one float32.
  virtual void loss(std::int32_t step, Address address) = 0;
  /// Before the optimizer: once a step, or with OptimizerOverlap::backward once a parameter group. What makes the
  /// gradients has been issued, not waited for, and not only on the compute stream.
  virtual void gradients(std::int32_t step, std::span<const ShardedGradient> gradients) = 0;
};

}  // namespace foreshard
