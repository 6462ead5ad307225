// "/links", "/nccl" and "/network": what collectives are priced from.
#include <fmt/format.h>

#include <span>

#include "sim/machine/profile_sections.hpp"

namespace foreshard::sim {
namespace {

/// A constant and where it goes: to a double as it is, or to a count.
struct Entry {
  std::string_view key;
  std::string_view unit;
  double* value = nullptr;
  std::uint32_t* count = nullptr;
  bool zero_allowed = false;
};

void read_entries(ProfileReader& reader, const nlohmann::json& section, const std::string& path,
                  std::span<const Entry> entries) {
  std::vector<std::string_view> keys;
  for (const Entry& entry : entries) keys.push_back(entry.key);
  reader.known_keys(section, path, keys);
  for (const Entry& entry : entries) {
    const double value = reader.constant(section, path, entry.key, entry.unit, entry.zero_allowed);
    if (entry.value != nullptr) *entry.value = value;
    if (entry.count != nullptr) *entry.count = static_cast<std::uint32_t>(value);
  }
}

}  // namespace

void read_links(ProfileReader& reader, const nlohmann::json& section, MachineProfile& profile) {
  Links& out = profile.links;
  std::uint32_t nvls = 0;
  const std::array entries{
      Entry{"gpus", "count", nullptr, &out.gpus},
      Entry{"ring", "GB/s", &out.ring},
      Entry{"gather_channel", "GB/s", &out.gather_channel},
      Entry{"reduce_channel", "GB/s", &out.reduce_channel},
      Entry{"ring_sharpness", "ratio", &out.ring_sharpness},
      Entry{"ring_stall", "us", &out.ring_stall, nullptr, true},
      Entry{"hop_ll", "us", &out.hop.ll},
      Entry{"hop_ll128", "us", &out.hop.ll128},
      Entry{"hop_simple", "us", &out.hop.simple},
      Entry{"tree_hop_ll", "us", &out.tree_hop.ll},
      Entry{"tree_hop_ll128", "us", &out.tree_hop.ll128},
      Entry{"tree_hop_simple", "us", &out.tree_hop.simple},
      Entry{"nvls", "count", nullptr, &nvls, true},
      Entry{"nvls_bandwidth", "GB/s", &out.nvls_bandwidth},
      Entry{"nvls_stall", "us", &out.nvls_stall, nullptr, true},
      Entry{"symmetric_store", "GB/s", &out.symmetric_store},
      Entry{"symmetric_load", "GB/s", &out.symmetric_load},
      Entry{"symmetric_switch", "GB/s", &out.symmetric_switch},
      Entry{"push", "GB/s", &out.push},
      Entry{"pull", "GB/s", &out.pull},
  };
  read_entries(reader, section, "/links", entries);
  if (nvls > 1) reader.fail("/links/nvls/value", "1 or 0 is expected here", "1: the switch adds and multicasts");
  out.nvls = nvls == 1;
}

void read_nccl(ProfileReader& reader, const nlohmann::json& section, MachineProfile& profile) {
  NcclConstants& out = profile.nccl;
  const std::array entries{
      Entry{"channels", "count", nullptr, &out.channels},
      Entry{"nvls_channels", "count", nullptr, &out.nvls_channels},
      Entry{"base_ll", "us", &out.base.ll},
      Entry{"base_ll128", "us", &out.base.ll128},
      Entry{"base_simple", "us", &out.base.simple},
      Entry{"tree_base_ll", "us", &out.tree_base.ll},
      Entry{"tree_base_ll128", "us", &out.tree_base.ll128},
      Entry{"tree_base_simple", "us", &out.tree_base.simple},
      Entry{"ll_most", "GB/s", &out.ll_most},
      Entry{"ll128_channel", "GB/s", &out.ll128_channel},
      Entry{"ll128_share", "ratio", &out.ll128_share},
      Entry{"tree_channel", "GB/s", &out.tree_channel},
      Entry{"nvls_latency", "us", &out.nvls_latency},
      Entry{"symmetric_latency", "us", &out.symmetric_latency},
      Entry{"symmetric_ll_latency", "us", &out.symmetric_ll_latency},
      Entry{"symmetric_channel", "GB/s", &out.symmetric_channel},
      Entry{"symmetric_most", "GB/s", &out.symmetric_most},
      Entry{"copy_engine_sync", "us", &out.copy_engine_sync},
      Entry{"barrier", "us", &out.barrier},
      Entry{"copy_start", "us", &out.copy_start, nullptr, true},
      Entry{"issue", "us", &out.issue, nullptr, true},
      Entry{"copy_issue", "us", &out.copy_issue, nullptr, true},
      Entry{"communicator_init", "us", &out.communicator_init, nullptr, true},
      Entry{"communicator_init_rank", "us", &out.communicator_init_rank, nullptr, true},
      Entry{"window_register", "us", &out.window_register, nullptr, true},
      Entry{"window_register_gib", "us", &out.window_register_gib, nullptr, true},
  };
  read_entries(reader, section, "/nccl", entries);
}

void read_table_correction(ProfileReader& reader, const nlohmann::json& section, MachineProfile& profile) {
  TableRules& out = profile.table_rules;
  const std::array entries{
      Entry{"mechanism_misses", "ratio", &out.mechanism_misses},
      Entry{"slowest_pace", "ratio", &out.slowest_pace},
      Entry{"pace_scatter", "ratio", &out.pace_scatter},
      Entry{"other_dtypes", "ratio", &out.other_dtypes, nullptr, true},
  };
  read_entries(reader, section, "/table_correction", entries);
}

void read_network(ProfileReader& reader, const nlohmann::json& section, MachineProfile& profile) {
  Network& out = profile.network;
  const std::array entries{
      Entry{"nics", "count", nullptr, &out.nics},
      Entry{"nic", "GB/s", &out.nic},
      Entry{"efficiency", "ratio", &out.efficiency},
      Entry{"channels", "count", nullptr, &out.channels},
      Entry{"hop_ll", "us", &out.hop.ll},
      Entry{"hop_ll128", "us", &out.hop.ll128},
      Entry{"hop_simple", "us", &out.hop.simple},
      Entry{"host_overhead", "us", &out.host_overhead, nullptr, true},
      Entry{"ll_two_nodes", "GB/s", &out.ll_two_nodes},
      Entry{"ll_more_nodes", "GB/s", &out.ll_more_nodes},
      Entry{"lengthening_simple", "ratio", &out.lengthening_simple},
      Entry{"lengthening_ll128", "ratio", &out.lengthening_ll128},
      Entry{"overlap", "ratio", &out.overlap},
      Entry{"ll128_rank_mib", "MiB", &out.ll128_rank_mib},
      Entry{"leaf_nodes", "count", nullptr, &out.leaf_nodes, true},
      Entry{"oversubscription", "ratio", &out.oversubscription},
      Entry{"level_latency", "us", &out.level_latency, nullptr, true},
  };
  read_entries(reader, section, "/network", entries);
  if (out.efficiency > 1) reader.fail("/network/efficiency/value", "a share of the rate is at most 1");
  if (out.oversubscription < 1) reader.fail("/network/oversubscription/value", "1 or more: bandwidth in over out");
  if (out.overlap < 1) reader.fail("/network/overlap/value", "an exponent of at least 1 is expected here");
}

}  // namespace foreshard::sim
