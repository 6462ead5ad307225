// The ring of messages of sim/network/message_ring.hpp as a SimGrid program (3.32, S4U), for bench_messages.
//
// One host a rank, one link a hop, an actor a rank that sends a message, receives one and waits for both. Configured
// so that a message is latency + size / bandwidth: network/model CM02 with latency-factor 1, bandwidth-factor 1,
// weight-S 0, TCP-gamma 0 (no window limits) and no cross-traffic, precisions of a picosecond; mailboxes have a
// permanent receiver, so that a message is on its way once it is sent. One flow a link at a time.
#pragma once

#include <cstdint>
#include <vector>

namespace foreshard::bench {

/// Seconds until the last rank has ended. `gb_per_s` of each hop, `latency` in seconds. Once a process.
[[nodiscard]] double simgrid_ring(const std::vector<double>& gb_per_s, double latency, double bytes,
                                  std::uint32_t collectives);

}  // namespace foreshard::bench
