// What a kernel of a trace is, read from its name and grid: its class (which decides what it shares with a collective
// that overlaps it), and whether it is a collective itself.
//
// Who: the readers of traces and the time side of a capture. Pure, deterministic, thread-safe.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

#include "core/base/quantity.hpp"
#include "core/kernel/kernel_work.hpp"

namespace foreshard {

/// NCCL's kernels: "ncclDevKernel_AllGather_RING_LL(…)", "ncclSymkDevKernel_…", "ncclKernel_…" (docs/formats.md).
/// PyTorch's own symmetric-memory ones do not begin so.
[[nodiscard]] bool is_nccl_kernel(std::string_view name);
/// A copy between GPUs: one record of a copy-engine all-gather ("Memcpy PtoP (Device -> Device)").
[[nodiscard]] bool is_peer_copy(std::string_view name);
/// "Memcpy HtoD (…)", "Memcpy DtoH (…)", "Memcpy PtoP (…)"; any other name is device to device.
[[nodiscard]] CopyKind copy_kind(std::string_view name);
/// PyTorch's foreach kernels (aten/src/ATen/native/cuda/MultiTensorApply.cuh).
[[nodiscard]] bool is_foreach_kernel(std::string_view name);

struct KernelShape {
  std::string_view name;
  std::array<std::uint32_t, 3> grid{};
  std::uint32_t sm_count;  ///< of the GPU it ran on; 0: not known, and then no kernel is one wave
};

/// The class of a kernel of the user's program. FSDP's own casts and copy-ins (gather_copy) and memsets
/// are known from where they stand, not from here.
[[nodiscard]] KernelClass kernel_class(const KernelShape& kernel);

}  // namespace foreshard
