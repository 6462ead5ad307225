#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/calibrate/fit_parts.hpp"

namespace foreshard::sim {
namespace {

/// One path of /contention and the rows that tell about it.
struct Path {
  const char* key;
  CollectivePath* spec;
  std::vector<const ContentionSample*> gathers;
  std::vector<const ContentionSample*> reductions;
};

/// Bytes a second over the link, relative to what the path's collectives reach together; `us` alone or beside.
double link_share(const ContentionSample& row, const CollectivePath& path, double bytes, double us) {
  const double n = row.ranks;
  return bytes * (n - 1) / n / (us * 1e-6) / path.link_bandwidth;
}

/// 512 MiB, what the probe's contention rows move (docs/machines.md, "Probe files").
constexpr double kProbeBytes = 512.0 * 1024 * 1024;

/// How much longer a collective takes beside a kernel of pressure 1, at full speed of its link
/// (sim/engine/demand.cpp: its latency is this times the share of the link that it uses).
double latency(const std::vector<const ContentionSample*>& rows, const CollectivePath& path) {
  double sum = 0;
  for (const ContentionSample* row : rows)
    sum += std::max(0.0, row->collective_beside_us / row->collective_alone_us - 1) /
           link_share(*row, path, kProbeBytes, row->collective_alone_us);
  return sum / static_cast<double>(rows.size());
}

/// Memory bytes for each byte on the link: what the kernel loses of the memory bandwidth, over what the link carries
/// meanwhile.
double memory_per_byte(const std::vector<const ContentionSample*>& rows, const CollectivePath& path, double memory) {
  double sum = 0;
  for (const ContentionSample* row : rows) {
    const double lost = memory * std::max(0.0, 1 - row->kernel_alone_us / row->kernel_beside_us);
    sum += lost / (link_share(*row, path, kProbeBytes, row->collective_beside_us) * path.link_bandwidth);
  }
  return sum / static_cast<double>(rows.size());
}

/// What the constants say of the rows that they were found from.
Residual residual(const Path& path, double memory) {
  Residual out{fmt::format("slowdowns beside a memory-bound kernel, {}", path.key), "contention model"};
  const auto add = [&](double predicted, double measured) {
    const double error = std::abs(predicted / measured - 1);
    out.mean += error;
    out.worst = std::max(out.worst, error);
    ++out.points;
  };
  for (const auto* rows : {&path.gathers, &path.reductions})
    for (const ContentionSample* row : *rows) {
      const double slow = rows == &path.gathers ? path.spec->gather_latency : path.spec->reduce_latency;
      const double alone = link_share(*row, *path.spec, kProbeBytes, row->collective_alone_us);
      const double collective = 1 + slow * alone;
      const double traffic = alone / collective * path.spec->link_bandwidth * path.spec->memory_per_byte / memory;
      add(collective, row->collective_beside_us / row->collective_alone_us);
      add(1 / (1 - std::min(traffic, 0.9)), row->kernel_beside_us / row->kernel_alone_us);
    }
  out.mean /= static_cast<double>(std::max<std::size_t>(out.points, 1));
  return out;
}

void fit_path(Path& path, double memory, MachineFit& out) {
  const auto set = [&](const char* key, double& value, double fitted, std::size_t rows) {
    fitted = std::round(fitted * 100) / 100;
    const std::string place = fmt::format("/contention/{}/{}", path.key, key);
    out.constants.push_back({place, "ratio", value, fitted, rows,
                             fmt::format("fitted by foreshard calibrate to {} rows of a probe file", rows)});
    value = fitted;
  };
  std::vector<const ContentionSample*> all = path.gathers;
  all.insert(all.end(), path.reductions.begin(), path.reductions.end());
  if (all.empty()) return;
  if (!path.gathers.empty())
    set("gather_latency", path.spec->gather_latency, latency(path.gathers, *path.spec), path.gathers.size());
  if (!path.reductions.empty())
    set("reduce_latency", path.spec->reduce_latency, latency(path.reductions, *path.spec), path.reductions.size());
  const double bytes = std::max(0.01, memory_per_byte(all, *path.spec, memory));
  set("memory_per_byte", path.spec->memory_per_byte, bytes, all.size());
  out.residuals.push_back(residual(path, memory));
}

}  // namespace

void fit_contention(const Samples& samples, MachineProfile& machine, MachineFit& out) {
  ContentionSpec& spec = machine.contention;
  std::array paths{Path{"ring", &spec.ring, {}, {}}, Path{"symmetric", &spec.symmetric, {}, {}},
                   Path{"copy_engine", &spec.copy_engine, {}, {}}};
  std::size_t products = 0;
  for (const ContentionSample& row : samples.contention) {
    if (row.kernel_class != KernelClass::memory_bound) {
      ++products;
      continue;
    }
    const bool gather = row.kind == CollectiveKind::all_gather;
    const bool ring = row.transport == Transport::nccl || row.transport == Transport::nccl_registered;
    Path& path = paths[ring ? 0 : row.transport == Transport::symmetric || !gather ? 1 : 2];
    (gather ? path.gathers : path.reductions).push_back(&row);
  }
  for (Path& path : paths) fit_path(path, spec.memory_bandwidth, out);
  if (products > 0)
    out.notes.push_back(fmt::format(
        "{} rows of matrix products beside collectives are not used: their losses follow from SMs and waves",
        products));
}

}  // namespace foreshard::sim
