// What one op takes of the GPU while it runs: the input of contention.hpp.
//
// Who: sim/engine/sim_device.cpp makes one for each op, of a kernel with its price (sim/compute) where it has no time.
// Shares are of one GPU (sim/machine/contention_spec.hpp). Plain data.
#pragma once

#include <cstdint>

#include "sim/collectives/collective_cost.hpp"
#include "sim/compute/price_kernel.hpp"
#include "sim/machine/profile.hpp"

namespace foreshard::sim {

/// A kernel's demand. Defaults are those of a kernel that shares nothing.
struct KernelDemand {
  double sms = 0;       ///< share of the SMs below which it becomes slower in proportion; 0: needs none
  double memory = 0;    ///< share of its time that stretches as others take memory bandwidth
  double pressure = 0;  ///< how much it delays the memory accesses of others; 1: a copy of large tensors
  double clock = 1;     ///< its time at full clock over its isolated time, below 1 where power holds the clock down
  double ring_slowdown = 0;  ///< measured factor beside an NCCL ring of the usual SMs; 0: none, the model says
  double held = 0;           ///< measured factor while ContentionSpec::held_sms are held; 0: none, the model says
  double streamed = 0;       ///< the same where pull-reduce's CTAs hold them; 0: none, `memory` says
  std::uint32_t tiles = 0;   ///< of a GEMM, one an SM at a time; 0: its work divides evenly
  bool persistent = false;   ///< its blocks fill SMs from start to end: a collective that needs SMs waits for that end
  /// Its tiles are its own, not typical of its class: a collective that ends before it frees SMs for the rest of them.
  bool shaped = false;
  bool operator==(const KernelDemand&) const = default;
};

/// A collective's demand while it runs at full speed.
struct CollectiveDemand {
  double sms = 0;      ///< held
  double link = 0;     ///< share of the link that collectives of its kind can use
  double traffic = 0;  ///< share of the memory bandwidth
  double latency = 0;  ///< by how much a kernel of pressure 1 lengthens it, relative
  double network = 0;  ///< share of this GPU's part of the node's adapters; 0: it stays inside the node
  double busiest = 1;  ///< its share of the busiest link on its way for each share of `network`, 1 / NetworkRate::rate
  double persistent_pressure = 0;  ///< pressure that a persistent kernel has on it at least
  bool ring = false;   ///< its CTAs are an NCCL ring's: where they lie decides what persistent kernels cost it
  bool early = false;  ///< it had its SMs before a persistent kernel ran
  /// Its CTAs are foreshard's own reduce-scatter's, which kernels lose KernelDemand::streamed to.
  bool streams = false;
  bool operator==(const CollectiveDemand&) const = default;
};

/// What a kernel of this class takes, whatever its shape: of captured kernels.
[[nodiscard]] KernelDemand kernel_demand(const MachineProfile& machine, const KernelWork& kernel);
/// The same of a kernel that was priced from what it computes: its own tiles, its own share of the memory bandwidth.
[[nodiscard]] KernelDemand kernel_demand(const MachineProfile& machine, const KernelWork& kernel,
                                         const KernelPrice& price);

[[nodiscard]] CollectiveDemand collective_demand(const MachineProfile& machine, const CollectiveRequest& request,
                                                 const CollectivePrice& price);
/// A copy of `bytes` to a peer by copy engines.
[[nodiscard]] CollectiveDemand peer_copy_demand(const MachineProfile& machine, Bytes bytes, Nanoseconds work);

}  // namespace foreshard::sim
