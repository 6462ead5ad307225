// What kernels and copies cost that come with bytes but without a time.
//
// Who: sim/engine/sim_device.hpp, for every op whose `work` is 0. Pure (docs/model.md, "Kernels and copies").
#pragma once

#include "sim/machine/profile.hpp"

namespace foreshard::sim {

/// Whether a kernel comes without a time, but says what it computes or moves.
[[nodiscard]] bool needs_price(const KernelWork& work);
/// `work.work` where it is given; else price_kernel()'s time (sim/compute); 0 for a kernel of no bytes that says not
/// what it computes.
[[nodiscard]] Nanoseconds price(const MachineProfile& machine, const KernelWork& work);

/// `work.work` where it is given; else copy_overhead + bytes / (pcie, peer, or hbm: read and written).
[[nodiscard]] Nanoseconds price(const MachineProfile& machine, const CopyWork& work);

}  // namespace foreshard::sim
