#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "sim/calibrate/fit_parts.hpp"
#include "sim/collectives/modelled_collectives.hpp"
#include "sim/engine/contention.hpp"
#include "sim/machine/longest_op.hpp"

namespace foreshard::sim {
namespace {

/// A row with its collective as a simulation puts it on a stream: priced, but for the time, which is the measured one.
struct Row {
  const ContentionSample* measured;
  CollectiveRequest request;
  CollectivePrice price;

  [[nodiscard]] double kernel_slowdown() const { return measured->kernel_concurrent_us / measured->kernel_isolated_us; }
  [[nodiscard]] double collective_slowdown() const {
    return measured->collective_concurrent_us / measured->collective_isolated_us;
  }
};
using Rows = std::vector<Row>;

/// One path of /contention and the rows that tell about it.
struct Path {
  const char* key;
  CollectivePath ContentionSpec::*spec;
  Rows gathers;
  Rows reductions;
  Rows own_with_gemms;  ///< foreshard's own reduce-scatter

  [[nodiscard]] CollectivePath& of(MachineProfile& machine) const { return machine.contention.*spec; }
};

/// 512 MiB, what a probe file's contention rows move that do not say it (docs/machines.md, "Probe files").
constexpr Bytes kProbeBytes = 512 * kMiB;
/// More would be a row of something else than contention.
constexpr double kMaxPressure = 5;

/// A row as the engine sees it, with the profile's numbers as they are now: a copy that moves bytes at the full memory
/// rate, and the collective.
struct Sides {
  KernelDemand kernel;
  CollectiveDemand collective;
};

Row row_of(const ContentionSample& sample, const ModelledCollectives& collectives) {
  CollectiveRequest request{sample.kind, sample.transport, sample.bytes > 0 ? sample.bytes : kProbeBytes, sample.ranks,
                            sample.ranks};
  request.upcasts = sample.upcasts;
  request.dtype = DType::bfloat16;  // as `probe` and comm_bench measure them
  Row row{&sample, request, collectives.price(request)};
  row.price.time = op_time(sample.collective_isolated_us * 1e3);
  return row;
}

Sides sides(const MachineProfile& machine, const Row& row) {
  KernelPrice copy;
  copy.kernel_class = KernelClass::memory_bound;
  copy.memory_share = 1;
  return {kernel_demand(machine, {}, copy), collective_demand(machine, row.request, row.price)};
}

struct Slowdowns {
  double kernel = 1;
  double collective = 1;
};

/// Both at once for so long that neither ends.
Slowdowns at_once(const MachineProfile& machine, const Sides& sides) {
  const std::array running{RunningOp{RunningOp::Role::main_kernel, sides.kernel, {}},
                           RunningOp{RunningOp::Role::collective, {}, sides.collective}};
  constexpr Share kForEver{std::int64_t{1} << 60, std::int64_t{1} << 60, 0};
  std::array<std::int64_t, 2> rates{};
  fill_rates(machine, running, std::array{kForEver, kForEver}, rates);
  const auto full = static_cast<double>(kFullRate);
  return {full / static_cast<double>(rates[0]), full / static_cast<double>(rates[1])};
}

/// How much longer a collective takes beside a kernel of pressure 1, at full speed of its link: what it lost
/// over what the engine makes of a latency of 1.
double latency(const Rows& rows, MachineProfile machine, const Path& path) {
  CollectivePath& spec = path.of(machine);
  spec.gather_latency = spec.reduce_latency = 1;
  double sum = 0;
  for (const Row& row : rows) {
    const Sides unit = sides(machine, row);
    sum += std::max(0.0, row.collective_slowdown() - 1) / (unit.collective.latency * unit.kernel.pressure);
  }
  return sum / static_cast<double>(rows.size());
}

/// Memory bytes for each byte on the link: the share of the memory bandwidth whose loss explains what the kernel lost
/// beyond its SMs, over what the engine makes of 1 byte for each.
double memory_per_byte(const Rows& rows, MachineProfile machine, const Path& path) {
  double sum = 0;
  for (const Row& row : rows) {
    path.of(machine).memory_per_byte = 0;
    const Sides none = sides(machine, row);
    path.of(machine).memory_per_byte = 1;
    const Sides unit = sides(machine, row);
    const double lost = row.kernel_slowdown() - at_once(machine, none).kernel;
    const double stretch = std::max(0.0, lost) / unit.kernel.memory;
    sum += stretch / (1 + stretch) / (unit.collective.traffic / std::max(1.0, row.collective_slowdown()));
  }
  return sum / static_cast<double>(rows.size());
}

/// What a GEMM delays foreshard's own reduce-scatter by, over what a copy does: the least of the rows. Between two
/// reductions of a row blocks of the GEMM take the SMs, and the second one waits for their end. The engine has such
/// waits apart, and a row may have one a reduction or few. It takes the pressure of the GEMM's class where that is
/// more.
double persistent_pressure(const Rows& rows, const MachineProfile& machine) {
  double least = kMaxPressure;
  for (const Row& row : rows) {
    const double latency = sides(machine, row).collective.latency;
    const double lost = std::max(0.0, row.collective_slowdown() - 1);
    least = latency > 0 ? std::min(least, lost / latency) : 0;
  }
  return least;
}

/// What the constants say of the rows that they were found from: one for those that widen and one for the others, since
/// both have the same constants.
Residual residual(const Rows& rows, const MachineProfile& machine, const Path& path, bool upcasts) {
  Residual out{
      fmt::format("slowdowns beside a memory-bound kernel, {}{}", path.key, upcasts ? ", into a wider dtype" : ""),
      "contention model"};
  const auto add = [&](double predicted, double measured) {
    const double error = std::abs(predicted / measured - 1);
    out.mean += error;
    out.worst = std::max(out.worst, error);
    ++out.points;
  };
  for (const Row& row : rows) {
    if (row.request.upcasts != upcasts) continue;
    const Slowdowns model = at_once(machine, sides(machine, row));
    add(model.collective, row.collective_slowdown());
    add(model.kernel, row.kernel_slowdown());
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
  Rows all = path.gathers;
  all.insert(all.end(), path.reductions.begin(), path.reductions.end());
  if (all.empty()) {
    if (!path.own_with_gemms.empty())
      out.notes.push_back(fmt::format(
          "{} rows of GEMMs beside foreshard's reduce-scatter are not used: none of a memory-bound kernel beside a "
          "collective of that path is there",
          path.own_with_gemms.size()));
    return;
  }
  CollectivePath& spec = path.of(machine);
  if (!path.gathers.empty())
    set("gather_latency", spec.gather_latency, latency(path.gathers, machine, path), path.gathers.size());
  if (!path.reductions.empty())
    set("reduce_latency", spec.reduce_latency, latency(path.reductions, machine, path), path.reductions.size());
  const double bytes = std::max(0.01, memory_per_byte(all, machine, path));
  set("memory_per_byte", spec.memory_per_byte, bytes, all.size());
  if (!path.own_with_gemms.empty())
    set("persistent_pressure", spec.persistent_pressure, persistent_pressure(path.own_with_gemms, machine),
        path.own_with_gemms.size());
  for (const bool upcasts : {false, true})
    if (Residual of_rows = residual(all, machine, path, upcasts); of_rows.points > 0)
      out.residuals.push_back(std::move(of_rows));
}

}  // namespace

void fit_contention(const Samples& samples, MachineProfile& machine, MachineFit& out) {
  const ModelledCollectives collectives(machine);
  std::array paths{Path{"ring", &ContentionSpec::ring, {}, {}, {}},
                   Path{"symmetric", &ContentionSpec::symmetric, {}, {}, {}},
                   Path{"copy_engine", &ContentionSpec::copy_engine, {}, {}, {}}};
  const auto path_of = [&](const Row& row) -> Path& {
    return paths[row.price.uses == CollectiveResource::ring        ? 0
                 : row.price.uses == CollectiveResource::symmetric ? 1
                                                                   : 2];
  };
  std::size_t gemms = 0;
  std::size_t assumed = 0;
  for (const ContentionSample& sample : samples.contention) {
    const Row row = row_of(sample, collectives);
    Path& path = path_of(row);
    if (sample.kernel_class != KernelClass::memory_bound) {
      const bool own = sample.transport == Transport::pull_reduce && row.price.uses == CollectiveResource::symmetric;
      if (own) path.own_with_gemms.push_back(row);
      gemms += own ? 0 : 1;
      continue;
    }
    if (sample.bytes == 0) ++assumed;
    (sample.kind == CollectiveKind::all_gather ? path.gathers : path.reductions).push_back(row);
  }
  for (Path& path : paths) fit_path(path, machine, out);
  if (assumed > 0)
    out.notes.push_back(
        fmt::format("{} contention rows do not say their collective's total_bytes: 512 MiB are assumed", assumed));
  if (gemms > 0)
    out.notes.push_back(
        fmt::format("{} rows of GEMMs beside collectives are not used: their losses follow from SMs and waves", gemms));
}

}  // namespace foreshard::sim
