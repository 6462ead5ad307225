// What every mechanism is given and what it answers: the group's shape, and time with resources.
//
// Used inside sim/collectives. Times are microseconds and bandwidths GB/s here, as in NCCL's own formulas;
// modelled_collectives.cpp turns them into nanoseconds.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>

#include "core/device/exchange.hpp"
#include "sim/collectives/collective_cost.hpp"
#include "sim/machine/longest_op.hpp"

namespace foreshard::sim {

struct Group {
  CollectiveKind kind = CollectiveKind::all_gather;
  double bytes = 0;  ///< whole buffer
  double ranks = 2;
  double per_node = 2;
  double nodes = 1;  ///< ceil(ranks / per_node)
  bool upcasts = false;
  double node_stride = 1;  ///< nodes from one member's to the next one's
  double all_nodes = 0;    ///< of the run: those of the groups beside this one too
  /// Its lowest rank, of this machine's; none: whichever of the groups side by side is the slowest.
  std::optional<std::uint32_t> first_rank = {};
  std::uint32_t rank_stride = 1;  ///< from one member to the next
  std::uint32_t node_ranks = 0;   ///< GPUs of a node that the run uses; 0: all of the machine's
  double network_rate = 0;        ///< CollectiveRequest::network_rate
  double tensors = 1;             ///< CollectiveRequest::tensors, or the one buffer
  double element = 4;             ///< bytes of one that is sent
  bool exchanged = false;         ///< by foreshard's own collectives: is_exchanged()
  DType dtype = DType::bfloat16;  ///< CollectiveRequest::dtype: of the sums, where it adds and does not upcast

  [[nodiscard]] bool one_node() const { return nodes <= 1; }
  [[nodiscard]] bool gathers() const { return kind == CollectiveKind::all_gather; }
  [[nodiscard]] double wire() const { return bus_bytes(kind, bytes, ranks); }
  [[nodiscard]] double shard() const { return bytes / ranks; }
  /// Bytes of one rank's result of a reduce-scatter. What upcasts is 2 bytes an element and becomes 4: FSDP2 sends
  /// bfloat16 or float16 and reduces into float32.
  [[nodiscard]] double result() const { return (upcasts ? 2 : 1) * shard(); }
};

[[nodiscard]] inline Group group_of(const CollectiveRequest& request) {
  const double ranks = std::max<double>(request.ranks, 1);
  const double per_node = std::clamp<double>(request.ranks_per_node, 1, ranks);
  return {request.kind,
          static_cast<double>(request.bytes),
          ranks,
          per_node,
          std::ceil(ranks / per_node),
          request.upcasts,
          std::max<double>(request.node_stride, 1),
          static_cast<double>(request.all_nodes),
          request.first_rank,
          std::max(request.rank_stride, 1U),
          request.node_ranks,
          request.network_rate,
          std::max(1.0, static_cast<double>(request.tensors)),
          static_cast<double>(itemsize(request.dtype)),
          (request.lowering == Lowering::foreshard || request.transport == Transport::pull_reduce) &&
              is_exchanged(request.kind, request.bytes, request.tensors, request.captured),
          request.dtype};
}

struct Estimate {
  double us = 0;
  CollectiveResource uses = CollectiveResource::ring;
  double sms = 0;
  double hbm = 0;  ///< bytes, here and below
  double link = 0;
  double network = 0;
  double copied = 0;
  double temporary = 0;
  double host_us = 0;
  std::string path;
  NodePattern pattern = NodePattern::ring;  ///< of `network`
  bool sharp = false;                       ///< the network's switches add or multicast
};

[[nodiscard]] inline Nanoseconds time_of_us(double us) {
  return op_time(us * 1e3);
}

/// Microseconds of `bytes` at `gb_s`.
[[nodiscard]] inline double transfer_us(double bytes, double gb_s) {
  return bytes / (gb_s * 1e3);
}

/// Two limits that bind in turns: close to the smaller one, a little below it where they are near.
[[nodiscard]] inline double smooth_least(double sharpness, double a, double b) {
  return std::pow(std::pow(a, -sharpness) + std::pow(b, -sharpness), -1 / sharpness);
}

/// What channels that drift apart add: the spread of a sum of random delays grows with the root of their number.
[[nodiscard]] inline double stall_us(double coefficient, double wire) {
  return coefficient * std::sqrt(wire / 1e6);
}

}  // namespace foreshard::sim
