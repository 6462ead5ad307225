// How a machine's GPUs reach one another: NVLink inside a node, NCCL's own constants, the network between nodes.
//
// Who: sim/collectives prices every transport from these (docs/collectives.md has the formulas). The sections
// "links", "nccl" and "network" of a profile; plain data. Bandwidths are GB/s (1e9 B/s) of one direction, latencies
// microseconds, as in NCCL's own tables (NCCL 2.28.9, src/graph/tuning.cc).
#pragma once

#include <cstdint>
#include <vector>

namespace foreshard::sim {

/// One number for each of NCCL's protocols: LL (a flag next to every word), LL128 (a flag in every 128-byte line),
/// Simple (a semaphore a chunk).
struct PerProtocol {
  double ll = 0;
  double ll128 = 0;
  double simple = 0;
};

/// An adapter that moves bytes `slowdown` times as slowly as `Network::nic` says, out and in.
struct SlowAdapter {
  std::uint32_t node = 0;
  std::uint32_t adapter = 0;  ///< of the node, below Network::nics
  double slowdown = 1;
  bool operator==(const SlowAdapter&) const = default;
};

/// A GPU whose NVLink moves bytes `slowdown` times as slowly as Links says, out and in.
struct SlowLink {
  std::uint32_t rank = 0;
  double slowdown = 1;
  bool operator==(const SlowLink&) const = default;
};

/// What other traffic takes: capacity that is not there for the job, whatever it asks for and whenever.
struct BackgroundLoad {
  double adapters = 0;  ///< share of what a healthy adapter carries, in each direction; below 1
  double uplinks = 0;   ///< share of every link between switches; below 1
  [[nodiscard]] bool any() const { return adapters > 0 || uplinks > 0; }
  bool operator==(const BackgroundLoad&) const = default;
};

/// NVLink through NVSwitch, of one GPU.
struct Links {
  std::uint32_t gpus = 0;        ///< of a node
  double ring = 0;               ///< GB/s: the most a ring moves through one GPU's links
  double gather_channel = 0;     ///< GB/s that one NCCL channel (one SM) copies while it sends nothing
  double reduce_channel = 0;     ///< GB/s that one channel adds, of two bytes an element, while it sends nothing
  double float32_sums = 1;       ///< what a channel adds of float32 over that; a profile without it: as much
  double p2p_channel = 0;        ///< GB/s of a channel of sends and receives; a profile without it: gather_channel
  double ring_sharpness = 0;     ///< exponent that joins the ring's and the channels' limits: close to the smaller one
  double ring_drift = 0;         ///< MiB of a part in a channel from which half of that is hidden; 0: none ever is
  PerProtocol hop;               ///< us a ring's step inside the node
  PerProtocol tree_hop;          ///< us a tree's step inside the node
  bool nvls = false;             ///< NVLink SHARP works: the switch adds and multicasts
  double nvls_bandwidth = 0;     ///< GB/s through one GPU's links
  double nvls_stall = 0;         ///< us for each square root of a MB on the wire
  double symmetric_store = 0;    ///< GB/s of symmetric kernels that store to peers …
  double symmetric_load = 0;     ///< … that load from peers and add …
  double symmetric_load_l2 = 1;  ///< by what loads are faster of buffers that the peers' L2 holds
  double symmetric_switch = 0;   ///< … that let the switch multicast or add
  double push = 0;               ///< GB/s of one copy engine that writes to a peer
  double pull = 0;               ///< GB/s of one copy engine that reads from a peer
  std::vector<SlowLink> slow_links = {};  ///< of this run, not of a profile
  bool pcie = false;  ///< there is no NVLink: these are PCIe slots' (a topology's word, no profile's)
};

/// NCCL's constants that do not depend on the links, and what its calls cost.
struct NcclConstants {
  std::uint32_t channels = 0;  ///< on one NVSwitch node; one SM each
  std::uint32_t nvls_channels = 0;
  PerProtocol base;                   ///< us of a ring before its first step
  PerProtocol gather_start;           ///< us of an all-gather on one node beyond `base`, as measured …
  PerProtocol reduce_start;           ///< … of a reduce-scatter and an all-reduce
  PerProtocol tree_base;              ///< us of a tree
  double ll_most = 0;                 ///< GB/s of LL on one node
  double ll128_channel = 0;           ///< GB/s of LL128 in one channel
  double ll128_share = 0;             ///< of the bandwidth LL128 carries data
  double tree_channel = 0;            ///< GB/s of a tree in one channel, Simple
  double nvls_latency = 0;            ///< us
  double symmetric_latency = 0;       ///< us
  double symmetric_ll_latency = 0;    ///< us
  double symmetric_wait = 0;          ///< us a warp waits for a load from a peer, there and back
  double symmetric_channel = 0;       ///< GB/s of one CTA, by which NCCL chooses their number and few warps store
  double symmetric_most = 0;          ///< GB/s, as NCCL chooses their number
  double copy_engine_sync = 0;        ///< us of each of the two barriers of a copy-engine all-gather
  double barrier = 0;                 ///< us of a barrier kernel of pytorch#130583
  double copy_start = 0;              ///< us before a queued copy moves its first byte
  double copy_ramp = 0;               ///< us more for a copy of 2 MiB and above, of smaller ones their share of it
  double issue = 0;                   ///< us of host time between two collectives issued one after another
  double copy_issue = 0;              ///< us of host time for one cudaMemcpyAsync
  double communicator_init = 0;       ///< us, once a communicator
  double communicator_init_rank = 0;  ///< us for each rank of it
  double window_register = 0;         ///< us, once a window
  double window_register_gib = 0;     ///< us for each GiB of it
};

/// Section "table_correction": when a point of a measured table says how fast the host issues, not how fast the
/// collective is (sim/collectives/table_correction.cpp).
struct TableRules {
  double mechanism_misses = 0;  ///< further above the mechanism than this …
  double slowest_pace = 0;      ///< … and no slower than so many /nccl/issue
  double pace_scatter = 0;      ///< or where smaller sizes take as long, but for this factor
  double other_dtypes = 0;      ///< what a table of other dtypes counts as, in doublings of the ranks
};

/// Groups of a dragonfly, of which every two are linked: more are not built, and their links would fill memory.
inline constexpr std::uint32_t kMaxDragonflyGroups = 1024;

/// Between nodes.
struct Network {
  std::uint32_t nics = 0;         ///< of a node
  double nic = 0;                 ///< GB/s, signalling rate
  double efficiency = 0;          ///< of it that NCCL reaches
  std::uint32_t channels = 0;     ///< of a ring across nodes; one SM each
  PerProtocol hop;                ///< us a step from node to node
  double host_overhead = 0;       ///< us: the least a step inside a node takes while others cross nodes; x 3 for Simple
  double ll_two_nodes = 0;        ///< GB/s, the most LL carries between two nodes …
  double ll_more_nodes = 0;       ///< … and between more
  double lengthening_simple = 0;  ///< of NCCL's latencies, as measured …
  double lengthening_ll128 = 0;   ///< … of LL and LL128
  double overlap = 0;             ///< exponent by which latency and transfer add up: 1 sum, infinite maximum
  double ll128_rank_mib = 0;      ///< MiB a rank up to which LL128 is used across nodes
  std::uint32_t leaf_nodes = 0;   ///< nodes that share a leaf switch; 0: one level
  double oversubscription = 1;    ///< bandwidth into a leaf (of a dragonfly: a group) over that out of it
  double level_latency = 0;       ///< us more for a step that leaves its leaf, and again where it leaves its pod
  std::uint32_t pod_nodes = 0;    ///< nodes whose leaves share one more level of switches; 0: leaves are all there is
  double pod_oversubscription = 1;  ///< bandwidth into a pod over that out of it
  std::uint32_t group_nodes = 0;    ///< of a dragonfly's groups, which are linked each to each; 0: a tree of switches
  bool rail_switches = false;       ///< a leaf switch has one adapter of a node, that of one rail
  bool rails_linked = true;         ///< a message can come to another rail through the switches
  bool pxn = true;                  ///< sends to another rail leave by the adapter of that rail (NCCL_P2P_PXN_LEVEL)
  bool sharp = false;               ///< the switches add and multicast, and NCCL has them do it (CollNet)
  double sharp_efficiency = 0;      ///< of `nic` that goes through a switch that adds
  double sharp_hop = 0;             ///< us from a node up to the sum and back, of NVLS inside nodes …
  double sharp_direct_hop = 0;      ///< … and of CollNetDirect
  double sharp_direct_start = 0;    ///< us a way inside a node, of CollNetDirect …
  double sharp_direct_peer = 0;     ///< … and more for each other GPU of the node
  double sharp_direct_efficiency = 1;           ///< of `ring` that CollNetDirect's parts go at
  std::vector<SlowAdapter> slow_adapters = {};  ///< of this run, not of a profile
  BackgroundLoad background = {};               ///< likewise
  /// The adapter that each of a node's GPUs keeps to, where NCCL's topology says it (not of a profile); empty: they are
  /// dealt in order.
  std::vector<std::uint32_t> adapter_of_gpu = {};
};

}  // namespace foreshard::sim
