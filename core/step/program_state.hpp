// Which block each tensor of a workload's program holds now: tensors are named per step, and an op may
// free one of an earlier step.
#pragma once

#include <vector>

#include "core/allocator/caching_allocator.hpp"
#include "core/workload/workload.hpp"

namespace foreshard {

class ProgramState {
 public:
  ProgramState(const Workload& workload, bool warm) : workload_(workload), warm_(warm) {}

  /// Starts setup (−1) or the next step: its tensors hold nothing yet.
  void begin(std::int32_t step) {
    step_ = step;
    held_.resize(static_cast<std::size_t>(step + 2));
    if (const Program& program = program_of(step); &program != counted_) {
      counted_ = &program;
      tensors_ = 0;
      for (const Op& op : program.ops)
        if (op.kind == OpKind::alloc) tensors_ = std::max(tensors_, op.tensor.value + 1);
    }
    held_.back().assign(tensors_, BlockHandle{});
  }

  [[nodiscard]] const Program& program_of(std::int32_t step) const {
    if (step < 0) return workload_.setup;
    const auto index = static_cast<std::size_t>(step);
    return workload_.steps[program_of_step(workload_, warm_ ? workload_.steps.size() + index : index)];
  }

  void hold(TensorId tensor, BlockHandle block) { held_.back()[tensor.value] = block; }

  /// Tensors of this step that the first ops of `program` allocated are never freed.
  void keep(const Program& program, std::size_t first) {
    for (std::size_t i = 0; i < first; ++i)
      if (program.ops[i].kind == OpKind::alloc && !program.ops[i].gradient_of.valid())
        held_.back()[program.ops[i].tensor.value] = {};
  }

  /// The block that a free op means; invalid when nothing is held there.
  [[nodiscard]] BlockHandle take(const Op& op) {
    const std::int32_t step = op.from_setup ? -1 : step_ - static_cast<std::int32_t>(op.steps_ago);
    if (step < -1) return {};
    std::vector<BlockHandle>& tensors = held_[static_cast<std::size_t>(step + 1)];
    if (op.tensor.value >= tensors.size()) return {};
    const BlockHandle block = tensors[op.tensor.value];
    tensors[op.tensor.value] = {};
    return block;
  }

 private:
  const Workload& workload_;
  bool warm_;
  std::int32_t step_ = -1;
  const Program* counted_ = nullptr;            // the program that began last: most steps have that of the one before
  std::uint32_t tensors_ = 0;                   // … and how many tensors it has
  std::vector<std::vector<BlockHandle>> held_;  // by step + 1
};

}  // namespace foreshard
