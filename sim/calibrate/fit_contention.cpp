#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/calibrate/fit_parts.hpp"
#include "sim/engine/contention.hpp"
#include "sim/machine/longest_op.hpp"

namespace foreshard::sim {
namespace {

/// One path of /contention and the rows that tell about it.
struct Path {
  const char* key;
  CollectivePath ContentionSpec::*spec;
  CollectiveResource uses;
  std::vector<const ContentionSample*> gathers;
  std::vector<const ContentionSample*> reductions;
  std::vector<const ContentionSample*> own_beside_products;  ///< foreshard's own reduce-scatter

  [[nodiscard]] CollectivePath& of(MachineProfile& machine) const { return machine.contention.*spec; }
};

/// 512 MiB, what a probe file's contention rows move that do not say it (docs/machines.md, "Probe files").
constexpr Bytes kProbeBytes = 512 * kMiB;
/// More would be a row of something else than contention.
constexpr double kMostPressure = 5;

/// A row as the engine sees it, with the profile's numbers as they are now: a copy that moves bytes at the full memory
/// rate, and the collective.
struct Sides {
  KernelDemand kernel;
  CollectiveDemand collective;
};

Sides sides(const MachineProfile& machine, const ContentionSample& row, CollectiveResource uses) {
  CollectivePrice price;
  price.time = op_time(row.collective_alone_us * 1e3);
  price.uses = uses;
  KernelPrice copy;
  copy.kernel_class = KernelClass::memory_bound;
  copy.memory_share = 1;
  const CollectiveRequest request{row.kind, row.transport, row.bytes > 0 ? row.bytes : kProbeBytes, row.ranks,
                                  row.ranks};
  return {kernel_demand(machine, {}, copy), collective_demand(machine, request, price)};
}

struct Slowdowns {
  double kernel = 1;
  double collective = 1;
};

/// Both at once for so long that neither ends.
Slowdowns at_once(const MachineProfile& machine, const Sides& sides) {
  const std::array running{Party{Party::Role::main_kernel, sides.kernel, {}},
                           Party{Party::Role::collective, {}, sides.collective}};
  constexpr Share kForEver{std::int64_t{1} << 60, std::int64_t{1} << 60, 0};
  std::array<std::int64_t, 2> rates{};
  fill_rates(machine, running, std::array{kForEver, kForEver}, rates);
  const auto full = static_cast<double>(kFullRate);
  return {full / static_cast<double>(rates[0]), full / static_cast<double>(rates[1])};
}

/// How much longer a collective takes beside a kernel of pressure 1, at full speed of its link: what it lost over what
/// the engine makes of a latency of 1.
double latency(const std::vector<const ContentionSample*>& rows, MachineProfile machine, const Path& path) {
  CollectivePath& spec = path.of(machine);
  spec.gather_latency = spec.reduce_latency = 1;
  double sum = 0;
  for (const ContentionSample* row : rows) {
    const Sides unit = sides(machine, *row, path.uses);
    sum += std::max(0.0, row->collective_beside_us / row->collective_alone_us - 1) /
           (unit.collective.latency * unit.kernel.pressure);
  }
  return sum / static_cast<double>(rows.size());
}

/// Memory bytes for each byte on the link: the share of the memory bandwidth whose loss explains what the kernel lost
/// beyond its SMs, over what the engine makes of 1 byte for each.
double memory_per_byte(const std::vector<const ContentionSample*>& rows, MachineProfile machine, const Path& path) {
  double sum = 0;
  for (const ContentionSample* row : rows) {
    path.of(machine).memory_per_byte = 0;
    const Sides none = sides(machine, *row, path.uses);
    path.of(machine).memory_per_byte = 1;
    const Sides unit = sides(machine, *row, path.uses);
    const double lost = row->kernel_beside_us / row->kernel_alone_us - at_once(machine, none).kernel;
    const double stretch = std::max(0.0, lost) / unit.kernel.memory;
    const double slowed = row->collective_beside_us / row->collective_alone_us;
    sum += stretch / (1 + stretch) / (unit.collective.traffic / std::max(1.0, slowed));
  }
  return sum / static_cast<double>(rows.size());
}

/// What a product delays foreshard's own reduce-scatter by, over what a copy does.
double resident_pressure(const std::vector<const ContentionSample*>& rows, const MachineProfile& machine,
                         const Path& path) {
  double sum = 0;
  for (const ContentionSample* row : rows) {
    const double latency = sides(machine, *row, path.uses).collective.latency;
    const double lost = std::max(0.0, row->collective_beside_us / row->collective_alone_us - 1);
    if (latency > 0) sum += std::min(kMostPressure, lost / latency);
  }
  return sum / static_cast<double>(rows.size());
}

/// What the constants say of the rows that they were found from.
Residual residual(const std::vector<const ContentionSample*>& rows, const MachineProfile& machine, const Path& path) {
  Residual out{fmt::format("slowdowns beside a memory-bound kernel, {}", path.key), "contention model"};
  const auto add = [&](double predicted, double measured) {
    const double error = std::abs(predicted / measured - 1);
    out.mean += error;
    out.worst = std::max(out.worst, error);
    ++out.points;
  };
  for (const ContentionSample* row : rows) {
    const Slowdowns model = at_once(machine, sides(machine, *row, path.uses));
    add(model.collective, row->collective_beside_us / row->collective_alone_us);
    add(model.kernel, row->kernel_beside_us / row->kernel_alone_us);
  }
  out.mean /= static_cast<double>(std::max<std::size_t>(out.points, 1));
  return out;
}

void fit_path(Path& path, MachineProfile& machine, MachineFit& out) {
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
  CollectivePath& spec = path.of(machine);
  if (!path.gathers.empty())
    set("gather_latency", spec.gather_latency, latency(path.gathers, machine, path), path.gathers.size());
  if (!path.reductions.empty())
    set("reduce_latency", spec.reduce_latency, latency(path.reductions, machine, path), path.reductions.size());
  const double bytes = std::max(0.01, memory_per_byte(all, machine, path));
  set("memory_per_byte", spec.memory_per_byte, bytes, all.size());
  if (!path.own_beside_products.empty())
    set("resident_pressure", spec.resident_pressure, resident_pressure(path.own_beside_products, machine, path),
        path.own_beside_products.size());
  out.residuals.push_back(residual(all, machine, path));
}

}  // namespace

void fit_contention(const Samples& samples, MachineProfile& machine, MachineFit& out) {
  std::array paths{Path{"ring", &ContentionSpec::ring, CollectiveResource::ring, {}, {}, {}},
                   Path{"symmetric", &ContentionSpec::symmetric, CollectiveResource::symmetric, {}, {}, {}},
                   Path{"copy_engine", &ContentionSpec::copy_engine, CollectiveResource::copy_engine, {}, {}, {}}};
  std::size_t products = 0;
  std::size_t assumed = 0;
  for (const ContentionSample& row : samples.contention) {
    if (row.kernel_class != KernelClass::memory_bound) {
      const bool own = row.transport == Transport::low_contention && row.kind == CollectiveKind::reduce_scatter;
      if (own) paths[1].own_beside_products.push_back(&row);
      products += own ? 0 : 1;
      continue;
    }
    if (row.bytes == 0) ++assumed;
    const bool gather = row.kind == CollectiveKind::all_gather;
    const bool ring = row.transport == Transport::nccl || row.transport == Transport::nccl_registered;
    Path& path = paths[ring ? 0 : row.transport == Transport::symmetric || !gather ? 1 : 2];
    (gather ? path.gathers : path.reductions).push_back(&row);
  }
  for (Path& path : paths) fit_path(path, machine, out);
  if (assumed > 0)
    out.notes.push_back(
        fmt::format("{} contention rows do not say their collective's total_bytes: 512 MiB are assumed", assumed));
  if (products > 0)
    out.notes.push_back(fmt::format(
        "{} rows of matrix products beside collectives are not used: their losses follow from SMs and waves",
        products));
}

}  // namespace foreshard::sim
