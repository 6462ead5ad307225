#include "core/models/step_writer.hpp"

namespace foreshard::model {

Program StepWriter::write(Labels& labels, bool first, const TargetGpu& gpu, bool keep_kernels) const {
  TapeOptions options;
  options.first_step = first;
  options.cublas_workspace = gpu.cublas_workspace(settings_.pytorch);
  options.sm_count = gpu.sm_count;
  options.l2 = gpu.l2;
  options.flash_attention = !gpu.prefers_cudnn_attention();
  options.keep_kernels = keep_kernels;
  Tape tape(labels, host_, options);
  TensorId loss_id;
  for (const Unit& unit : model_.units)
    for (const Parameter& p : unit.parameters)
      if (p.requires_grad) tape.spend(HostCall::zero_grad);
  tape.hook(Hook::zero_grad);
  {
    Tensors inputs;
    Tensor loss;
    for (std::uint32_t i = 0; i < settings_.accumulate; ++i) microbatch(tape, i, inputs, loss);
    tape.hook(Hook::optimizer_begin);
    tape.hook(Hook::optimizer_step);
    tape.hook(Hook::optimizer_end);
    if (loss->storage && loss->dtype == DType::float32) loss_id = loss->storage->id();
    inputs.clear();  // the step function's locals, then what it returned
    loss.reset();
  }
  Program program = tape.finish();
  if (!program.kernels.empty()) program.loss = loss_id;
  return program;
}

void StepWriter::microbatch(Tape& tape, std::uint32_t index, Tensors& inputs, Tensor& loss) const {
  tape.spend(HostCall::step_begin);
  tape.hook(Hook::microbatch_begin);
  tape.set_gradients_persist(index > 0 && gradients_stay());
  inputs = family_.inputs(tape, size_);
  tape.hook(Hook::forward_begin);
  WrappedModel wrapped(tape, settings_, model_, family_.blocks(), from_setup_);
  loss = family_.loss(wrapped, inputs, size_);
  tape.hook(Hook::forward_end);
  tape.hook(Hook::backward_begin);
  tape.backward(loss);
  tape.hook(Hook::backward_end);
  tape.hook(Hook::microbatch_end);
}

/// Unreduced gradients stay in .grad where they need no cast to the reduce dtype (fsdp2 semantics 3.4).
bool StepWriter::gradients_stay() const {
  return !settings_.accumulate_with_sync &&
         (!settings_.reduce_dtype || settings_.reduce_dtype == settings_.param_dtype);
}

}  // namespace foreshard::model
