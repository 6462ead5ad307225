// Scaled dot-product attention, forward and backward: bfloat16 and float16 through cuDNN's fused kernels, float32 and
// what cuDNN refuses through kernels of our own.
//
// cuDNN's graph is the one that PyTorch's cudnn_sdp path and NVIDIA's cudnn-frontend build (GEMMs, scale,
// causal mask, softmax with its log-sum-exp), which the library recognises as its flash-attention pattern; the single
// SDPA operation takes no causal mask before cuDNN 9.21. Needs cuDNN 9.6 or later, which clears dq's sums itself.
// Plans are kept by shape. Thread safety: one thread at a time.
#pragma once

#include <memory>
#include <string>

#include "gpu/kernels/arguments.hpp"
#include "gpu/kernels/workspace.hpp"

namespace foreshard::gpu {

class Attention {
 public:
  /// On the current device. Errors: cuDNN is missing or too old.
  [[nodiscard]] static Result<std::unique_ptr<Attention>> create();
  virtual ~Attention() = default;
  Attention(const Attention&) = delete;
  Attention& operator=(const Attention&) = delete;

  /// KernelOp::attention, attention_backward. A backward's scratch operands are used where one is large enough; else
  /// the stream's workspace grows.
  [[nodiscard]] virtual Result<void> run(const Arguments& args, Workspace& workspace) = 0;

  /// Why cuDNN took no part in a 16-bit attention, the last time it did not; empty: it always did.
  [[nodiscard]] virtual const std::string& refusal() const = 0;

 protected:
  Attention() = default;
};

}  // namespace foreshard::gpu
