// Runs a Kernel (core/kernel/kernel.hpp) on the current CUDA device: GEMMs through cuBLASLt, attention through cuDNN,
// everything else through the CUDA kernels of this folder. Also puts a stand-in where a launch's Kernel is not known.
//
// Who: gpu/cuda's Device calls it, one Executor a rank. Thread safety: one thread at a time, the one whose current
// device it was created on. Determinism: the same call on the same bits gives the same bits, except attention_backward,
// whose cuDNN kernel adds to dq in the order in which its blocks come.
//
// run() puts kernels on the stream and returns; it never synchronises. Device memory of its own (the workspaces below)
// comes from cudaMalloc, outside the caching allocator, when the executor is created or when a stream or an attention
// shape is first used, and stays: fixed_bytes() says how much. The first call of a GEMM or attention shape also asks
// the library for a plan (milliseconds); later calls find it in a cache.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>
#include <span>
#include <string>

#include "core/base/error.hpp"
#include "core/device/device.hpp"
#include "core/kernel/kernel.hpp"

namespace foreshard::gpu {

struct ExecutorOptions {
  /// cuBLASLt's workspace, one a stream that multiplies. 32 MiB is what PyTorch gives it on sm_90 (CUDAContextLight,
  /// getCUDABlasLtWorkspaceSize).
  Bytes gemm_workspace = 32 * kMiB;
  /// Memory that the stand-ins of emulate() read and write, allocated when the first is put. Those that move bytes walk
  /// over it more than once; matrices and attention operands that do not fit make it grow.
  Bytes emulation_scratch = kGiB;
};

class Executor {
 public:
  /// On the current device. Errors: no device, a library that is missing or too old, no memory for a workspace.
  [[nodiscard]] static Result<std::unique_ptr<Executor>> create(const ExecutorOptions& options = {});
  virtual ~Executor() = default;
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  /// Puts the kernel on the stream. `addresses` by operand: the block's, to which TensorView::offset is added; 0
  /// where an operand is absent. KernelOp::fused puts nothing. Errors: operands that break the op's contract, a dtype
  /// or layout that no CUDA kernel here takes, a library's refusal; all name the op and the operand.
  [[nodiscard]] virtual Result<void> run(const Kernel& kernel, std::span<const Address> addresses,
                                         cudaStream_t stream) = 0;

  /// Puts a stand-in for a launch whose Kernel is not known: a GEMM or an attention of the same shape, a kernel that
  /// moves the same bytes, or one that waits for `work` nanoseconds where it says neither; all on scratch memory of
  /// random numbers. Integers and bool8 in KernelMath::dtype are taken for float32.
  [[nodiscard]] virtual Result<void> emulate(const KernelWork& work, cudaStream_t stream) = 0;

  /// Device memory that this executor holds outside the caching allocator.
  [[nodiscard]] virtual Bytes fixed_bytes() const = 0;

  /// Why cuDNN took no part in a 16-bit attention, the last time it did not; empty: it always did. Its place is taken
  /// by kernels of our own that are right, and slow.
  [[nodiscard]] virtual const std::string& attention_refusal() const = 0;

 protected:
  Executor() = default;
};

}  // namespace foreshard::gpu
