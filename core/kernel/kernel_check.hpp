// Whether a kernel is what its op wants: for those that come from a file.
//
// Who: traces/workload_file checks what it reads; core/workload asks what an op writes. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "core/kernel/kernel.hpp"

namespace foreshard {

/// Sizes are bounded so that no sum over operands overflows.
inline constexpr Bytes kMaxViewBytes = Bytes{1} << 50;  ///< from a block's first byte to the last one of a view
inline constexpr std::size_t kMaxOperands = 4096;
inline constexpr std::size_t kMaxRank = 8;

/// Whether a user's program computes it: all but what FSDP2's sections and the optimizer do.
[[nodiscard]] bool in_programs(KernelOp op);

/// How many of its operands, counted from the first, an op of programs writes; 0 for any other.
[[nodiscard]] std::size_t outputs_of(KernelOp op);

/// Whether it reads what operand number `operand` holds before. attention_backward's scratch it does not.
[[nodiscard]] bool reads_operand(const Kernel& kernel, std::size_t operand);

/// Bytes from the block's first to behind the view's last; nothing where they are more than kMaxViewBytes, or where
/// shape and strides have not the same length. 0 for a view without elements.
[[nodiscard]] std::optional<Bytes> extent_of(const TensorView& view);

/// What is wrong with it, as in "operand 1 of gemm is int64, not floating"; empty where nothing is. Looks at the number
/// of operands, which of them are absent, their dtypes and shapes, and at the numbers that go with them: the
/// contract of kernel.hpp. Where operands lie is not looked at.
[[nodiscard]] std::string fault_of(const Kernel& kernel);

}  // namespace foreshard
