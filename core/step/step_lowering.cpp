#include "core/step/step_lowering.hpp"

#include "core/step/foreshard_lowering.hpp"
#include "core/step/pytorch_lowering.hpp"

namespace foreshard {

std::unique_ptr<StepLowering> make_lowering(const LoweringContext& context) {
  const bool operands_known = computes(context.workload) && !context.settings.offload;
  if (context.request.lowering == Lowering::foreshard && operands_known)
    return std::make_unique<ForeshardLowering>(context);
  return std::make_unique<PytorchLowering>(context);
}

}  // namespace foreshard
