// Every message of NCCL's ring over a machine's links: what sim/network/message_ring.hpp gives for the hops that a
// group's ring has, beside which ring.hpp's price is a steady pipeline's.
//
// NCCL makes one ring a rail: each carries an equal part of the buffer, cut into as many messages a step as there are
// ranks, goes through all GPUs of a node and leaves it by its rail's adapter (2.28.9, src/graph/search.cc). A hop
// inside a node has the step's latency and its share of the GPU's NVLink, which the node's other rings cross too; a hop
// between nodes the network's latency, its switches', and what the adapters and the links behind them leave it. All
// of Simple, which large buffers take.
//
// Who: `foreshard collectives --messages`. Pure.
#pragma once

#include <cstdint>
#include <optional>

#include "sim/collectives/collective_cost.hpp"

namespace foreshard::sim {

struct RingMessages {
  Nanoseconds time;         ///< until the last rank has its last message, all having begun together
  Nanoseconds first;        ///< until the first one has
  std::uint64_t count = 0;  ///< messages of all rails
  std::uint32_t hop = 0;    ///< the slowest one is that of this member of the group, to the next member …
  std::uint32_t rail = 0;   ///< … on this rail
  Nanoseconds hop_time;     ///< which one message takes
  bool between_nodes = false;
};

/// None of a kind that is no ring of all ranks (all but all-gather, reduce-scatter and all-reduce), of one rank, and of
/// more ranks than MessageRing::kMax allows.
[[nodiscard]] std::optional<RingMessages> ring_messages(const MachineProfile& machine,
                                                        const CollectiveRequest& request);

}  // namespace foreshard::sim
