// The isolated time of a kernel on an idle GPU, from what it computes; and what it holds of the GPU meanwhile.
//
// Who: sim/compute/prices.cpp for every kernel that comes without a time; sim/engine's contention for the resources.
// Pure and deterministic; thread-safe. The model and its errors: docs/compute.md. Times are 64-bit nanoseconds and stay
// below 2·10⁹ s whatever the shape.
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/machine/profile.hpp"

namespace foreshard::sim {

struct KernelPrice {
  Nanoseconds time;
  KernelClass kernel_class = KernelClass::memory_bound;
  std::uint64_t tiles = 0;  ///< blocks of equal work; 0: not counted (memory-bound)
  std::uint64_t waves = 0;  ///< rounds of tiles over the SMs
  std::uint32_t sms = 0;    ///< SMs at work
  double memory_share = 0;  ///< of the HBM peak, its bytes over its time
  double held = 0;      ///< measured: time while ContentionSpec::held_sms are held, over isolated time; 0: not measured
  double streamed = 0;  ///< the same while these SMs' CTAs stream memory
};

/// Prices `work.math` and `work.bytes`; `work.work` is not looked at. The class is the kernel's own, except that a
/// GEMM gets the one of the three GEMM classes that its shape falls into: streaming where moving its matrices once
/// takes more than half of its time, single-wave where its tiles fit the SMs at once.
/// A kernel of bytes without elements, or one of a class that "/rates" names (FSDP's cast and copy-in), costs
/// kernel_overhead + bytes / rate, as everything of bytes does where the profile has no section "compute".
///
/// `label`: the text of `work.label`. What the profile says was measured of kernels of that name replaces the model's
/// time, and measured shapes of GEMMs and attentions correct it (measured.hpp); tiles and waves stay the model's.
[[nodiscard]] KernelPrice price_kernel(const MachineProfile& machine, const KernelWork& work,
                                       std::string_view label = {});

/// FLOP a second of large GEMMs of the operands' dtype, or of fused attention: no kernel of the shape's kind is much
/// faster.
[[nodiscard]] double large_rate(const MachineProfile& machine, const KernelMath& math);

}  // namespace foreshard::sim
