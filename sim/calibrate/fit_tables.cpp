#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "core/base/median.hpp"
#include "core/base/units.hpp"
#include "core/device/collective_names.hpp"
#include "core/settings/settings_table.hpp"
#include "sim/calibrate/fit_parts.hpp"
#include "sim/collectives/modelled_collectives.hpp"
#include "sim/machine/longest_op.hpp"

namespace foreshard::sim {
namespace {

/// Times of one collective at one size differ by some percent between runs; by more than half they are of different
/// machines, transports or a disturbed run.
constexpr double kMaxSpread = 1.5;

std::string shape(const CollectiveTable& table) {
  std::string text = fmt::format("{} {}, {} ranks", dashed_name(table.kind), name(table.transport), table.ranks);
  if (table.ranks_per_node < table.ranks) text += fmt::format(", {} a node", table.ranks_per_node);
  if (adds(table.kind) && table.dtype != DType::bfloat16) text += fmt::format(", {}", name(table.dtype));
  return table.upcasts ? text + ", into a wider dtype" : text;
}

/// Error of the price of `point` by `machine`, as benchmarks measure it.
double error_at(const MachineProfile& machine, const CollectiveTable& table, const CollectiveTable::Point& point) {
  const CollectiveRequest request{table.kind,           table.transport, point.bytes,   table.ranks,
                                  table.ranks_per_node, Reduction::sum,  table.upcasts, table.dtype};
  const Nanoseconds priced = ModelledCollectives(machine).price(request).period;
  return std::abs(static_cast<double>(priced.count) / static_cast<double>(point.time.count) - 1);
}

void add(Residual& residual, double error) {
  residual.mean += error;
  residual.worst = std::max(residual.worst, error);
  ++residual.points;
}

Residual without_each_point(const MachineProfile& machine, std::size_t which) {
  const CollectiveTable& table = machine.collectives[which];
  Residual out{shape(table), "table without the point"};
  for (std::size_t i = 0; i < table.points.size(); ++i) {
    MachineProfile other = machine;
    auto& points = other.collectives[which].points;
    points.erase(points.begin() + static_cast<std::ptrdiff_t>(i));
    add(out, error_at(other, table, table.points[i]));
  }
  return out;
}

Residual by_mechanism(const MachineProfile& machine, std::size_t which) {
  const CollectiveTable& table = machine.collectives[which];
  Residual out{shape(table), "mechanism alone"};
  MachineProfile other = machine;
  other.collectives.clear();
  for (const CollectiveTable::Point& point : table.points) add(out, error_at(other, table, point));
  return out;
}

}  // namespace

Result<Samples> join(std::span<const Measurements> inputs) {
  Samples out;
  std::string gpu_from;
  for (const Measurements& input : inputs) {
    for (const CollectiveSample& s : input.collectives)
      out.collectives[{s.kind, s.transport, s.ranks, s.ranks_per_node, s.upcasts, s.dtype, s.bytes}].push_back(
          {s.us, input.path});
    out.contention.insert(out.contention.end(), input.contention.begin(), input.contention.end());
    out.kernels.insert(out.kernels.end(), input.kernels.begin(), input.kernels.end());
    out.rates.insert(out.rates.end(), input.rates.begin(), input.rates.end());
    if (input.node) out.nodes.push_back(*input.node);
    if (input.capture) out.captures.push_back(*input.capture);
    if (input.gpu.empty()) continue;
    if (!out.gpu.empty() && out.gpu != input.gpu)
      return fail(ErrorKind::mismatch, fmt::format("was measured on {}, but {} on {}", input.gpu, gpu_from, out.gpu),
                  input.path, "a profile describes one machine");
    out.gpu = input.gpu;
    gpu_from = input.path;
  }
  for (auto& [key, times] : out.collectives) {
    std::sort(times.begin(), times.end(),
              [](const auto& a, const auto& b) { return std::tie(a.us, a.path) < std::tie(b.us, b.path); });
    const auto& [kind, transport, ranks, per_node, upcasts, dtype, bytes] = key;
    if (times.back().us > kMaxSpread * times.front().us)
      return fail(ErrorKind::mismatch,
                  fmt::format("{} {} of {} ranks, {}: {:.1f} us, but {:.1f} in {}", name(transport), dashed_name(kind),
                              ranks, format_bytes(bytes), times.back().us, times.front().us, times.front().path),
                  times.back().path, "leave one of them out; --transport says what an nccl-tests table measured");
  }
  return out;
}

nlohmann::json fit_tables(const Samples& samples, const std::string& source, MachineProfile& machine) {
  std::vector<CollectiveTable> tables;
  for (const auto& [key, times] : samples.collectives) {
    const auto& [kind, transport, ranks, per_node, upcasts, dtype, bytes] = key;
    const bool same = !tables.empty() && tables.back().kind == kind && tables.back().transport == transport &&
                      tables.back().ranks == ranks && tables.back().ranks_per_node == per_node &&
                      tables.back().of_dtypes(dtype, upcasts);
    if (!same) tables.push_back({kind, transport, ranks, per_node, {}, source, upcasts, dtype});
    std::vector<double> us;
    for (const Samples::Time& time : times) us.push_back(time.us);
    tables.back().points.push_back({bytes, op_time(median(us) * 1e3)});
  }
  nlohmann::json json = nlohmann::json::array();
  for (const CollectiveTable& table : tables) {
    nlohmann::json points = nlohmann::json::array();
    for (const CollectiveTable::Point& point : table.points) points.push_back({point.bytes, point.time.us()});
    json.push_back({{"kind", dashed_name(table.kind)},
                    {"transport", name(table.transport)},
                    {"ranks", table.ranks},
                    {"ranks_per_node", table.ranks_per_node},
                    {"source", source},
                    {"fitted_on", nlohmann::json::array({kOwnCalibration})},
                    {"bytes_us", points}});
    if (table.upcasts) json.back()["upcasts"] = true;
    if (adds(table.kind)) json.back()["dtype"] = name(table.dtype);
    const auto old = std::find_if(machine.collectives.begin(), machine.collectives.end(), [&](const auto& other) {
      return std::tie(other.kind, other.transport, other.ranks, other.ranks_per_node) ==
                 std::tie(table.kind, table.transport, table.ranks, table.ranks_per_node) &&
             other.of_dtypes(table.dtype, table.upcasts);
    });
    if (old == machine.collectives.end())
      machine.collectives.push_back(table);
    else
      *old = table;
  }
  return json;
}

std::vector<Residual> table_residuals(const MachineProfile& machine, const std::string& source) {
  std::vector<Residual> out;
  for (std::size_t i = 0; i < machine.collectives.size(); ++i) {
    if (machine.collectives[i].source != source) continue;  // the base's
    if (machine.collectives[i].points.size() > 1) out.push_back(without_each_point(machine, i));
    out.push_back(by_mechanism(machine, i));
  }
  for (Residual& residual : out) residual.mean /= static_cast<double>(std::max<std::size_t>(residual.points, 1));
  return out;
}

}  // namespace foreshard::sim
