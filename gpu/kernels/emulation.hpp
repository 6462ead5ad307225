// Stand-ins for launches whose Kernel is not known, on scratch memory.
#pragma once

#include "core/device/device.hpp"
#include "gpu/kernels/attention.hpp"
#include "gpu/kernels/gemm.hpp"

namespace foreshard::gpu {

class Emulation {
 public:
  explicit Emulation(Bytes scratch) : wanted_(scratch) {}

  /// As Executor::emulate.
  [[nodiscard]] Result<void> run(const KernelWork& work, cudaStream_t stream, Gemm& gemm, Attention& attention,
                                 Workspace& workspace);
  [[nodiscard]] Bytes allocated() const { return scratch_.allocated(); }

 private:
  /// Filled with random numbers where it is new.
  [[nodiscard]] Result<std::byte*> reserve(Bytes bytes, cudaStream_t stream);
  [[nodiscard]] Result<void> product(const KernelMath& math, cudaStream_t stream, Gemm& gemm, Workspace& workspace);
  [[nodiscard]] Result<void> attend(const KernelMath& math, cudaStream_t stream, Attention& attention,
                                    Workspace& workspace);

  Bytes wanted_;
  Workspace scratch_;
};

}  // namespace foreshard::gpu
