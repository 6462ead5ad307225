// What a transport is, one row each: which memory it wants, who has it, what it cannot do.
//
// Who: transport_choice.hpp and everything else that asks something of a transport that is not its price.
#pragma once

#include <array>

#include "core/base/enum_names.hpp"
#include "core/device/collective_names.hpp"
#include "core/device/device_memory.hpp"

namespace foreshard {

struct TransportTraits {
  /// Where its buffers lie: NCCL's registered ones in the process group's pool over ncclMemAlloc
  /// (set_allocate_memory_from_process_group_for_comm), all others but plain NCCL's in symmetric memory (a custom
  /// AllGather's or ReduceScatter's allocate(); fsdp2 semantics 5.6, 7.2).
  MemoryKind memory = MemoryKind::device;
  /// PyTorch's or foreshard's own copies and kernels over peers' memory, not a call of NCCL.
  bool outside_nccl = false;
  /// Has an all-gather: a value of `--all-gather`.
  bool gathers = true;
  /// Its reductions are plain sums: FSDP2 has to be told (set_force_sum_reduction_for_comms), and averages are scaled
  /// apart from them. NCCL 2.28.9's symmetric kernels reduce by ncclSum only (src/sym_kernels.cc), and a copy-engine
  /// reduce-scatter is one of them. PyTorch's low-contention one takes "sum" and "avg"
  /// (torch/distributed/_symmetric_memory, _low_contention_reduce_scatter; fsdp2 semantics 7.3), pull_reduce a factor.
  bool sums_only = false;
};

/// By Transport.
inline constexpr std::array<TransportTraits, kEnumSize<Transport>> kTransportTraits{{
    {},                                                                         // nccl
    {.memory = MemoryKind::registered},                                         // nccl_registered
    {.memory = MemoryKind::symmetric, .sums_only = true},                       // symmetric
    {.memory = MemoryKind::symmetric, .sums_only = true},                       // copy_engine
    {.memory = MemoryKind::symmetric, .outside_nccl = true},                    // low_contention
    {.memory = MemoryKind::symmetric, .outside_nccl = true, .gathers = false},  // pull_reduce
}};
static_assert(names_end_with(Transport::pull_reduce), "one row for each transport");

[[nodiscard]] constexpr const TransportTraits& traits_of(Transport transport) {
  return kTransportTraits[static_cast<std::size_t>(transport)];
}
[[nodiscard]] constexpr MemoryKind memory_of(Transport transport) {
  return traits_of(transport).memory;
}
[[nodiscard]] constexpr bool outside_nccl(Transport transport) {
  return traits_of(transport).outside_nccl;
}
[[nodiscard]] constexpr bool sums_only(Transport transport) {
  return traits_of(transport).sums_only;
}
/// Whether its buffers are NCCL windows (ncclCommWindowRegister with NCCL_WIN_COLL_SYMMETRIC).
[[nodiscard]] constexpr bool in_nccl_windows(Transport transport) {
  return memory_of(transport) == MemoryKind::symmetric && !outside_nccl(transport);
}

}  // namespace foreshard
