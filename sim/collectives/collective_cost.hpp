// What an isolated collective costs: the seam behind which rings, trees and fabrics are priced.
//
// Who: sim/engine asks once for each collective that is put on a stream; accuracy compares prices with published
// tables. Implemented by modelled_collectives.hpp. Pure and deterministic; safe to share between simulations on many
// threads.
#pragma once

#include <compare>
#include <optional>
#include <string>

#include "core/device/device.hpp"
#include "core/device/lowering.hpp"
#include "sim/machine/profile.hpp"
#include "sim/network/node_pattern.hpp"

namespace foreshard::sim {

struct CollectiveRequest {
  CollectiveKind kind = CollectiveKind::all_gather;
  Transport transport = Transport::nccl;
  Bytes bytes = 0;  ///< whole buffer, as CollectiveWork::bytes
  std::uint32_t ranks = 1;
  std::uint32_t ranks_per_node = 1;      ///< of these ranks; other groups of the node use its other GPUs and adapters
  Reduction reduction = Reduction::sum;  ///< benchmarks add (nccl-tests' -o sum); FSDP2 says what it does
  /// A reduce-scatter whose result is of a wider dtype than what is sent (bfloat16 into float32).
  bool upcasts = false;
  /// Of what is sent. Where ranks' values are added, without upcasts, sums are of it: float32 is added faster than two
  /// bytes an element (Links::float32_sums).
  DType dtype = DType::float32;
  Lowering lowering = Lowering::pytorch;  ///< whose program calls (TransportFacts)
  std::uint32_t node_stride = 1;          ///< as CommunicatorOptions, and …
  std::uint32_t all_nodes = 0;            ///< … the same
  /// The group's lowest rank in the run, whose links and place on the fabric are meant; none: any of the groups that
  /// lie side by side, the slowest.
  std::optional<std::uint32_t> first_rank = {};
  std::uint32_t rank_stride = 1;  ///< from one member to the next
  std::uint32_t node_ranks = 0;   ///< GPUs of a node that the run uses; 0: all of the machine's
  /// What the group's messages reach of what they would if no other group had a node, whatever their pattern: at most
  /// 1; 0: what all the groups of its mesh dimension leave it.
  double network_rate = 0;
  std::uint32_t tensors = 0;  ///< CollectiveWork::tensors: of an all-gather each is copies of its own; 0: one buffer
  bool captured = false;      ///< in a CUDA graph
  auto operator<=>(const CollectiveRequest&) const = default;
};

struct CollectivePrice {
  Nanoseconds time;  ///< alone, from the kernel's start to its end, every rank being there
  CollectiveResource uses = CollectiveResource::ring;
  double sms = 0;                           ///< SMs held while it runs (on average over `time`)
  Bytes hbm_bytes = 0;                      ///< read and written in this GPU's memory
  Bytes link_bytes = 0;                     ///< sent over NVLink by this GPU
  Bytes network_bytes = 0;                  ///< sent to other nodes on behalf of this GPU
  NodePattern pattern = NodePattern::ring;  ///< of what is sent to other nodes
  Bytes copied_bytes = 0;                   ///< moved by this GPU's copy engines
  Bytes temporary_bytes = 0;                ///< device memory beyond the caller's buffers while it runs
  Nanoseconds host;                         ///< host time of the call beyond that of a plain NCCL call
  /// Time a call of calls issued back to back, as benchmarks measure it: small ones wait for the host.
  Nanoseconds period;
  /// What ran, and why it is not what was asked for, where it is not: "NCCL ring, Simple, 24 channels"; "NCCL ring,
  /// Simple, 16 channels: a copy-engine all-gather does not cross nodes (NCCL 2.28)".
  std::string path;
  std::string why_not_asked;  ///< the end of `path`; empty where what was asked for runs
  /// Empty where the price rests on measurements of this transport and this many ranks. Else one sentence
  /// without a full stop: what it was derived from; a prediction of which it makes more than
  /// next to nothing is not `valid`, unless `within` says how far such prices are from measured ones.
  std::string caveat;
  double within = 0;  ///< of the caveat: the farthest of a held-out table (CollectiveTable::held_out), a logarithm
  bool cannot_run = false;  ///< the caveat is that nothing carries its messages
};

/// What the first use of a communicator and of a buffer costs, once; the steady state is free of it.
struct FirstUse {
  Nanoseconds communicator;  ///< host: NCCL's set-up and rendezvous of all ranks, at the first collective
  Nanoseconds registration;  ///< host: registering the buffer (and exchanging handles), at its first use
  std::string why;           ///< what is registered; empty where nothing is
};

class CollectiveCost {
 public:
  virtual ~CollectiveCost() = default;
  [[nodiscard]] virtual CollectivePrice price(const CollectiveRequest& request) const = 0;
  [[nodiscard]] virtual FirstUse first_use(const CollectiveRequest& /*request*/) const { return {}; }
};

}  // namespace foreshard::sim
