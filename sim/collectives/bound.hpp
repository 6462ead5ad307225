// What holds a collective, and what comes next: which of its parts would make it faster.
//
// Asked of the formulas, without the measured tables, which say how long and not why. The slow adapters and NVLinks of
// a run, what other traffic takes, and a fabric that blocks, hold it as soon as it would be a twentieth faster without
// them; of NVLink, adapters and latencies the one that makes most of a little more speed. Doubling is another question:
// twice the adapters may only meet the next limit, which `next` names. Every answer is of the algorithm and protocol
// that NCCL takes now: a faster part may make it take another one, whose time says nothing of the part.
//
// Who: `foreshard collectives`. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "sim/collectives/collective_cost.hpp"

namespace foreshard::sim {

enum class Bound : std::uint8_t {
  latency = 0,       ///< of the protocol's steps
  nvlink = 1,        ///< and the channels that copy over it
  adapters = 2,      ///< between nodes
  slow_adapter = 3,  ///< Network::slow_adapters
  slow_link = 4,     ///< Links::slow_links
  fabric = 5,        ///< oversubscribed switches
  pcie = 6,          ///< in the place of nvlink, where GPUs have none (Links::pcie)
  background = 7,    ///< Network::background
};
inline constexpr std::size_t kBounds = static_cast<std::size_t>(Bound::background) + 1;

/// "the adapters".
[[nodiscard]] std::string_view words(Bound bound);
/// "adapters", as JSON has it.
[[nodiscard]] std::string_view name(Bound bound);

struct Holding {
  Bound now = Bound::latency;
  double saves = 0;           ///< share of the time, were it twice as fast, or nothing slow in its place
  std::optional<Bound> next;  ///< what holds it then; none: the same still
};

/// Of `request` on `machine`.
[[nodiscard]] Holding holding(const MachineProfile& machine, const CollectiveRequest& request);

/// "the adapters; twice as fast saves 13 %, then NVLink".
[[nodiscard]] std::string relief_words(const Holding& holding);

}  // namespace foreshard::sim
