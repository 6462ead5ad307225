// FSDP2's copies: one kernel for all tensors of a unit. The tensors' addresses and places travel as the kernel's
// parameters (up to 32 KiB on sm_70 and later), so nothing is put into device memory first; a unit of more tensors than
// fit takes several launches (multi_tensor.cuh).
#pragma once

#include "gpu/kernels/arguments.hpp"

namespace foreshard::gpu {

/// KernelOp::copy_in, copy_out, chunk_cat. All tensors contiguous, of float32, bfloat16 or float16.
[[nodiscard]] Result<void> run_section_copy(const Arguments& args);

}  // namespace foreshard::gpu
