// The reference for every KernelOp of core/kernel/kernel.hpp: plain loops on the host.
//
// Who: the tests of the GPU's kernels, and the tests that run a whole step on host memory. Written to be obviously
// right, not fast: every value is read as a double, computed in double and rounded once to its dtype (to nearest, ties
// to even), so its own error is far below that of the float32 arithmetic that kernel.hpp promises. Where float32
// steps are part of the definition (random_normal, rotary tables) they are float32 here too.
// Breaking an op's contract ends in FORESHARD_CHECK.
#pragma once

#include <cstdint>
#include <span>

#include "core/kernel/kernel.hpp"

namespace foreshard {

/// `addresses` by operand are host pointers of the blocks, to which TensorView::offset is added; 0 where absent.
void run_on_host(const Kernel& kernel, std::span<const Address> addresses);

/// One element at `address` as a number. int64 beyond 2^53 loses bits.
[[nodiscard]] double load_element(Address address, DType dtype);
/// Rounds to the dtype: floats to nearest even (overflow to infinity; to NaN in float8_e4m3fn, which has none),
/// integers towards zero.
void store_element(Address address, DType dtype, double value);
/// The value that store_element would leave.
[[nodiscard]] double rounded_to(DType dtype, double value);

/// A tensor without gaps at the start of its block.
[[nodiscard]] TensorView contiguous_view(DType dtype, std::vector<std::uint64_t> shape);

}  // namespace foreshard
