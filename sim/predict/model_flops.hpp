// What a step of a model computes at least, whatever the program does: the numerator of MFU.
#pragma once

#include "core/base/dtype.hpp"
#include "core/workload/workload.hpp"

namespace foreshard::sim {

/// FLOPs of the matrix products and attentions (a causal mask's half left out) of one step's forward, and of its
/// backward at most twice that: what is recomputed, in checkpoints and in flash attention's backward, does not count
/// (PaLM, appendix B). Frozen parameters take less; with frozen ones a checkpoint's second forward cannot be told from
/// gradients, and the count is 0: not known. 0 of a workload whose kernels do not say what they compute.
[[nodiscard]] double model_flops(const Workload& workload);

/// The dtype of most of them.
[[nodiscard]] DType model_flops_dtype(const Workload& workload);

}  // namespace foreshard::sim
