#include "core/step/pytorch_lowering.hpp"

namespace foreshard {

PytorchLowering::PytorchLowering(const LoweringContext& context)
    : streams_(context.streams),
      emitter_(context.emitter),
      player_(context.workload, context.settings, context.emitter, context.recorder),
      collectives_(context),
      optimizer_(context.workload, context.settings, context.parameters, context.mesh.shard(), context.memory) {}

void PytorchLowering::kernel(const Op& op, StreamId on) {
  emitter_.kernel(on, op.kernel, {});
}

void PytorchLowering::issue(const FsdpOp& op, StreamRole stream) {
  const std::span<const SectionRole> roles = roles_of(op);
  const StreamId on = streams_[stream];
  if (is_collective(op)) {
    player_.spend(roles.front());
    collectives_.issue(op, on);
    return;
  }
  for (const SectionRole role : roles) player_.play(role, on);
}

/// Host time of items that these settings leave out stays out; ops that no rule names run on the compute stream.
void PytorchLowering::end_section() {
  player_.play(SectionRole::other, kComputeStream);
  player_.end();
}

void PytorchLowering::optimizer_step(std::int32_t step) {
  player_.begin(Section::optimizer, {kRootUnit, 0}, Pass::forward);
  optimizer_.step(
      step == 0, [](const OptimizerEvent&, BlockHandle) {}, [](const OptimizerEvent&) {});
  end_section();
}

void PytorchLowering::zero_gradients() {
  player_.begin(Section::zero_grad, {kRootUnit, 0}, Pass::forward);
  end_section();
}

}  // namespace foreshard
