// `--fabric`: how a machine's nodes are wired, in place of what its profile says.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/error.hpp"
#include "sim/machine/links.hpp"

namespace foreshard::cli {

/// What `text` is, in the help's words.
inline constexpr const char* kFabricHelp =
    "how nodes are wired, instead of the profile's: flat (blocks nowhere), fat-tree:NODES[:OVER][,NODES[:OVER]] (nodes "
    "of a leaf switch, then of a pod, and bandwidth into each over that out of it), rail:NODES[:OVER] (each leaf has "
    "one adapter of so many nodes), rail-only (one switch a rail, and nothing links them), "
    "dragonfly:NODES[:OVER] (nodes of a group; every two groups are linked); "
    "+sharp behind it: switches add and multicast (NCCL_COLLNET_ENABLE=1), as in fat-tree:16+sharp; "
    "+no-pxn: sends to other rails go through the switches (NCCL_P2P_PXN_LEVEL=0), not over NVLink first";

/// Sets `network` to the fabric that `text` names, its latencies and adapters left as they are.
[[nodiscard]] Result<void> set_fabric(const std::string& text, sim::Network& network);

/// Where `fabric`, which `network` has, changes nothing of what goes between `nodes` of `gpus` each: why, one sentence.
/// Empty: it may, or none is given.
[[nodiscard]] std::string fabric_note(const std::string& fabric, const sim::Network& network, std::uint32_t gpus,
                                      std::uint32_t nodes);

/// Fails (usage) where `--fabric` says `text` of a job on `nodes`, or on so many at most.
[[nodiscard]] Result<void> check_fabric_is_used(const std::string& text, std::uint32_t nodes);

}  // namespace foreshard::cli
