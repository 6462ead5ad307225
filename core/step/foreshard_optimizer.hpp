// The launches of torch.optim's step as foreshard computes them: one kernel each, on the memory that its tensors have.
//
// Who: ForeshardLowering. A launch is cut as a plan prices it (optimizer_launches).
#pragma once

#include <span>
#include <vector>

#include "core/optimizer/optimizer_passes.hpp"
#include "core/optimizer/optimizer_state.hpp"
#include "core/step/op_emitter.hpp"
#include "core/step/parameter_memory.hpp"
#include "core/step/parameter_table.hpp"
#include "core/step/values.hpp"

namespace foreshard {

/// One launch of the optimizer's step.
struct OptimizerCall {
  const OptimizerPass* pass = nullptr;
  Bytes bytes = 0;  ///< read and written
  BoundKernel bound;
};

class ForeshardOptimizer {
 public:
  /// The references must outlive this.
  ForeshardOptimizer(Optimizer optimizer, double learning_rate, const ParameterTable& table,
                     const ParameterMemories& parameters)
      : optimizer_(optimizer), learning_rate_(learning_rate), table_(table), parameters_(parameters) {}

  /// Begins the step number `step` (from 1) of every parameter that has a gradient: how many launches it has.
  [[nodiscard]] std::size_t begin(std::int32_t step, std::vector<ShardedGradient> gradients);
  /// Launch `index` of that step. Valid until the next call.
  [[nodiscard]] OptimizerCall launch(std::size_t index);
  /// How many of the launches come no later than the last on this parameter; 0 where none is on it.
  [[nodiscard]] std::size_t until(ParameterId parameter) const { return until_[parameter.value]; }

 private:
  /// A launch without addresses: what stays the same from step to step.
  struct Template {
    const OptimizerPass* pass = nullptr;
    Bytes bytes = 0;
    Kernel kernel;
    std::vector<std::pair<OptimizerTensor, std::size_t>> from;  ///< by operand: its place among the gradients
  };

  void plan();
  [[nodiscard]] Address address(OptimizerTensor tensor, const ShardedGradient& gradient) const;

  Optimizer optimizer_;
  double learning_rate_;
  const ParameterTable& table_;
  const ParameterMemories& parameters_;
  std::vector<Template> launches_;
  std::vector<ShardedGradient> gradients_;  // what launches_ are for, with this step's addresses
  std::vector<std::size_t> until_;          // by ParameterId
  std::int32_t step_ = 0;
};

}  // namespace foreshard
