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
  /// The slowest hop is that of this rank of the run, to `to`; none where no hop is slower than another.
  std::optional<std::uint32_t> from = {};
  std::uint32_t to = 0;
  std::uint32_t rail = 0;  ///< on which it leaves its node, where it does
  Nanoseconds hop_time;    ///< which one message takes
  bool between_nodes = false;
};

/// All-gather, reduce-scatter and all-reduce: the others are no ring of all ranks.
[[nodiscard]] bool is_ring(CollectiveKind kind);

/// Ranks of such a ring whose messages can be timed: MessageRing::kMax counts its steps too.
[[nodiscard]] std::uint32_t most_ring_ranks(CollectiveKind kind);

/// Of the group at `CollectiveRequest::first_rank`; none named: of the slowest of those side by side, `rank_stride`
/// being that of them all. None of a kind that is no ring, of one rank, and of more than most_ring_ranks().
[[nodiscard]] std::optional<RingMessages> ring_messages(const MachineProfile& machine,
                                                        const CollectiveRequest& request);

}  // namespace foreshard::sim
