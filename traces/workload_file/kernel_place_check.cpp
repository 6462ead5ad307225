#include "traces/workload_file/kernel_place_check.hpp"

#include <fmt/format.h>

#include "core/kernel/kernel_check.hpp"
#include "core/workload/workload_names.hpp"

namespace foreshard::traces {
namespace {

bool launches(const Op& op) {
  return op.kind == OpKind::kernel || op.kind == OpKind::copy;
}

std::string beyond(Bytes end, std::string_view what, std::uint32_t id, Bytes bytes) {
  return fmt::format("reaches to byte {} of {} {}, which has {}", end, what, id, bytes);
}

}  // namespace

KernelPlaces::KernelPlaces(const Workload& workload) : workload_(workload) {
  for (const Unit& unit : workload.units)
    for (const Parameter& parameter : unit.parameters) parameters_.push_back(&parameter);
  for (std::size_t step = 0; step < workload.steps.size(); ++step)
    for (const Op& op : workload.steps[step].ops)
      if (op.kind == OpKind::free && (op.from_setup || op.steps_ago == step + 1)) freed_by_steps_.insert(op.tensor);
}

void KernelPlaces::begin(const Program& program, bool setup) {
  if (!setup && in_setup_) setup_ = std::move(tensors_);
  program_ = &program;
  in_setup_ = setup;
  tensors_.clear();
  gradients_.clear();
}

void KernelPlaces::note(const Op& op) {
  const bool fixed = op.size.kind == AllocationSize::Kind::fixed;
  if (op.kind == OpKind::alloc && op.tensor.valid()) tensors_[op.tensor] = {op.size.bytes, fixed, true};
  if (op.kind == OpKind::alloc && op.gradient_of.valid()) gradients_[op.gradient_of] = fixed ? op.size.bytes : 0;
  if (op.kind != OpKind::free || op.from_setup || op.steps_ago > 0 || op.before_recording) return;
  if (const auto found = tensors_.find(op.tensor); found != tensors_.end()) found->second.live = false;
}

std::string KernelPlaces::fault_of(const Op& op) {
  note(op);
  if (op.kernel_index == kNoKernel) {
    if (in_setup_ || program_->kernels.empty() || !launches(op)) return {};
    return "other launches of this step say what they compute, this one does not";
  }
  if (!launches(op) && !(in_setup_ && op.kind == OpKind::alloc))
    return fmt::format("{} {} computes nothing", op.kind == OpKind::alloc ? "an" : "a", name(op.kind));
  const ProgramKernel& what = program_->kernels[op.kernel_index];
  const std::size_t written = outputs_of(what.kernel.op);
  for (std::size_t i = 0; i < what.where.size(); ++i) {
    const std::string fault = operand_fault(what.kernel.operands[i], what.where[i], i < written);
    if (!fault.empty()) return fmt::format("operand {} {}", i, fault);
  }
  return {};
}

std::string KernelPlaces::operand_fault(const TensorView& view, const Operand& operand, bool written) const {
  const Bytes end = extent_of(view).value_or(kMaxViewBytes);
  if (in_setup_ && operand.kind != Operand::Kind::tensor && operand.kind != Operand::Kind::none)
    return "does not lie in a tensor of setup";
  switch (operand.kind) {
    case Operand::Kind::none:
      return {};
    case Operand::Kind::tensor:
      return block_fault(tensors_, TensorId{operand.id}, end);
    case Operand::Kind::setup:
      if (freed_by_steps_.contains(TensorId{operand.id}))
        return fmt::format("lies in tensor {} of setup, which a step frees", operand.id);
      return block_fault(setup_, TensorId{operand.id}, end);
    case Operand::Kind::parameter:
    case Operand::Kind::gradient:
    case Operand::Kind::scale:
      return parameter_fault(view, operand, end, written);
  }
  return {};
}

std::string KernelPlaces::block_fault(const Blocks& blocks, TensorId tensor, Bytes end) const {
  const std::string_view of_setup = &blocks == &setup_ ? " of setup" : "";
  const auto found = blocks.find(tensor);
  if (found == blocks.end())
    return fmt::format("lies in tensor {}{}, which is not allocated before", tensor.value, of_setup);
  const Block& block = found->second;
  if (!block.live) return fmt::format("lies in tensor {}{}, which is freed before", tensor.value, of_setup);
  if (!block.fixed) return fmt::format("lies in tensor {}{}, whose size is that of a shard", tensor.value, of_setup);
  return end > block.bytes ? beyond(end, "tensor", tensor.value, block.bytes) : std::string();
}

std::string KernelPlaces::parameter_fault(const TensorView& view, const Operand& operand, Bytes end,
                                          bool written) const {
  if (operand.id >= parameters_.size())
    return fmt::format("lies in parameter {}: there are only {}", operand.id, parameters_.size());
  const Parameter& parameter = *parameters_[operand.id];
  if (operand.kind == Operand::Kind::scale) return scale_fault(parameter, operand, end, written);
  const bool float8 = parameter.gathered_in_float8;
  const DType compute = float8 ? DType::float8_e4m3fn : workload_.settings.param_dtype.value_or(parameter.dtype);
  const auto bytes = static_cast<Bytes>(parameter.numel()) * itemsize(compute);
  if (operand.kind == Operand::Kind::parameter) {
    if (written) return fmt::format("writes to parameter {}", operand.id);
    if (view.dtype != compute)
      return fmt::format("is {}, and parameter {} {} {}", name(view.dtype), operand.id,
                         float8 ? "is gathered in" : "computes in", name(compute));
    return end > bytes ? beyond(end, "parameter", operand.id, bytes) : std::string();
  }
  const auto found = gradients_.find(ParameterId{operand.id});
  if (found == gradients_.end())
    return fmt::format("lies in the gradient of parameter {}, which is not allocated before", operand.id);
  return end > found->second ? beyond(end, "the gradient of parameter", operand.id, found->second) : std::string();
}

std::string KernelPlaces::scale_fault(const Parameter& parameter, const Operand& operand, Bytes end, bool written) {
  if (!parameter.gathered_in_float8)
    return fmt::format("is a scale of parameter {}, which is not gathered in float8", operand.id);
  if (written) return fmt::format("writes to the scale of parameter {}", operand.id);
  return end > sizeof(float) ? beyond(end, "the scale of parameter", operand.id, sizeof(float)) : std::string();
}

std::string KernelPlaces::loss_fault() const {
  if (!program_->loss.valid()) return {};
  const auto found = tensors_.find(program_->loss);
  if (found == tensors_.end()) return fmt::format("there is no tensor {} in this step", program_->loss.value);
  if (!found->second.fixed || found->second.bytes < sizeof(float))
    return fmt::format("tensor {} is too small for a loss", program_->loss.value);
  return {};
}

}  // namespace foreshard::traces
