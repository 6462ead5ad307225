// What a kernel or a copy costs: its class, its shape, its bytes.
//
// Who: derived from a description (kernel_cost.hpp), or, of captures and files, all that is known of a kernel.
// Workloads carry it (core/workload), a Device prices it or runs a stand-in. Plain data.
#pragma once

#include <cstdint>

#include "core/base/dtype.hpp"
#include "core/base/quantity.hpp"

namespace foreshard {

/// Which mathematical family a kernel belongs to. Decides what it shares with a collective that
/// overlaps it (sim/machine) and how it is drawn. Values are stored; never renumber.
enum class KernelClass : std::uint8_t {
  gemm = 0,              ///< GEMM whose grid fills the GPU more than once
  gemm_single_wave = 1,  ///< GEMM of at most one wave of tiles
  gemm_streaming = 2,    ///< GEMM bound by reading its weights (few rows)
  attention = 3,         ///< fused attention, forward or backward
  memory_bound = 4,      ///< elementwise, reduction, norm, optimizer, gather copy-out, chunk-cat
  gather_copy = 5,       ///< FSDP's cast and copy-in kernels of an all-gather
  memset = 6,            ///< cudaMemsetAsync
};

/// How a kernel of Kind::bytes walks its tensors, which decides the share of the memory rate it reaches. Named after
/// PyTorch's kernels. `bytes` counts each tensor once: what is broadcast or read twice is not counted twice.
/// KernelMath::m is the number of elements computed (0: unknown); it bounds the kernels that are slow by element.
enum class MemoryAccess : std::uint8_t {
  contiguous = 0,  ///< vectorized_elementwise_kernel: same shapes, no gaps (add, mul, silu, gelu, casts, fills)
  strided = 1,  ///< elementwise_kernel: views, transposes, broadcasts (rotary, .contiguous()); casts to a wider dtype
  concatenate = 2,  ///< CatArrayBatchedCopy
  row = 3,  ///< one row after another: norms forward and their input gradients, softmax, mean and sum over the last dim
  column = 4,        ///< sums over the rows: gradients of norms' weights and of biases
  gather = 5,        ///< embedding forward, index_select
  scatter = 6,       ///< embedding backward with its sort, index_add
  multi_tensor = 7,  ///< foreach and fused optimizer kernels
  mixed = 8,         ///< elementwise over operands of different dtypes, cast element by element (float32 × bfloat16)
};

/// Products of torch._grouped_mm: one extent differs among the `batch` products, and KernelMath has its mean. Values
/// are stored; never renumber.
enum class RaggedExtent : std::uint8_t {
  none = 0,
  m = 1,  ///< rows of tokens times an expert's matrix, and their gradient
  k = 2,  ///< an expert's matrix' gradient, which adds its rows up
};

/// What a kernel computes, for a device that has to price it (or to run one of the same shape).
struct KernelMath {
  enum class Kind : std::uint8_t {
    bytes = 0,              ///< moves KernelWork::bytes and computes little; m: elements, see MemoryAccess
    gemm = 1,               ///< `batch` products of m × k by k × n
    attention_forward = 2,  ///< fused scaled-dot-product attention over `batch` (sequences × query heads) …
    /// … of m queries and n keys, head dimension k. Its helpers (row sums of dO·O, conversion of dQ, reduction of
    /// grouped dK and dV) are kernels of their own.
    attention_backward = 3,
  };
  Kind kind = Kind::bytes;
  DType dtype = DType::bfloat16;  ///< of the operands
  bool causal = false;            ///< attention
  std::uint32_t batch = 1;
  std::uint64_t m = 0;
  std::uint64_t n = 0;
  std::uint64_t k = 0;
  MemoryAccess access = MemoryAccess::contiguous;  ///< bytes
  /// gemm: a matrix leads with a dimension that is no multiple of 8 elements, so that of 16-bit types cuBLAS takes its
  /// slower cutlass_75_ and cutlass_80_ kernels. Other extents may be odd: 4096 × 14336 by 2369 or 4095 tokens runs as
  /// by 2368 or 4096 (one H200, PyTorch 2.11.0+cu130, cuBLAS of CUDA 13, 2026-11-23). kernel_cost.hpp has the rule.
  bool unaligned = false;
  RaggedExtent ragged = RaggedExtent::none;  ///< gemm
  bool operator==(const KernelMath&) const = default;
};

/// One kernel or memset. `work` is what it takes alone on an otherwise idle GPU; where it is 0 the device prices
/// the kernel from `math` and `bytes`, and of the three GEMM classes takes the one that the shape falls into.
struct KernelWork {
  KernelClass kernel_class = KernelClass::memory_bound;
  Nanoseconds work;
  Bytes bytes = 0;           ///< read and written in device memory
  double ring_slowdown = 0;  ///< factor while an NCCL ring runs, measured for this kernel; 0: the class's own
  LabelId label;
  KernelMath math = {};
};

enum class CopyKind : std::uint8_t { host_to_device = 0, device_to_host = 1, device_to_device = 2, peer_to_peer = 3 };

/// One cudaMemcpyAsync. `work` 0 lets the device price it from `bytes`.
struct CopyWork {
  CopyKind kind = CopyKind::host_to_device;
  Bytes bytes = 0;
  Nanoseconds work;
  LabelId label;
};

}  // namespace foreshard
