// Which of foreshard's own collectives are small enough for one kernel without barriers (gpu/collectives/
// exchange_kernel.hpp).
//
// Who: gpu/collectives runs it so, sim/collectives prices it so; both only where NVLink joins all GPUs of the group.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/quantity.hpp"
#include "core/device/collective.hpp"

namespace foreshard {

/// Of one buffer, all ranks' parts together. Measured on 2 and 4 x H200, 2026-11-27 (docs/gpu_collectives.md):
/// isolated, the kernel is faster than copy engines up to 8 MiB and than reading the peers up to 8 MiB. But a kernel
/// waits for SMs where a GEMM has all of them, and copy engines do not: all-gathers, which compute overlaps, leave it
/// early. A reduce-scatter is a kernel either way; its limit is what the inboxes cost (9 MiB).
inline constexpr Bytes kExchangeGather = kMiB;
inline constexpr Bytes kExchangeScatter = 4 * kMiB;
/// At most: 64 lines of 120 bytes of each peer are a CTA's (from 64 KiB on 4 ranks in 3 CTAs to 4 MiB in 128).
inline constexpr std::uint32_t kExchangeCtas = 128;
inline constexpr Bytes kExchangeLine = 128;
inline constexpr Bytes kExchangePayload = 120;  ///< of a line; then the call's number
inline constexpr std::uint64_t kExchangeLinesACta = 64;

/// Whether a buffer of `bytes` is small: something, and at most its kind's limit.
[[nodiscard]] constexpr bool is_small(CollectiveKind kind, Bytes bytes, Bytes gather = kExchangeGather,
                                      Bytes scatter = kExchangeScatter) {
  return bytes > 0 && bytes <= (kind == CollectiveKind::all_gather ? gather : scatter);
}
/// Whether a call is one of those: of one buffer (CollectiveWork::tensors empty), with something in it, and not
/// captured in a CUDA graph, whose replays would repeat the call's number.
[[nodiscard]] constexpr bool is_exchanged(CollectiveKind kind, Bytes bytes, std::size_t tensors, bool captured) {
  return is_small(kind, bytes) && tensors == 0 && !captured;
}

/// Lines of `slice` bytes.
[[nodiscard]] constexpr std::uint64_t exchange_lines(Bytes slice) {
  return (slice + kExchangePayload - 1) / kExchangePayload;
}
/// CTAs for slices of so many bytes: one at least.
[[nodiscard]] constexpr std::uint32_t exchange_ctas(Bytes slice, std::uint32_t most = kExchangeCtas) {
  const std::uint64_t needed = (exchange_lines(slice) + kExchangeLinesACta - 1) / kExchangeLinesACta;
  return static_cast<std::uint32_t>(needed < 1 ? 1 : needed < most ? needed : most);
}

}  // namespace foreshard
