// The kernels of one `optimizer.step()`: torch.optim's Adam and SGD with their defaults (torch/optim/adam.py,
// _multi_tensor_adam, _single_tensor_adam, _fused_adam; sgd.py, _multi_tensor_sgd; PyTorch 2.11). No weight decay, no
// AMSGrad; the step counts live on the CPU but for fused Adam.
//
// Pure. core/models prices these launches, core/step binds them to memory.
#pragma once

#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "core/kernel/kernel.hpp"
#include "core/optimizer/multi_tensor.hpp"
#include "core/settings/settings.hpp"

namespace foreshard {

/// A list of tensors, one a parameter, each of this rank's shard's size.
enum class OptimizerTensor : std::uint8_t {
  parameter = 0,
  gradient = 1,
  exp_avg = 2,
  exp_avg_sq = 3,
  sqrt = 4,         ///< temporary: the root of exp_avg_sq
  denominator = 5,  ///< temporary of _single_tensor_adam
  cast = 6,         ///< AllGatherInput::optimizer: the parameter in the dtype that is gathered
};

/// The number that a pass takes besides its tensors.
enum class OptimizerNumber : std::uint8_t {
  none = 0,
  one_minus_beta1 = 1,
  beta2 = 2,
  one_minus_beta2 = 3,
  correction2_root = 4,          ///< √(1 − beta2^step)
  inverse_correction2_root = 5,  ///< one over it: a tensor divided by a number is multiplied by its inverse
                                 ///< (BinaryDivTrueKernel.cu), lists are divided
  eps = 6,
  minus_step_size = 7,  ///< −lr / (1 − beta1^step)
};

/// One op over all parameters, or over one.
struct OptimizerPass {
  std::string_view label;
  KernelOp op = KernelOp::fused;
  std::uint32_t depth = 1;     ///< lists in multi_tensor_apply's table
  std::uint32_t accesses = 0;  ///< reads and writes of each element, but for its cast's
  OptimizerNumber number = OptimizerNumber::none;
  std::vector<OptimizerTensor> lists;  ///< the op's operands, list by list
};

struct OptimizerLaunch {
  const OptimizerPass* pass = nullptr;  ///< lives for ever
  MultiTensorLaunch ranges;
};

/// This rank's shard of one parameter.
struct OptimizerShard {
  std::uint64_t numel = 0;
  DType dtype = DType::float32;
  std::optional<DType> cast = std::nullopt;  ///< the dtype that the optimizer writes it in too
  std::uint32_t param_group = 0;             ///< which of Optimizer.param_groups it is in
};

/// Parameters that one list of launches works on. `places`: theirs among the shards.
struct OptimizerGroup {
  DType dtype = DType::float32;
  std::optional<DType> cast;
  std::vector<std::size_t> places;
  std::vector<std::uint64_t> numels;
};

/// By param_group, in each by dtype (foreach_groups.hpp), and by that of the casts;
/// adam_single takes parameters as they come, each by itself. Empty shards are left out. `shards` in the order of
/// param_groups and of each one's params.
[[nodiscard]] std::vector<OptimizerGroup> optimizer_groups(Optimizer optimizer, std::span<const OptimizerShard> shards);

/// Launches of the step of parameters of one dtype, in the order of their issue. `numels`: of this rank's shards.
/// adam, adam_fused and sgd go op by op over all parameters, adam_single parameter by parameter. `casts`: the last pass
/// writes OptimizerTensor::cast; of adam_fused and sgd alone, whose only pass has the new parameter in registers.
[[nodiscard]] std::vector<OptimizerLaunch> optimizer_launches(Optimizer optimizer,
                                                              std::span<const std::uint64_t> numels,
                                                              bool casts = false);
/// What a launch of the group reads and writes.
[[nodiscard]] Bytes bytes_of(const OptimizerLaunch& launch, const OptimizerGroup& group);

}  // namespace foreshard
