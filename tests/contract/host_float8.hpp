// The reference of the float8 ops, and of their element types (OCP 8-bit Floating Point Specification, revision 1.0).
#pragma once

#include <cstdint>
#include <span>

#include "core/kernel/kernel.hpp"

namespace foreshard {

/// The number that the bits of an element of a float8 dtype stand for.
[[nodiscard]] double from_float8(std::uint8_t bits, DType dtype);
/// `value`, which has no more digits than the dtype, as its bits; beyond its largest number infinity, or NaN where the
/// dtype has none.
[[nodiscard]] std::uint8_t to_float8(double value, DType dtype);
/// `value` rounded to the digits of a float8 dtype, to nearest even.
[[nodiscard]] double to_float8_digits(double value, DType dtype);
/// The dtype's largest number: torch.finfo(dtype).max.
[[nodiscard]] constexpr double max_of_float8(DType dtype) {
  return dtype == DType::float8_e4m3fn ? 448 : 57'344;
}

/// As run_on_host, which calls it: the ops from amax on.
void run_float8_on_host(const Kernel& kernel, std::span<const Address> addresses);

}  // namespace foreshard
