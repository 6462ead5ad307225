#include "sim/calibrate/topology_adapters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <set>

namespace foreshard::sim {
namespace {

using Ports = std::vector<std::uint32_t>;

double carries(const NodeTopology& node, std::uint32_t port) {
  const double slot = node.nic_slot_gb_per_s[port] * kSlotOverWeight;
  return slot > 0 ? std::min(node.nic_gb_per_s[port], slot) : node.nic_gb_per_s[port];
}

/// As NCCL compares ways.
double weight(const NodeTopology& node, std::uint32_t port) {
  const double slot = node.nic_slot_gb_per_s[port];
  return slot > 0 ? std::min(node.nic_gb_per_s[port], slot) : node.nic_gb_per_s[port];
}

std::uint32_t mirrored(std::uint32_t value, std::uint32_t power_of_two) {
  std::uint32_t out = 0;
  for (std::uint32_t bit = 1, mirror = power_of_two / 2; bit < power_of_two; bit *= 2, mirror /= 2)
    if ((value & bit) != 0) out |= mirror;
  return out;
}

/// By GPU.
std::vector<Ports> dealt(const NodeTopology& node) {
  std::map<Ports, std::uint32_t> local_gpus;
  for (const Ports& nearest : node.nearest) ++local_gpus[nearest];
  std::vector<Ports> out;
  for (std::uint32_t gpu = 0; gpu < node.nearest.size(); ++gpu) {
    const Ports& nearest = node.nearest[gpu];
    const auto count = static_cast<std::uint32_t>(nearest.size());
    const std::uint32_t first = std::has_single_bit(count) ? mirrored(gpu, count) : gpu;
    const std::uint32_t of_gpu = (count + local_gpus[nearest] - 1) / local_gpus[nearest];
    Ports& ports = out.emplace_back();
    for (std::uint32_t channel = 0; channel < of_gpu; ++channel) ports.push_back(nearest[(first + channel) % count]);
  }
  return out;
}

void tell_unused(const NodeTopology& node, std::size_t used, std::string_view file, NodeAdapters& out) {
  std::set<std::uint32_t> near;
  for (const Ports& nearest : node.nearest) near.insert(nearest.begin(), nearest.end());
  const std::size_t all = node.nic_gb_per_s.size();
  const auto is = [](std::size_t count) { return count == 1 ? "is" : "are"; };
  if (near.size() < all)
    out.notes.push_back(fmt::format("{} of {}'s {} adapters {} nearest to no GPU: NCCL keeps a GPU to its nearest",
                                    all - near.size(), file, all, is(all - near.size())));
  if (used < near.size())
    out.notes.push_back(fmt::format("{} of {}'s {} adapters {} dealt to no GPU: others are that are as near",
                                    near.size() - used, file, all, is(near.size() - used)));
}

/// NCCL compares what ways carry before it compares how near they are (ncclTopoGetLocal).
void doubt_nearest(const NodeTopology& node, std::string_view file, NodeAdapters& out) {
  double fastest = 0, slowest = 0;
  for (std::uint32_t port = 0; port < node.nic_gb_per_s.size(); ++port) fastest = std::max(fastest, weight(node, port));
  slowest = fastest;
  for (const Ports& nearest : node.nearest)
    for (const std::uint32_t port : nearest) slowest = std::min(slowest, weight(node, port));
  if (slowest < fastest)
    out.doubts.push_back(fmt::format(
        "{}'s adapters are unlike ({:.4g} and {:.4g} GB/s, by NCCL's weights): a GPU is taken to keep to the nearest, "
        "where NCCL may take a faster one that is further away",
        file, slowest, fastest));
}

/// GB/s of the GPU that has the least, which sends as much over each of its adapters.
double least_share(const NodeTopology& node, const std::vector<Ports>& ports,
                   const std::map<std::uint32_t, std::uint32_t>& gpus_of, std::string_view file, NodeAdapters& out) {
  double least = 0;
  for (const Ports& of_gpu : ports) {
    double each = carries(node, of_gpu.front()) / gpus_of.at(of_gpu.front());
    for (const std::uint32_t port : of_gpu) each = std::min(each, carries(node, port) / gpus_of.at(port));
    const double share = each * static_cast<double>(of_gpu.size());
    least = least == 0 ? share : std::min(least, share);
  }
  const double slot = node.pcie_gb_per_s * kSlotOverWeight;
  if (slot <= 0 || least <= slot) return least;
  out.notes.push_back(fmt::format("{}'s GPUs have {:.4g} GB/s of adapters, and slots that carry {:.4g}: no more counts",
                                  file, least, slot));
  return slot;
}

}  // namespace

NodeAdapters adapters_of(const NodeTopology& node, std::string_view file) {
  NodeAdapters out;
  if (node.nic_gb_per_s.empty() || node.nearest.empty()) return out;
  const std::vector<Ports> ports = dealt(node);
  std::map<std::uint32_t, std::uint32_t> gpus_of;  // by port that is used
  for (const Ports& of_gpu : ports)
    for (const std::uint32_t port : of_gpu) ++gpus_of[port];
  out.used = static_cast<std::uint32_t>(gpus_of.size());
  tell_unused(node, out.used, file, out);
  std::uint32_t most = 0;
  for (const auto& [port, gpus] : gpus_of) most = std::max(most, gpus);
  if (most * out.used > node.gpus && most > 1)
    out.notes.push_back(fmt::format("of {}'s {} adapters one is nearest to {} of {} GPUs: all wait for those", file,
                                    out.used, most, node.gpus));
  const auto [fewest, several] = std::minmax_element(
      ports.begin(), ports.end(), [](const Ports& a, const Ports& b) { return a.size() < b.size(); });
  if (fewest->size() < several->size())
    out.notes.push_back(fmt::format("{}'s GPUs have {} to {} adapters: all wait for those with the least", file,
                                    fewest->size(), several->size()));
  out.nic = least_share(node, ports, gpus_of, file, out) * node.gpus / out.used;
  for (const Ports& of_gpu : ports)
    out.of_gpu.push_back(static_cast<std::uint32_t>(std::distance(gpus_of.begin(), gpus_of.find(of_gpu.front()))));
  doubt_nearest(node, file, out);
  return out;
}

}  // namespace foreshard::sim
