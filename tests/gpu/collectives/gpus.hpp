// How many GPUs the tests and the benchmark may use.
#pragma once

namespace foreshard::gpu {

/// GPUs of this host, counted in a process of its own: a process that used CUDA must not fork ranks.
[[nodiscard]] int count_gpus();

}  // namespace foreshard::gpu
