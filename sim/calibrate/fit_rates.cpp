#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/calibrate/fit_parts.hpp"
#include "sim/calibrate/topology_adapters.hpp"

namespace foreshard::sim {
namespace {

/// A rate may be this much above the base's before it is taken for another machine's.
constexpr double kMaxFaster = 1.3;

void set(MachineFit& out, const char* place, const char* unit, double& value, double scale, double fitted,
         std::size_t samples, std::string source) {
  out.constants.push_back({place, unit, value / scale, fitted, samples, std::move(source)});
  value = fitted * scale;
}

/// The best of one kind of rate: what the hardware reaches when nothing is in the way.
void best(const Samples& samples, RateSample::What what, const char* place, const char* unit, double scale,
          double& value, MachineFit& out) {
  double most = 0;
  std::size_t count = 0;
  for (const RateSample& sample : samples.rates)
    if (sample.what == what) {
      most = std::max(most, sample.rate);
      ++count;
    }
  if (count > 0)
    set(out, place, unit, value, scale, most, count,
        fmt::format("measured: the best of {} rows of a probe file", count));
}

}  // namespace

void fit_rates(const Samples& samples, MachineProfile& machine, MachineFit& out) {
  Rates& rates = machine.rates;
  best(samples, RateSample::What::hbm_copy, "/rates/hbm", "GB/s", 1e9, rates.hbm, out);
  best(samples, RateSample::What::peer_copy, "/rates/peer", "GB/s", 1e9, rates.peer, out);
  best(samples, RateSample::What::gemm_bfloat16, "/rates/gemm_bf16", "TFLOP/s", 1e12, rates.gemm_bf16, out);
  best(samples, RateSample::What::gemm_float32, "/rates/gemm_fp32", "TFLOP/s", 1e12, rates.gemm_fp32, out);
  for (const CaptureSample& capture : samples.captures) {
    if (capture.host_scale > 0)
      out.notes.push_back(
          fmt::format("{}: host times without the profiler are {:.2f} of those under it; plan applies "
                      "this to the capture itself",
                      capture.name, capture.host_scale));
    // A profiler spaces kernels further apart than they lie without it, so that this is no constant of the machine.
    if (capture.kernel_pairs > 0)
      out.notes.push_back(
          fmt::format("{}: {} queued kernels follow one another after {:.2f} us under the profiler; "
                      "/latencies/kernel_gap stays",
                      capture.name, capture.kernel_pairs, capture.kernel_gap_us));
  }
}

Result<void> fit_node(const Samples& samples, MachineProfile& machine, MachineFit& out) {
  for (const auto& [key, times] : samples.collectives) {
    const auto& [kind, transport, ranks, per_node, upcasts, dtype, bytes] = key;
    if (per_node < ranks || kind == CollectiveKind::all_reduce) continue;
    const double bus = bus_bytes(kind, static_cast<double>(bytes), ranks) / times.front().us / 1e3;
    if (bus > kMaxFaster * std::max(machine.links.ring, machine.links.push))
      return fail(ErrorKind::mismatch,
                  fmt::format("{:.0f} GB/s over one GPU's links are more than {}'s {:.0f}", bus, machine.name,
                              machine.links.ring),
                  times.front().path, "is --base the right machine?");
  }
  if (samples.nodes.empty()) return {};
  const NodeTopology& node = samples.nodes.front();
  for (const NodeTopology& other : samples.nodes)
    if (other.gpus != node.gpus || other.nvlinks != node.nvlinks || other.nic_gb_per_s != node.nic_gb_per_s ||
        other.nic_slot_gb_per_s != node.nic_slot_gb_per_s || other.nearest != node.nearest)
      return fail(ErrorKind::mismatch, "topologies of different nodes", {}, "give those of equal nodes, or one");
  if (node.nvlinks > 0 && std::abs(node.nvlink_gb_per_s / machine.links.ring - 1) > 0.15)
    return fail(ErrorKind::mismatch,
                fmt::format("{} NVLinks of sm_{} are {:.0f} GB/s, but {} has {:.0f}", node.nvlinks, node.sm,
                            node.nvlink_gb_per_s, machine.name, machine.links.ring),
                {}, "is --base the right machine?");
  for (const auto& [key, times] : samples.collectives)
    if (std::get<3>(key) > node.gpus)
      return fail(ErrorKind::mismatch,
                  fmt::format("{} ranks ran on one node, but the topology has {} GPUs", std::get<3>(key), node.gpus),
                  times.front().path);
  const std::string source = "read: NCCL's topology";
  double gpus = machine.links.gpus;
  set(out, "/links/gpus", "count", gpus, 1, node.gpus, 1, source);
  machine.links.gpus = node.gpus;
  if (node.pcie_gb_per_s > 0 && !node.nvswitch && node.nvlinks == 0)
    out.notes.push_back(
        "GPUs without NVLink: /links stay the base's; plans price collectives over PCIe with --topology");
  const NodeAdapters adapters = adapters_of(node, "the topology");
  double nics = machine.network.nics;
  // None is named: as put_topology_on(), a GPU has no more of the base's than one.
  const std::uint32_t used = adapters.used > 0 ? adapters.used : std::min(machine.network.nics, node.gpus);
  if (used != machine.network.nics || adapters.used > 0) set(out, "/network/nics", "count", nics, 1, used, 1, source);
  machine.network.nics = used;
  if (adapters.used == 0) return {};
  set(out, "/network/nic", "GB/s", machine.network.nic, 1, adapters.nic, 1,
      source + ", what the GPU with the least of them has");
  for (const std::string& note : adapters.notes) out.notes.push_back(note);
  for (const std::string& doubt : adapters.doubts) out.notes.push_back(doubt);
  if (!node.gdr) out.notes.push_back("not every GPU and NIC can do GPUDirect RDMA: multi-node times may be too short");
  return {};
}

}  // namespace foreshard::sim
