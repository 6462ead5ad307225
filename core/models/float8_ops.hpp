// Linear layers whose three GEMMs run in float8 with one scale a tensor (Float8::tensorwise), as ops on a tape.
//
// The recipe is torchao's (torchao/float8/config.py and float8_linear.py, August 2026): input and weight are cast to
// e4m3, the gradient of the output to e5m2, each by the largest element that the tensor has now; the forward's GEMM
// accumulates fast, those of backward do not. What each kernel does: core/kernel/kernel.hpp.
//
// Who: the fused forms of the plain families. Arguments are handles that the caller keeps; results are new handles.
#pragma once

#include "core/models/tape.hpp"

namespace foreshard::model {

/// What every extent of a float8 GEMM is a multiple of: 16 bytes, for cuBLAS (torch._scaled_mm asks for the same).
inline constexpr std::uint64_t kFloat8Multiple = 16;

/// Products of one matrix with several weights [out, in] as one autograd node, like joined_linear: `x` [rows, in],
/// bfloat16, is cast once for all of them. Hopper multiplies float8 only where both operands lie along what is summed,
/// so casts that are also read across write a transposed copy as well. Keeps x in float8, transposed, for the weights'
/// gradients; not x itself, and nothing of a weight but its largest element: backward casts it again. A weight that was
/// gathered in float8 is multiplied as it is, and only transposed in backward.
[[nodiscard]] Tensors float8_linear(Tape& tape, const Tensor& x, const Tensors& weights);

}  // namespace foreshard::model
