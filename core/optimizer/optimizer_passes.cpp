#include "core/optimizer/optimizer_passes.hpp"

#include <algorithm>
#include <utility>

#include "core/base/check.hpp"
#include "core/optimizer/foreach_groups.hpp"

namespace foreshard {
namespace {

using Lists = std::vector<OptimizerTensor>;
using Number = OptimizerNumber;
constexpr auto kParameter = OptimizerTensor::parameter;
constexpr auto kGradient = OptimizerTensor::gradient;
constexpr auto kExpAvg = OptimizerTensor::exp_avg;
constexpr auto kExpAvgSq = OptimizerTensor::exp_avg_sq;
constexpr auto kSqrt = OptimizerTensor::sqrt;
constexpr auto kDenominator = OptimizerTensor::denominator;
constexpr auto kCast = OptimizerTensor::cast;

const std::vector<OptimizerPass>& foreach_adam() {
  static const std::vector<OptimizerPass> kPasses{
      {"aten::_foreach_lerp_", KernelOp::foreach_lerp, 2, 3, Number::one_minus_beta1, {kExpAvg, kExpAvg, kGradient}},
      {"aten::_foreach_mul_", KernelOp::foreach_mul, 1, 2, Number::beta2, {kExpAvgSq, kExpAvgSq}},
      {"aten::_foreach_addcmul_",
       KernelOp::foreach_addcmul,
       3,
       3,
       Number::one_minus_beta2,
       {kExpAvgSq, kExpAvgSq, kGradient, kGradient}},
      {"aten::_foreach_sqrt", KernelOp::foreach_sqrt, 2, 2, Number::none, {kSqrt, kExpAvgSq}},
      {"aten::_foreach_div_", KernelOp::foreach_div, 1, 2, Number::correction2_root, {kSqrt, kSqrt}},
      {"aten::_foreach_add_", KernelOp::foreach_add, 1, 2, Number::eps, {kSqrt, kSqrt}},
      {"aten::_foreach_addcdiv_",
       KernelOp::foreach_addcdiv,
       3,
       4,
       Number::minus_step_size,
       {kParameter, kParameter, kExpAvg, kSqrt}}};
  return kPasses;
}

/// denom = (exp_avg_sq.sqrt() / bias_correction2_sqrt).add_(eps): the quotient is a tensor of its own.
const std::vector<OptimizerPass>& single_adam() {
  static const std::vector<OptimizerPass> kPasses{
      {"aten::lerp_", KernelOp::foreach_lerp, 2, 3, Number::one_minus_beta1, {kExpAvg, kExpAvg, kGradient}},
      {"aten::mul_", KernelOp::foreach_mul, 1, 2, Number::beta2, {kExpAvgSq, kExpAvgSq}},
      {"aten::addcmul_",
       KernelOp::foreach_addcmul,
       3,
       3,
       Number::one_minus_beta2,
       {kExpAvgSq, kExpAvgSq, kGradient, kGradient}},
      {"aten::sqrt", KernelOp::foreach_sqrt, 2, 2, Number::none, {kSqrt, kExpAvgSq}},
      {"aten::div", KernelOp::foreach_mul, 2, 2, Number::inverse_correction2_root, {kDenominator, kSqrt}},
      {"aten::add_", KernelOp::foreach_add, 1, 2, Number::eps, {kDenominator, kDenominator}},
      {"aten::addcdiv_",
       KernelOp::foreach_addcdiv,
       3,
       4,
       Number::minus_step_size,
       {kParameter, kParameter, kExpAvg, kDenominator}}};
  return kPasses;
}

/// With the cast in the same pass: a list more, as AMSGrad's is in _fused_adam_.
const std::vector<OptimizerPass>& casting_passes_of(Optimizer optimizer) {
  static const std::vector<OptimizerPass> kFused{
      {"aten::_fused_adam_", KernelOp::adam, 5, 7, Number::none, {kParameter, kExpAvg, kExpAvgSq, kCast, kGradient}}};
  static const std::vector<OptimizerPass> kSgd{
      {"aten::_foreach_add_", KernelOp::sgd, 3, 3, Number::none, {kParameter, kCast, kGradient}}};
  FORESHARD_CHECK(optimizer == Optimizer::adam_fused || optimizer == Optimizer::sgd,
                  "an optimizer of one pass writes the all-gather's input");
  return optimizer == Optimizer::sgd ? kSgd : kFused;
}

const std::vector<OptimizerPass>& passes_of(Optimizer optimizer) {
  static const std::vector<OptimizerPass> kFused{
      {"aten::_fused_adam_", KernelOp::adam, 4, 7, Number::none, {kParameter, kExpAvg, kExpAvgSq, kGradient}}};
  static const std::vector<OptimizerPass> kSgd{
      {"aten::_foreach_add_", KernelOp::sgd, 2, 3, Number::none, {kParameter, kGradient}}};
  switch (optimizer) {
    case Optimizer::adam:
      return foreach_adam();
    case Optimizer::adam_single:
      return single_adam();
    case Optimizer::adam_fused:
      return kFused;
    case Optimizer::sgd:
      return kSgd;
  }
  return foreach_adam();
}

void add(const OptimizerShard& shard, std::size_t place, OptimizerGroup& group) {
  group.places.push_back(place);
  group.numels.push_back(shard.numel);
}

void add_each(std::span<const OptimizerShard> shards, std::size_t begin, std::size_t end,
              std::vector<OptimizerGroup>& out) {
  for (std::size_t i = begin; i < end; ++i)
    if (shards[i].numel > 0)
      add(shards[i], i, out.emplace_back(OptimizerGroup{shards[i].dtype, shards[i].cast, {}, {}}));
}

/// `list`: shards of one dtype, counted from `begin`.
void add_by_cast(std::span<const OptimizerShard> shards, std::size_t begin, std::span<const std::size_t> list,
                 std::vector<OptimizerGroup>& out) {
  const auto first = static_cast<std::ptrdiff_t>(out.size());
  for (const std::size_t i : list) {
    const OptimizerShard& shard = shards[begin + i];
    if (shard.numel == 0) continue;
    auto group = std::find_if(out.begin() + first, out.end(), [&](const auto& g) { return g.cast == shard.cast; });
    if (group == out.end()) group = out.insert(group, {shard.dtype, shard.cast, {}, {}});
    add(shard, begin + i, *group);
  }
}

}  // namespace

std::vector<OptimizerGroup> optimizer_groups(Optimizer optimizer, std::span<const OptimizerShard> shards) {
  std::vector<OptimizerGroup> out;
  for (std::size_t begin = 0, end = 0; begin < shards.size(); begin = end) {
    std::vector<DType> dtypes;  // of the param_group
    for (; end < shards.size() && shards[end].param_group == shards[begin].param_group; ++end)
      dtypes.push_back(shards[end].dtype);
    if (optimizer == Optimizer::adam_single) {
      add_each(shards, begin, end, out);
      continue;
    }
    for (const std::vector<std::size_t>& list : foreach_groups(dtypes)) add_by_cast(shards, begin, list, out);
  }
  return out;
}

std::vector<OptimizerLaunch> optimizer_launches(Optimizer optimizer, std::span<const std::uint64_t> numels,
                                                bool casts) {
  std::vector<OptimizerLaunch> out;
  const std::vector<OptimizerPass>& passes = casts ? casting_passes_of(optimizer) : passes_of(optimizer);
  if (optimizer == Optimizer::adam_single) {
    for (std::size_t i = 0; i < numels.size(); ++i)
      for (const OptimizerPass& pass : passes)
        if (numels[i] > 0) out.push_back({&pass, {{i, 0, numels[i]}}});
    return out;
  }
  for (const OptimizerPass& pass : passes)
    for (MultiTensorLaunch& launch : multi_tensor_launches(numels, pass.depth))
      out.push_back({&pass, std::move(launch)});
  return out;
}

Bytes bytes_of(const OptimizerLaunch& launch, const OptimizerGroup& group) {
  const Bytes each = launch.pass->accesses * itemsize(group.dtype) + (group.cast ? itemsize(*group.cast) : 0);
  return elements_of(launch.ranges) * each;
}

}  // namespace foreshard
