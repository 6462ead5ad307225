// What launches compute, in programs that are rewritten for other settings (adapt.hpp). Pure; each function is linear
// in the program's ops and operands, times a logarithm.
#pragma once

#include <cstdint>
#include <map>

#include "core/workload/workload.hpp"

namespace foreshard {

/// From then on the program can only be emulated, and a plan by a profile of foreshard's own run says so.
void drop_computations(Program& program);
/// The same for every program of the workload, setup too: what `run --emulate` runs.
void drop_computations(Workload& workload);

/// Whether every launch has a computation, and each operand that is a tensor of the program is allocated where its
/// launch stands and written before it is read. True of a program without computations.
[[nodiscard]] bool computations_hold(const Program& program);

/// Whether an op has a computation that writes to this tensor of its program.
[[nodiscard]] bool writes_to(const Program& program, const Op& op, TensorId tensor);

/// Gives ops that are copied, within a program or from another one, computations on other tensors.
class ComputationCopier {
 public:
  /// Copies into `to`, which may be the same as `from`.
  ComputationCopier(const std::vector<ProgramKernel>& from, std::vector<ProgramKernel>& to) : from_(from), to_(to) {}

  /// `op.computation` counts in `from` before, in `to` after. Tensors that `names` has not keep their name.
  void copy(Op& op, const std::map<TensorId, TensorId>& names);

 private:
  const std::vector<ProgramKernel>& from_;
  std::vector<ProgramKernel>& to_;
  std::map<std::uint32_t, std::uint32_t> shared_;  // computations without operands
};

}  // namespace foreshard
