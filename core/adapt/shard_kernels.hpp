// Kernels of the user's program that work on shards: gradient clipping's between backward and the optimizer
// (torch/nn/utils/clip_grad.py: torch._foreach_norm and _foreach_mul_ of DTensors, on their local shards; 2.11).
// Pure; linear in the program's ops.
#pragma once

#include "core/workload/workload.hpp"

namespace foreshard {

/// Whether a program of the workload has some, with times.
[[nodiscard]] bool has_shard_kernels(const Workload& workload);

/// Multiplies their times: shards of other lengths take as much longer or less. The launches stay those recorded, which
/// are of at most 320 chunks each, so that of fewer elements there would be fewer.
void scale_shard_kernels(Workload& workload, double factor);

}  // namespace foreshard
