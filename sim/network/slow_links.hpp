// Whether a job has the adapters and NVLinks that are said to be slow.
//
// Who: sim/predict and `foreshard collectives`. Pure.
#pragma once

#include <cstdint>
#include <span>

#include "core/base/error.hpp"
#include "sim/machine/links.hpp"

namespace foreshard::sim {

/// The part of a machine that a job uses.
struct UsedNodes {
  const Network& network;
  std::uint32_t node_gpus = 0;  ///< GPUs that a node has
  std::uint32_t gpus = 0;       ///< … and of them the job uses
  std::uint32_t nodes = 0;
};

/// Errors (usage) name the option: an adapter of a job on one node, one that no node has or no GPU of the job keeps to,
/// a rank beyond the last.
[[nodiscard]] Result<void> check_slow_links(const UsedNodes& used, std::span<const SlowAdapter> adapters,
                                            std::span<const SlowLink> links);

/// Error (usage), of one adapter as above. `option`: what names it; `example`: what to give it.
[[nodiscard]] Result<void> check_adapter(const UsedNodes& used, std::uint32_t node, std::uint32_t adapter,
                                         const char* option, const char* example);

/// Error (usage): a rank beyond the last. `option`: what names it.
[[nodiscard]] Result<void> check_rank(std::uint32_t rank, std::uint32_t ranks, const char* option);

}  // namespace foreshard::sim
