// Explicit prefetching, read off the ranges FSDP::forward_prefetch for U and FSDP::backward_prefetch for U
// (FSDPParamGroup._prefetch_unshard, PyTorch 2.11): explicit targets are prefetched after the unit's own pre-forward or
// pre-backward range, the default rule's target inside the latter.
//
// Who: infer.cpp. Pure, deterministic, thread-safe.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/settings/settings.hpp"
#include "traces/capture/hooks.hpp"

namespace foreshard::traces {

struct PrefetchOrder {
  std::optional<std::uint32_t> forward;   ///< as Settings::forward_prefetch
  std::optional<std::uint32_t> backward;  ///< as Settings::backward_prefetch
  PrefetchLists lists;                    ///< where no depth says the same
};

/// `units`: names, the root first, in fully_shard's order.
[[nodiscard]] PrefetchOrder prefetch_order(std::span<const Range> ranges, const std::vector<std::string>& units);

}  // namespace foreshard::traces
