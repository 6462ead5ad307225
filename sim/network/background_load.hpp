// Other traffic on a job's links, as `--background-load` says it: a strict reservation. Each link has so much less for
// the job (Fabric), at any time, however little the other traffic would have got beside it.
//
// Who: sim/predict and `foreshard collectives`. Pure.
#pragma once

#include <string>
#include <string_view>

#include "core/base/error.hpp"
#include "sim/network/slow_links.hpp"

namespace foreshard::sim {

/// "adapters=5GB/s,uplinks=30%", "all=25%". A rate is of an adapter, of what `network` says that one carries
/// (nic · efficiency). Fails (usage) with what to write instead.
[[nodiscard]] Result<BackgroundLoad> parse_background_load(std::string_view text, const Network& network);

/// "other traffic takes 20 % of each adapter and 30 % of the links between switches"; of one that is any.
[[nodiscard]] std::string words(const BackgroundLoad& load);

/// Errors (usage): a load of what the job does not use (adapters of a job on one node; links between switches, where a
/// fabric has none that could fill), and one that leaves nothing of one of `adapters`, the slow ones.
[[nodiscard]] Result<void> check_background_load(const UsedNodes& used, const BackgroundLoad& load,
                                                 std::span<const SlowAdapter> adapters);

}  // namespace foreshard::sim
