// What a step of a model computes at least, whatever the program does: the numerator of MFU.
#pragma once

#include "core/workload/workload.hpp"
#include "sim/machine/profile.hpp"

namespace foreshard::sim {

/// FLOPs of the matrix products and attentions (a causal mask's half left out) of one step's forward, and of its
/// backward at most twice that: what is recomputed, in checkpoints and in flash attention's backward, does not count
/// (PaLM, appendix B). Frozen parameters take less; with frozen ones a checkpoint's second forward cannot be told from
/// gradients, and the count is 0: not known. 0 of a workload whose kernels do not say what they compute.
[[nodiscard]] double model_flops(const Workload& workload);

/// model_flops over what the GPU's data sheet allows in `step_ms`, dense, in the dtype of most of them; 0: not known.
[[nodiscard]] double model_flops_utilization(const Workload& workload, const GpuPeaks& peaks, double step_ms);

}  // namespace foreshard::sim
