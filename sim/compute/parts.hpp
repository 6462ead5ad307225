// The families of price_kernel(): one function each, in seconds and doubles so that no shape overflows.
// Used by sim/compute alone.
#pragma once

#include "sim/compute/price_kernel.hpp"

namespace foreshard::sim::compute {

struct Seconds {
  double time = 0;
  double tiles = 0;
  double waves = 0;
  double memory = 0;  ///< a GEMM's: its matrices once through memory
};

[[nodiscard]] double at(const Curve& curve, double place);

/// `bytes` at `share` of the HBM peak, or at the L2's rate while they fit into it (`cached`).
[[nodiscard]] double memory_time(const MachineProfile& machine, double bytes, double share, bool cached);

[[nodiscard]] Seconds gemm(const MachineProfile& machine, const KernelMath& math);
[[nodiscard]] Seconds attention(const MachineProfile& machine, const KernelMath& math);
[[nodiscard]] Seconds memory_bound(const MachineProfile& machine, const KernelWork& work);

/// Bytes that a GEMM or an attention has to move at least: each operand and the result once.
[[nodiscard]] double least_bytes(const KernelMath& math);

}  // namespace foreshard::sim::compute
