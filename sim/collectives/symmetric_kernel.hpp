// Which of NCCL's symmetric kernels runs, and on how many CTAs: NCCL 2.28.9 src/sym_kernels.cc (queryModel,
// ncclSymkPickKernel) and src/scheduler/symmetric_sched.cc.
//
// Used by symmetric.cpp. Pure.
#pragma once

#include "sim/collectives/group.hpp"

namespace foreshard::sim {

struct SymmetricKernel {
  bool ll = false;         ///< flags sent next to the data: 9 bytes for 8, low latency
  bool by_switch = false;  ///< multicast or in-switch sum
  double ctas = 0;
};

/// With NCCL's own numbers, those of `machine`. Multicast kernels where `links.nvls`.
[[nodiscard]] SymmetricKernel choose_symmetric_kernel(const MachineProfile& machine, const Group& group);

/// GB/s of the kernel's CTAs by NCCL's model: a smooth minimum of their sum and the links' peak.
[[nodiscard]] double symmetric_bandwidth(const NcclConstants& nccl, const SymmetricKernel& kernel, const Group& group);

/// us by NCCL's model, its bandwidth times `share`.
[[nodiscard]] double symmetric_model_us(const NcclConstants& nccl, const SymmetricKernel& kernel, const Group& group,
                                        double share);

}  // namespace foreshard::sim
