// "/links", "/nccl" and "/network": what collectives are priced from.
#include <fmt/format.h>

#include <span>

#include "sim/machine/profile_sections.hpp"

namespace foreshard::sim {
namespace {

/// A constant and where it goes: to a double as it is, or to a count.
struct Constant {
  std::string_view key;
  std::string_view unit;
  double* value = nullptr;
  std::uint32_t* count = nullptr;
  bool zero_allowed = false;
  bool optional = false;
};

void read_constants(ProfileReader& reader, const nlohmann::json& section, const std::string& path,
                    std::span<const Constant> entries) {
  std::vector<std::string_view> keys;
  for (const Constant& entry : entries) keys.push_back(entry.key);
  reader.known_keys(section, path, keys);
  for (const Constant& entry : entries) {
    if (entry.optional && reader.member(section, path, entry.key, false) == nullptr) continue;
    const double value = reader.constant(section, path, entry.key, entry.unit, entry.zero_allowed);
    if (entry.value != nullptr) *entry.value = value;
    if (entry.count != nullptr) *entry.count = static_cast<std::uint32_t>(value);
  }
}

}  // namespace

void read_links(ProfileReader& reader, const nlohmann::json& section, MachineProfile& profile) {
  Links& out = profile.links;
  std::uint32_t nvls = 0;
  double not_used = 0;  // profiles of before ring_drift have a ring_stall
  const std::array entries{
      Constant{"gpus", "count", nullptr, &out.gpus},
      Constant{"ring", "GB/s", &out.ring},
      Constant{"gather_channel", "GB/s", &out.gather_channel},
      Constant{"reduce_channel", "GB/s", &out.reduce_channel},
      Constant{"float32_sums", "ratio", &out.float32_sums, nullptr, false, true},
      Constant{"p2p_channel", "GB/s", &out.p2p_channel, nullptr, false, true},
      Constant{"ring_sharpness", "ratio", &out.ring_sharpness},
      Constant{"ring_drift", "MiB", &out.ring_drift, nullptr, true, true},
      Constant{"ring_stall", "us", &not_used, nullptr, true, true},
      Constant{"hop_ll", "us", &out.hop.ll},
      Constant{"hop_ll128", "us", &out.hop.ll128},
      Constant{"hop_simple", "us", &out.hop.simple},
      Constant{"tree_hop_ll", "us", &out.tree_hop.ll},
      Constant{"tree_hop_ll128", "us", &out.tree_hop.ll128},
      Constant{"tree_hop_simple", "us", &out.tree_hop.simple},
      Constant{"nvls", "count", nullptr, &nvls, true},
      Constant{"nvls_bandwidth", "GB/s", &out.nvls_bandwidth},
      Constant{"nvls_stall", "us", &out.nvls_stall, nullptr, true},
      Constant{"symmetric_store", "GB/s", &out.symmetric_store},
      Constant{"symmetric_load", "GB/s", &out.symmetric_load},
      Constant{"symmetric_load_l2", "ratio", &out.symmetric_load_l2, nullptr, false, true},
      Constant{"symmetric_switch", "GB/s", &out.symmetric_switch},
      Constant{"push", "GB/s", &out.push},
      Constant{"pull", "GB/s", &out.pull},
  };
  read_constants(reader, section, "/links", entries);
  if (out.p2p_channel == 0) out.p2p_channel = out.gather_channel;
  if (nvls > 1) reader.fail("/links/nvls/value", "1 or 0 is expected here", "1: the switch adds and multicasts");
  out.nvls = nvls == 1;
}

void read_nccl(ProfileReader& reader, const nlohmann::json& section, MachineProfile& profile) {
  NcclConstants& out = profile.nccl;
  const std::array entries{
      Constant{"channels", "count", nullptr, &out.channels},
      Constant{"nvls_channels", "count", nullptr, &out.nvls_channels},
      Constant{"base_ll", "us", &out.base.ll},
      Constant{"base_ll128", "us", &out.base.ll128},
      Constant{"base_simple", "us", &out.base.simple},
      Constant{"gather_start_ll", "us", &out.gather_start.ll, nullptr, true, true},
      Constant{"gather_start_simple", "us", &out.gather_start.simple, nullptr, true, true},
      Constant{"reduce_start_simple", "us", &out.reduce_start.simple, nullptr, true, true},
      Constant{"tree_base_ll", "us", &out.tree_base.ll},
      Constant{"tree_base_ll128", "us", &out.tree_base.ll128},
      Constant{"tree_base_simple", "us", &out.tree_base.simple},
      Constant{"ll_most", "GB/s", &out.ll_most},
      Constant{"ll128_channel", "GB/s", &out.ll128_channel},
      Constant{"ll128_share", "ratio", &out.ll128_share},
      Constant{"tree_channel", "GB/s", &out.tree_channel},
      Constant{"nvls_latency", "us", &out.nvls_latency},
      Constant{"symmetric_latency", "us", &out.symmetric_latency},
      Constant{"symmetric_ll_latency", "us", &out.symmetric_ll_latency},
      Constant{"symmetric_wait", "us", &out.symmetric_wait, nullptr, true, true},
      Constant{"symmetric_channel", "GB/s", &out.symmetric_channel},
      Constant{"symmetric_most", "GB/s", &out.symmetric_most},
      Constant{"copy_engine_sync", "us", &out.copy_engine_sync},
      Constant{"barrier", "us", &out.barrier},
      Constant{"copy_start", "us", &out.copy_start, nullptr, true},
      Constant{"copy_ramp", "us", &out.copy_ramp, nullptr, true, true},
      Constant{"issue", "us", &out.issue, nullptr, true},
      Constant{"copy_issue", "us", &out.copy_issue, nullptr, true},
      Constant{"communicator_init", "us", &out.communicator_init, nullptr, true},
      Constant{"communicator_init_rank", "us", &out.communicator_init_rank, nullptr, true},
      Constant{"window_register", "us", &out.window_register, nullptr, true},
      Constant{"window_register_gib", "us", &out.window_register_gib, nullptr, true},
  };
  read_constants(reader, section, "/nccl", entries);
}

void read_table_correction(ProfileReader& reader, const nlohmann::json& section, MachineProfile& profile) {
  TableRules& out = profile.table_rules;
  const std::array entries{
      Constant{"mechanism_misses", "ratio", &out.mechanism_misses},
      Constant{"slowest_pace", "ratio", &out.slowest_pace},
      Constant{"pace_scatter", "ratio", &out.pace_scatter},
      Constant{"other_dtypes", "ratio", &out.other_dtypes, nullptr, true},
  };
  read_constants(reader, section, "/table_correction", entries);
}

void read_network(ProfileReader& reader, const nlohmann::json& section, MachineProfile& profile) {
  Network& out = profile.network;
  std::uint32_t sharp = 0, rail_switches = 0, rails_linked = 1, pxn = 1;
  const std::array entries{
      Constant{"nics", "count", nullptr, &out.nics},
      Constant{"nic", "GB/s", &out.nic},
      Constant{"efficiency", "ratio", &out.efficiency},
      Constant{"channels", "count", nullptr, &out.channels},
      Constant{"hop_ll", "us", &out.hop.ll},
      Constant{"hop_ll128", "us", &out.hop.ll128},
      Constant{"hop_simple", "us", &out.hop.simple},
      Constant{"host_overhead", "us", &out.host_overhead, nullptr, true},
      Constant{"ll_two_nodes", "GB/s", &out.ll_two_nodes},
      Constant{"ll_more_nodes", "GB/s", &out.ll_more_nodes},
      Constant{"lengthening_simple", "ratio", &out.lengthening_simple},
      Constant{"lengthening_ll128", "ratio", &out.lengthening_ll128},
      Constant{"overlap", "ratio", &out.overlap},
      Constant{"ll128_rank_mib", "MiB", &out.ll128_rank_mib},
      Constant{"leaf_nodes", "count", nullptr, &out.leaf_nodes, true},
      Constant{"oversubscription", "ratio", &out.oversubscription},
      Constant{"level_latency", "us", &out.level_latency, nullptr, true},
      Constant{"pod_nodes", "count", nullptr, &out.pod_nodes, true, true},
      Constant{"pod_oversubscription", "ratio", &out.pod_oversubscription, nullptr, false, true},
      Constant{"group_nodes", "count", nullptr, &out.group_nodes, true, true},
      Constant{"rail_switches", "count", nullptr, &rail_switches, true, true},
      Constant{"rails_linked", "count", nullptr, &rails_linked, true, true},
      Constant{"pxn", "count", nullptr, &pxn, true, true},
      Constant{"sharp", "count", nullptr, &sharp, true, true},
      Constant{"sharp_efficiency", "ratio", &out.sharp_efficiency, nullptr, false, true},
      Constant{"sharp_hop", "us", &out.sharp_hop, nullptr, true, true},
      Constant{"sharp_direct_hop", "us", &out.sharp_direct_hop, nullptr, true, true},
      Constant{"sharp_direct_start", "us", &out.sharp_direct_start, nullptr, true, true},
      Constant{"sharp_direct_peer", "us", &out.sharp_direct_peer, nullptr, true, true},
      Constant{"sharp_direct_efficiency", "ratio", &out.sharp_direct_efficiency, nullptr, false, true},
  };
  read_constants(reader, section, "/network", entries);
  if (out.efficiency > 1) reader.fail("/network/efficiency/value", "a share of the rate is at most 1");
  if (out.oversubscription < 1) reader.fail("/network/oversubscription/value", "1 or more: bandwidth in over out");
  if (out.pod_oversubscription < 1)
    reader.fail("/network/pod_oversubscription/value", "1 or more: bandwidth in over out");
  if (out.pod_nodes > 0 && (out.leaf_nodes == 0 || out.pod_nodes % out.leaf_nodes != 0))
    reader.fail("/network/pod_nodes/value", "a pod is made of whole leaves: a multiple of leaf_nodes");
  if (out.group_nodes > 0 && out.leaf_nodes > 0)
    reader.fail("/network/group_nodes/value", "a dragonfly has no leaves: leave out group_nodes or leaf_nodes");
  if (rail_switches > 1) reader.fail("/network/rail_switches/value", "1 or 0 is expected here", "1: one a rail");
  if (rails_linked > 1) reader.fail("/network/rails_linked/value", "1 or 0 is expected here", "0: rail-only");
  if (pxn > 1) reader.fail("/network/pxn/value", "1 or 0 is expected here", "0: NCCL_P2P_PXN_LEVEL=0");
  out.rail_switches = rail_switches == 1;
  out.rails_linked = rails_linked == 1;
  out.pxn = pxn == 1;
  if (!out.rails_linked && !out.pxn)
    reader.fail("/network/pxn/value", "messages between rails that are not linked go by PXN only");
  if (sharp > 1) reader.fail("/network/sharp/value", "1 or 0 is expected here", "1: switches add and multicast");
  out.sharp = sharp == 1;
  if (out.sharp_efficiency > 1) reader.fail("/network/sharp_efficiency/value", "a share of the rate is at most 1");
  if (out.sharp && out.group_nodes > 0)
    reader.fail("/network/sharp/value", "sums in the switches of a dragonfly are not modelled");
  if (out.sharp && out.sharp_efficiency == 0)
    reader.fail("/network/sharp_efficiency",
                "needed where switches add: the share of /network/nic that goes through one");
  if (out.overlap < 1) reader.fail("/network/overlap/value", "an exponent of at least 1 is expected here");
}

}  // namespace foreshard::sim
