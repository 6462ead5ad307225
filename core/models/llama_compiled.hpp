// The plain Llama's block as torch.compile runs it (PyTorch 2.11: AOTAutograd's partitioner and Inductor, default
// options): which tensors the min-cut keeps for backward, which kernels Inductor writes, in which order, and when it
// frees their buffers. Read off a recording of one shape; held against six others (docs/models.md).
//
// Who: llama.cpp. Not for other rooms.
#pragma once

#include "core/models/llama_fused.hpp"

namespace foreshard::model {

/// One autograd node on `x` and the parameters; `block`'s tables are of x's dtype, a 16-bit one.
[[nodiscard]] Tensor compiled_llama_block(Tape& tape, const LlamaBlock& block, const Tensor& x);

}  // namespace foreshard::model
