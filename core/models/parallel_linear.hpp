// Linear layers of torch.distributed.tensor.parallel under FSDP2, on a rank's local tensors (PyTorch 2.11, style.py).
//
// Who: llama.cpp. `weight` is the local part: ColwiseParallel divides the output features, RowwiseParallel the input
// features. Layouts are the defaults: replicated outside, no sequence parallelism.
#pragma once

#include "core/models/ops.hpp"

namespace foreshard::model {

/// ColwiseParallel: x is replicated, the result is the rank's part of the last dimension. Backward sums the partial
/// gradients of x (from_local's backward redistributes Partial to Replicate).
[[nodiscard]] Tensor column_linear(Tape& tape, const Tensor& x, const Tensor& weight);
/// RowwiseParallel: x is the rank's part of the last dimension; the partial results are summed. Backward has no
/// collective: its gradient is replicated.
[[nodiscard]] Tensor row_linear(Tape& tape, const Tensor& x, const Tensor& weight);

}  // namespace foreshard::model
