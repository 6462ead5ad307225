// An executor whose every kernel is one thread that waits for KernelWork::work on the GPU's clock: what the tests of
// the device need of gpu/kernels, with nothing to compute.
#pragma once

#include <memory>

#include "gpu/kernels/executor.hpp"

namespace foreshard::gpu {

[[nodiscard]] std::unique_ptr<Executor> make_spin_executor();

}  // namespace foreshard::gpu
