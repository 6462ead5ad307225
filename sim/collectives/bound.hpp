// What holds a collective: which of its parts would make it faster if it were twice as fast.
//
// Asked of the formulas, without the measured tables, which say how long and not why. The slow adapters and NVLinks of
// a run, and a fabric that blocks, count as soon as it would be a twentieth faster without them; of NVLink, adapters
// and latencies the one whose doubling saves most.
//
// Who: `foreshard collectives`. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "sim/collectives/collective_cost.hpp"

namespace foreshard::sim {

enum class Bound : std::uint8_t {
  host = 0,          ///< issues calls back to back more slowly than the GPU runs them
  latency = 1,       ///< of the protocol's steps
  nvlink = 2,        ///< and the channels that copy over it
  adapters = 3,      ///< between nodes
  slow_adapter = 4,  ///< Network::slow_adapters
  slow_link = 5,     ///< Links::slow_links
  fabric = 6,        ///< oversubscribed switches
};
inline constexpr std::size_t kBounds = static_cast<std::size_t>(Bound::fabric) + 1;

/// "the adapters".
[[nodiscard]] std::string_view words(Bound bound);
/// "adapters", as JSON has it.
[[nodiscard]] std::string_view name(Bound bound);

/// Of `price`, which is `machine`'s of `request`.
[[nodiscard]] Bound bound_of(const MachineProfile& machine, const CollectiveRequest& request,
                             const CollectivePrice& price);

}  // namespace foreshard::sim
