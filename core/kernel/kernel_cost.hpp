// What a kernel costs, from what it computes: class, bytes, shape and floating-point operations.
//
// Who: core/models gives every kernel of a generated program its cost by kernel_cost(); sim/compute prices costs, gpu
// and sim count operand_bytes() where a cost says no elements. Pure. The rule of each op is one row of kernel_cost.cpp.
#pragma once

#include <span>

#include "core/kernel/kernel.hpp"
#include "core/kernel/kernel_work.hpp"

namespace foreshard {

/// Class, bytes and math of a kernel; no time and no label. Operands as PyTorch shapes them: one that broadcasts has
/// its own shape here and counts once.
[[nodiscard]] KernelWork kernel_cost(const Kernel& kernel);

// Costs of kernels that no KernelOp stands for, and that are known by their cost alone.

/// Moves `bytes`, elements not counted: priced at the profile's rate of memory-bound kernels.
[[nodiscard]] KernelWork bytes_cost(Bytes bytes);
/// Moves `bytes` while it computes `elements` of `dtype`.
[[nodiscard]] KernelWork bytes_cost(Bytes bytes, MemoryAccess access, std::uint64_t elements, DType dtype);
/// A TensorIterator kernel that writes the first view from the others; each counts once. Contiguous where all lie in
/// memory alike, without gaps, and a cast does not widen; mixed where inputs of several elements differ in dtype;
/// strided otherwise (aten/src/ATen/native/cuda/CUDALoops.cuh, gpu_kernel_impl, PyTorch 2.11).
[[nodiscard]] KernelWork elementwise_cost(std::span<const TensorView> operands);
/// Whose product it is, by which torch.nn.Linear's autograd lays out the left operand: a weight's gradient reads it
/// transposed.
enum class GemmUse : std::uint8_t {
  forward,  ///< y[m × n] = x[m × k] w[n × k]ᵀ
  dgrad,    ///< dx[m × n] = dy[m × k] w[k × n]
  wgrad,    ///< dw[m × n] = dy[k × m]ᵀ x[k × n]
};
/// `batch` products of m × k by k × n, each matrix once and without gaps.
[[nodiscard]] KernelWork gemm_cost(std::uint64_t m, std::uint64_t n, std::uint64_t k, DType dtype,
                                   std::uint32_t batch = 1, GemmUse use = GemmUse::forward);

/// Floating-point operations of a GEMM or an attention, a causal mask's half left out; 0 for kernels of Kind::bytes.
[[nodiscard]] double flops(const KernelMath& math);

/// Every operand once, as a kernel moves it that is no kernel of PyTorch's: FSDP2's sections, optimizers, helpers that
/// the fused kernels of foreshard's own program have not.
[[nodiscard]] Bytes operand_bytes(const Kernel& kernel);

}  // namespace foreshard
