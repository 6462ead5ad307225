#include "core/step/step_lowering.hpp"

#include "core/step/foreshard_lowering.hpp"
#include "core/step/pytorch_lowering.hpp"

namespace foreshard {

bool issues_own_program(const Workload& workload, const Settings& settings, Lowering asked) {
  return asked == Lowering::foreshard && computes(workload) && !settings.offload;
}

std::unique_ptr<StepLowering> make_lowering(const LoweringContext& context) {
  if (issues_own_program(context.workload, context.settings, context.request.lowering))
    return std::make_unique<ForeshardLowering>(context);
  return std::make_unique<PytorchLowering>(context);
}

}  // namespace foreshard
