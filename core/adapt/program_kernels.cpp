#include "core/adapt/program_kernels.hpp"

#include <algorithm>

#include "core/kernel/kernel_check.hpp"

namespace foreshard {
namespace {

bool has_kernel(const Program& program, const Op& op) {
  return op.kernel_index < program.kernels.size();
}

bool operands_hold(const ProgramKernel& what, const std::set<TensorId>& live, std::set<TensorId>& written) {
  for (std::size_t i = 0; i < what.where.size(); ++i) {
    if (what.where[i].kind != Operand::Kind::tensor) continue;
    const TensorId tensor{what.where[i].id};
    if (!live.contains(tensor)) return false;
    if (reads_operand(what.kernel, i) && !written.contains(tensor)) return false;
  }
  for (std::size_t i = 0; i < outputs_of(what.kernel.op) && i < what.where.size(); ++i)
    if (what.where[i].kind == Operand::Kind::tensor) written.insert(TensorId{what.where[i].id});
  return true;
}

}  // namespace

void drop_kernels(Program& program) {
  program.kernels.clear();
  program.loss = {};
  for (Op& op : program.ops) op.kernel_index = kNoKernel;
}

void drop_kernels(Workload& workload) {
  drop_kernels(workload.setup);
  for (Program& step : workload.steps) drop_kernels(step);
}

bool kernels_hold(const Program& program) {
  if (program.kernels.empty()) return true;
  std::set<TensorId> live;
  std::set<TensorId> written;
  for (const Op& op : program.ops) {
    if (op.kind == OpKind::alloc && op.tensor.valid()) live.insert(op.tensor);
    if (op.kind == OpKind::free && op.steps_ago == 0 && !op.from_setup && !op.before_recording) live.erase(op.tensor);
    const bool launches = op.kind == OpKind::kernel || op.kind == OpKind::copy;
    if (launches && !has_kernel(program, op)) return false;
    if (has_kernel(program, op) && !operands_hold(program.kernels[op.kernel_index], live, written)) return false;
  }
  return true;
}

bool writes_to(const Program& program, const Op& op, const std::set<TensorId>& tensors) {
  if (!has_kernel(program, op)) return false;
  const ProgramKernel& what = program.kernels[op.kernel_index];
  const auto outputs = static_cast<std::ptrdiff_t>(std::min(outputs_of(what.kernel.op), what.where.size()));
  return std::any_of(what.where.begin(), what.where.begin() + outputs, [&](const Operand& operand) {
    return operand.kind == Operand::Kind::tensor && tensors.contains(TensorId{operand.id});
  });
}

void KernelCopier::copy(Op& op, const std::map<TensorId, TensorId>& names) {
  if (op.kernel_index >= from_.size()) {
    op.kernel_index = kNoKernel;
    return;
  }
  const std::uint32_t was = op.kernel_index;
  if (const auto known = shared_.find(was); known != shared_.end()) {
    op.kernel_index = known->second;
    return;
  }
  ProgramKernel made = from_[was];
  bool renamed = false;
  for (Operand& operand : made.where) {
    if (operand.kind != Operand::Kind::tensor) continue;
    const auto name = names.find(TensorId{operand.id});
    if (name == names.end()) continue;
    operand.id = name->second.value;
    renamed = true;
  }
  if (!renamed && &from_ == &to_) return;
  op.kernel_index = static_cast<std::uint32_t>(to_.size());
  if (made.where.empty()) shared_.emplace(was, op.kernel_index);
  to_.push_back(std::move(made));
}

}  // namespace foreshard
