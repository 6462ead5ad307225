// Program::kernels of programs that are rewritten for other settings (adapt.hpp). Pure; each function is linear
// in the program's ops and operands, times a logarithm.
#pragma once

#include <cstdint>
#include <map>
#include <set>

#include "core/workload/workload.hpp"

namespace foreshard {

/// From then on the program can only be emulated, and a plan by a profile of foreshard's own run says so.
void drop_kernels(Program& program);
/// The same for every program of the workload, setup too: what `run --emulate` runs.
void drop_kernels(Workload& workload);

/// Whether every launch has its Kernel, and each operand that is a tensor of the program is allocated where its launch
/// stands and written before it is read. True of a program whose Kernels are not known.
[[nodiscard]] bool kernels_hold(const Program& program);

/// Whether an op's Kernel writes to one of these tensors of its program.
[[nodiscard]] bool writes_to(const Program& program, const Op& op, const std::set<TensorId>& tensors);

/// Gives ops that are copied, within a program or from another one, their Kernels on other tensors.
class KernelCopier {
 public:
  /// Copies into `to`, which may be the same as `from`.
  KernelCopier(const std::vector<ProgramKernel>& from, std::vector<ProgramKernel>& to) : from_(from), to_(to) {}

  /// `op.kernel_index` counts in `from` before, in `to` after. Tensors that `names` has not keep their name.
  void copy(Op& op, const std::map<TensorId, TensorId>& names);

 private:
  const std::vector<ProgramKernel>& from_;
  std::vector<ProgramKernel>& to_;
  std::map<std::uint32_t, std::uint32_t> shared_;  // kernels without operands
};

}  // namespace foreshard
