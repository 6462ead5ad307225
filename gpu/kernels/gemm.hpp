// GEMMs through cuBLASLt, float32 accumulation: bfloat16 and float16 on the tensor cores (partial sums of
// split products in float32 too), float32 as true float32 (no TF32: PyTorch's default), float64; float8 with one scale
// an operand.
//
// The library's first choice for a shape is asked for once and kept. Thread safety: one thread at a time.
#pragma once

#include <memory>

#include "gpu/kernels/arguments.hpp"
#include "gpu/kernels/workspace.hpp"

namespace foreshard::gpu {

class Gemm {
 public:
  /// `workspace`: bytes that a product may use on its stream. On the current device.
  [[nodiscard]] static Result<std::unique_ptr<Gemm>> create(Bytes workspace);
  virtual ~Gemm() = default;
  Gemm(const Gemm&) = delete;
  Gemm& operator=(const Gemm&) = delete;

  /// KernelOp::gemm: any transposition that a view of one unit stride can say, of each operand; bias along the last
  /// dimension of an output whose rows lie contiguous. KernelOp::scaled_mm: operands along k, extents of 16 bytes.
  [[nodiscard]] virtual Result<void> run(const Arguments& args, Workspace& workspace) = 0;

 protected:
  Gemm() = default;
};

}  // namespace foreshard::gpu
