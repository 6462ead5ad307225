#include "cli/options/topology_option.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/json_io.hpp"
#include "sim/calibrate/topology.hpp"
#include "sim/calibrate/topology_machine.hpp"
#include "traces/files/text_file.hpp"

namespace foreshard::cli {
namespace {

constexpr std::size_t kMaxDevices = 256;  // as sim/calibrate/topology.cpp
constexpr double kMaxRate = 1e6;          // GB/s; a store may be damaged

std::uint32_t whole(const nlohmann::json& json, const char* key, std::uint32_t most) {
  const auto found = json.find(key);
  if (found == json.end() || !found->is_number_unsigned()) return 0;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(found->get<std::uint64_t>(), most));
}

double rate(const nlohmann::json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_number() ? std::clamp(found->get<double>(), 0.0, kMaxRate) : 0;
}

bool flag(const nlohmann::json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_boolean() && found->get<bool>();
}

/// By GPU; empty where one of them is no list of ports.
std::vector<std::vector<std::uint32_t>> nearest_of(const nlohmann::json& json, std::uint32_t gpus, std::size_t ports) {
  std::vector<std::vector<std::uint32_t>> out;
  const auto found = json.find("nearest");
  if (found == json.end() || !found->is_array() || found->size() != gpus) return {};
  for (const nlohmann::json& list : *found) {
    if (!list.is_array() || list.empty()) return {};
    out.emplace_back();
    for (const nlohmann::json& port : list) {
      if (!port.is_number_unsigned() || port.get<std::uint64_t>() >= ports) return {};
      out.back().push_back(port.get<std::uint32_t>());
    }
  }
  return out;
}

}  // namespace

Result<Topology> read_topology_file(const std::string& path, Console& console) {
  if (path == "none") return Topology{};
  const auto text = traces::read_text(path);
  FORESHARD_TRY(text);
  auto read = sim::read_topology(*text, path);
  FORESHARD_TRY(read);
  for (const sim::InputNote& note : read->notes)
    console.note(note.count > 1 ? fmt::format("{}: {} ({} times)", path, note.text, note.count)
                                : fmt::format("{}: {}", path, note.text));
  return Topology{path, *read->node, {}, {}};
}

Json topology_json(const Topology& topology) {
  if (!topology.given()) return nullptr;
  const sim::NodeTopology& node = topology.node;
  Json adapters = Json::array();
  for (std::size_t i = 0; i < node.nic_gb_per_s.size(); ++i)
    adapters.push_back({{"gb_s", node.nic_gb_per_s[i]}, {"slot_gb_s", node.nic_slot_gb_per_s[i]}});
  return {{"file", topology.file},
          {"gpus", node.gpus},
          {"sm", node.sm},
          {"nvlinks", node.nvlinks},
          {"nvswitch", node.nvswitch},
          {"nvlink_gb_s", node.nvlink_gb_per_s},
          {"pcie_gb_s", node.pcie_gb_per_s},
          {"gdr", node.gdr},
          {"adapters", std::move(adapters)},
          {"nearest", node.nearest},
          {"differs", topology.differs},
          {"doubts", topology.doubts}};
}

std::string topology_question(const Topology& topology) {
  if (!topology.given()) return {};
  Json json = topology_json(topology);
  for (const char* key : {"file", "differs", "doubts"}) json.erase(key);
  return " topology " + json_text(json);
}

Topology stored_topology(const std::string& text) {
  const nlohmann::json json = parse_json_text(text);
  if (!json.is_object() || !json.contains("file") || !json["file"].is_string()) return {};
  Topology out;
  sim::NodeTopology& node = out.node;
  node.gpus = whole(json, "gpus", kMaxDevices);
  node.sm = whole(json, "sm", 999);
  node.nvlinks = whole(json, "nvlinks", 1000);
  node.nvswitch = flag(json, "nvswitch");
  node.nvlink_gb_per_s = rate(json, "nvlink_gb_s");
  node.pcie_gb_per_s = rate(json, "pcie_gb_s");
  node.gdr = flag(json, "gdr");
  if (const auto adapters = json.find("adapters"); adapters != json.end() && adapters->is_array())
    for (const nlohmann::json& adapter : *adapters) {
      if (!adapter.is_object() || node.nic_gb_per_s.size() == kMaxDevices) return {};
      node.nic_gb_per_s.push_back(rate(adapter, "gb_s"));
      node.nic_slot_gb_per_s.push_back(rate(adapter, "slot_gb_s"));
      if (node.nic_gb_per_s.back() <= 0) return {};
    }
  if (!node.nic_gb_per_s.empty()) node.nearest = nearest_of(json, node.gpus, node.nic_gb_per_s.size());
  if (node.gpus == 0) return {};
  out.file = json["file"].get<std::string>();
  return out;
}

Result<void> put_on(sim::MachineProfile& machine, Topology& topology) {
  if (!topology.given()) return {};
  auto put = sim::put_topology_on(machine, topology.node, topology.file);
  FORESHARD_TRY(put);
  topology.differs = std::move(put->differs);
  topology.doubts = std::move(put->doubts);
  return {};
}

void tell(const Topology& topology, Console& console) {
  for (const std::string& difference : topology.differs) console.note(difference);
}

}  // namespace foreshard::cli
