// What CPU offload (CPUOffloadPolicy(pin_memory=True)) keeps in pinned memory of the host. Pure.
#pragma once

#include "core/base/quantity.hpp"
#include "core/settings/settings.hpp"
#include "core/workload/workload.hpp"

namespace foreshard::sim {

/// Of one rank: its shards of all parameters, of those that are trained the gradients (in the parameter's dtype) and
/// the optimizer's states (FSDPParam._init_sharded_param, FSDPParamGroup.foreach_reduce, PyTorch 2.11; torch.optim).
/// What PyTorch's pinned allocator rounds up (to powers of two) and what else the process has there is left out.
[[nodiscard]] Bytes offloaded_bytes(const Workload& workload, const Settings& settings);

}  // namespace foreshard::sim
