// Whether the operands of a workload's kernels lie in memory that is there, so that core/step may bind them and a
// device may run them without looking. Private to traces/workload_file.
//
// Walks with the checker of workload_check.cpp, op by op. Where FSDP2 puts and frees unsharded parameters and
// gradients depends on the settings and is not looked at.
#pragma once

#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/workload/workload.hpp"

namespace foreshard::traces {

class KernelPlaces {
 public:
  explicit KernelPlaces(const Workload& workload);

  /// Setup comes first.
  void begin_setup() { begin(workload_.setup, true); }
  void begin_step(std::size_t step) { begin(workload_.steps[step], false); }

  /// Notes what an op of the program allocates and frees. What is wrong with its kernel; empty where nothing is:
  /// only launches compute, and allocations of setup; in a step all launches do or none; an operand lies inside a
  /// tensor of this program that is allocated and whose size no mesh changes, a tensor that setup leaves behind,
  /// an unsharded parameter in its compute dtype, which is only read, or a gradient that was allocated before.
  [[nodiscard]] std::string fault_of(const Op& op);
  /// What is wrong with the loss of the step that was walked; empty where nothing is.
  [[nodiscard]] std::string loss_fault() const;

 private:
  struct Block {
    Bytes bytes = 0;
    bool fixed = false;
    bool live = false;
  };
  using Blocks = std::unordered_map<TensorId, Block>;  // looked up, never iterated

  void begin(const Program& program, bool setup);
  void note(const Op& op);
  [[nodiscard]] std::string operand_fault(const TensorView& view, const Operand& operand, bool written) const;
  [[nodiscard]] std::string block_fault(const Blocks& blocks, TensorId tensor, Bytes end) const;
  [[nodiscard]] std::string parameter_fault(const TensorView& view, const Operand& operand, Bytes end,
                                            bool written) const;
  [[nodiscard]] static std::string scale_fault(const Parameter& parameter, const Operand& operand, Bytes end,
                                               bool written);

  const Workload& workload_;
  std::vector<const Parameter*> parameters_;
  const Program* program_ = nullptr;
  bool in_setup_ = false;
  Blocks setup_;
  Blocks tensors_;
  std::unordered_map<ParameterId, Bytes> gradients_;  // looked up, never iterated
  std::unordered_set<TensorId> freed_by_steps_;       // of setup's; looked up, never iterated
};

}  // namespace foreshard::traces
