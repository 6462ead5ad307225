#include "core/step/foreshard_optimizer.hpp"

#include <algorithm>
#include <cmath>

#include "core/step/flat_view.hpp"

namespace foreshard {
namespace {

// Defaults of torch.optim.Adam.
constexpr double kBeta1 = 0.9;
constexpr double kBeta2 = 0.999;
constexpr double kEps = 1e-8;

/// In float64, as Python has it; the kernels round it.
double number(OptimizerNumber which, double learning_rate, std::int32_t step) {
  switch (which) {
    case OptimizerNumber::none:
      break;
    case OptimizerNumber::one_minus_beta1:
      return 1 - kBeta1;
    case OptimizerNumber::beta2:
      return kBeta2;
    case OptimizerNumber::one_minus_beta2:
      return 1 - kBeta2;
    case OptimizerNumber::correction2_root:
      return std::sqrt(1 - std::pow(kBeta2, step));
    case OptimizerNumber::inverse_correction2_root:  // in float32: the iterator's scalar is of the tensor's opmath type
      return 1.0F / static_cast<float>(std::sqrt(1 - std::pow(kBeta2, step)));
    case OptimizerNumber::eps:
      return kEps;
    case OptimizerNumber::minus_step_size:
      return -(learning_rate / (1 - std::pow(kBeta1, step)));
  }
  return 1;
}

void set_numbers(Kernel& c, const OptimizerPass& pass, double learning_rate, std::int32_t step) {
  c.alpha = number(pass.number, learning_rate, step);
  if (c.op == KernelOp::adam) c.scalars = {learning_rate, kBeta1, kBeta2, kEps, 0};
  if (c.op == KernelOp::sgd) c.scalars = {learning_rate, 0};
  c.integers = {step};
}

}  // namespace

Address ForeshardOptimizer::address(OptimizerTensor tensor, const ShardedGradient& gradient) const {
  const ParameterMemory& memory = parameters_[gradient.parameter.value];
  switch (tensor) {
    case OptimizerTensor::parameter:
      return memory.shard;
    case OptimizerTensor::gradient:
      return gradient.gradient;
    case OptimizerTensor::exp_avg:
      return memory.exp_avg;
    case OptimizerTensor::exp_avg_sq:
      return memory.exp_avg_sq;
    case OptimizerTensor::sqrt:
      return memory.sqrt;
    case OptimizerTensor::denominator:
      return memory.denominator;
    case OptimizerTensor::cast:
      return memory.cast;
  }
  return 0;
}

void ForeshardOptimizer::plan() {
  std::vector<OptimizerShard> shards;
  for (const ShardedGradient& gradient : gradients_) {
    shards.push_back({gradient.numel, gradient.dtype, std::nullopt, table_[gradient.parameter].param_group});
    if (parameters_[gradient.parameter.value].cast != 0) shards.back().cast = table_[gradient.parameter].plan->compute;
  }
  launches_.clear();
  until_.assign(table_.size(), 0);
  for (const OptimizerGroup& group : optimizer_groups(optimizer_, shards))
    for (const OptimizerLaunch& launch : optimizer_launches(optimizer_, group.numels, group.cast.has_value())) {
      Template t;
      t.pass = launch.pass;
      t.bytes = bytes_of(launch, group);
      t.kernel.op = launch.pass->op;
      t.kernel.casts = group.cast.has_value();
      for (const OptimizerTensor tensor : launch.pass->lists)
        for (const TensorRange& range : launch.ranges) {
          const DType dtype = tensor == OptimizerTensor::cast ? *group.cast : group.dtype;
          t.kernel.operands.push_back(flat(range.numel, dtype));
          t.kernel.operands.back().offset = range.first * itemsize(dtype);
          t.from.emplace_back(tensor, group.places[range.tensor]);
          until_[gradients_[t.from.back().second].parameter.value] = launches_.size() + 1;
        }
      launches_.push_back(std::move(t));
    }
}

std::size_t ForeshardOptimizer::begin(std::int32_t step, std::vector<ShardedGradient> gradients) {
  std::stable_sort(gradients.begin(), gradients.end(), [&](const ShardedGradient& a, const ShardedGradient& b) {
    return table_[a.parameter].place < table_[b.parameter].place;
  });
  const bool same = std::equal(
      gradients.begin(), gradients.end(), gradients_.begin(), gradients_.end(),
      [](const ShardedGradient& g, const ShardedGradient& before) { return g.parameter == before.parameter; });
  gradients_ = std::move(gradients);
  step_ = step;
  if (!same || launches_.empty()) plan();
  return launches_.size();
}

OptimizerCall ForeshardOptimizer::launch(std::size_t index) {
  Template& t = launches_[index];
  set_numbers(t.kernel, *t.pass, learning_rate_, step_);
  OptimizerCall call{t.pass, t.bytes, {&t.kernel, {}}};
  call.bound.addresses.reserve(t.from.size());
  for (const auto& [tensor, place] : t.from) call.bound.addresses.push_back(address(tensor, gradients_[place]));
  return call;
}

}  // namespace foreshard
