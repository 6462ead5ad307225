// What the optimizer's launches compute on which memory.
#include <algorithm>
#include <cmath>

#include "core/step/bindings.hpp"
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

void set_numbers(Computation& c, const OptimizerPass& pass, double learning_rate, std::int32_t step) {
  c.alpha = number(pass.number, learning_rate, step);
  if (c.function == Function::adam) c.scalars = {learning_rate, kBeta1, kBeta2, kEps, 0};
  if (c.function == Function::sgd) c.scalars = {learning_rate, 0};
  c.integers = {step};
}

}  // namespace

Address Bindings::optimizer_address(OptimizerTensor tensor, const ShardedGradient& gradient) const {
  const ParameterPlace& place = parameters_[gradient.parameter.value];
  switch (tensor) {
    case OptimizerTensor::parameter:
      return place.shard;
    case OptimizerTensor::gradient:
      return gradient.gradient;
    case OptimizerTensor::exp_avg:
      return place.exp_avg;
    case OptimizerTensor::exp_avg_sq:
      return place.exp_avg_sq;
    case OptimizerTensor::sqrt:
      return place.sqrt;
    case OptimizerTensor::denominator:
      return place.denominator;
  }
  return 0;
}

void Bindings::plan_optimizer() {
  std::vector<OptimizerShard> shards;
  for (const ShardedGradient& gradient : optimized_) shards.push_back({gradient.numel, gradient.dtype});
  optimizer_.clear();
  optimizer_until_.assign(parameters_.size(), 0);
  for (const OptimizerGroup& group : optimizer_groups(settings_.optimizer, shards))
    for (const OptimizerLaunch& launch : optimizer_launches(settings_.optimizer, group.numels)) {
      OptimizerTemplate t;
      t.pass = launch.pass;
      t.bytes = elements_of(launch.ranges) * launch.pass->accesses * itemsize(group.dtype);
      t.computation.function = launch.pass->function;
      for (const OptimizerTensor tensor : launch.pass->lists)
        for (const TensorRange& range : launch.ranges) {
          t.computation.operands.push_back(flat(range.numel, group.dtype));
          t.computation.operands.back().offset = range.first * itemsize(group.dtype);
          t.from.emplace_back(tensor, group.places[range.tensor]);
          optimizer_until_[optimized_[t.from.back().second].parameter.value] = optimizer_.size() + 1;
        }
      optimizer_.push_back(std::move(t));
    }
}

std::size_t Bindings::begin_optimizer(std::int32_t step) {
  std::vector<ShardedGradient> gradients = sharded_gradients();
  const auto place_of = [&](const ShardedGradient& g) { return parameters_[g.parameter.value].place; };
  std::stable_sort(gradients.begin(), gradients.end(),
                   [&](const ShardedGradient& a, const ShardedGradient& b) { return place_of(a) < place_of(b); });
  const bool same = std::equal(
      gradients.begin(), gradients.end(), optimized_.begin(), optimized_.end(),
      [](const ShardedGradient& g, const ShardedGradient& before) { return g.parameter == before.parameter; });
  optimized_ = std::move(gradients);
  optimizer_step_ = step;
  if (!same || optimizer_.empty()) plan_optimizer();
  return optimizer_.size();
}

OptimizerCall Bindings::optimizer(std::size_t index) {
  OptimizerTemplate& t = optimizer_[index];
  set_numbers(t.computation, *t.pass, learning_rate_, optimizer_step_);
  OptimizerCall call{t.pass, t.bytes, {&t.computation, {}}};
  call.bound.addresses.reserve(t.from.size());
  for (const auto& [tensor, place] : t.from)
    call.bound.addresses.push_back(optimizer_address(tensor, optimized_[place]));
  return call;
}

}  // namespace foreshard
