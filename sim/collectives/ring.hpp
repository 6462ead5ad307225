// NCCL's ring, by its own tuning formulas (NCCL 2.28.9 src/graph/tuning.cc, src/enqueue.cc) and what was measured of
// it: all-gather, reduce-scatter, all-reduce, broadcast and reduce, on one node and on many. docs/collectives.md has
// the formulas.
#pragma once

#include "sim/collectives/group.hpp"

namespace foreshard::sim {

enum class Protocol : std::uint8_t { ll = 0, ll128 = 1, simple = 2 };

/// The ring with one protocol. `registered`: both buffers are registered (ncclCommRegister), so that an all-gather's
/// peers write straight into them; time stays, HBM traffic falls.
[[nodiscard]] Estimate ring(const MachineProfile& machine, const Group& group, Protocol protocol, bool registered);

/// The protocol that NCCL takes: on one node by what it expects (src/graph/tuning.cc, ncclTopoGetAlgoTime), on many the
/// fastest. `machine` is as NCCL's tuner sees it: degraded NVLinks are timed (ring()) and not chosen by.
[[nodiscard]] Protocol ring_protocol(const MachineProfile& machine, const Group& group);

/// "LL128".
[[nodiscard]] std::string_view word(Protocol protocol);

/// Channels a ring on one node uses for so many bytes (src/enqueue.cc: one less while bytes are too few for all).
[[nodiscard]] double ring_channels(double channels, double bytes, double ranks, Protocol protocol);

/// GB/s through one GPU's NVLink in a ring inside its node, by Simple.
[[nodiscard]] double ring_bandwidth_inside(const MachineProfile& machine, const Group& group);

/// Microseconds that a step takes beside its bytes, by Simple: inside a node, and from node to node on one level.
struct RingHopLatency {
  double inside = 0;
  double between = 0;
};
[[nodiscard]] RingHopLatency ring_hop_latency(const MachineProfile& machine, const Group& group);

}  // namespace foreshard::sim
