#include "cli/gpu/run_report.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "cli/reports/fingerprint.hpp"
#include "cli/reports/plan_command.hpp"
#include "cli/reports/prediction_report.hpp"
#include "cli/terminal/printable.hpp"
#include "core/base/json_io.hpp"
#include "core/base/units.hpp"
#include "core/device/collective_names.hpp"
#include "core/settings/settings_table.hpp"
#include "gpu/cuda/rank_statistics.hpp"
#include "sim/predict/busy_time.hpp"
#include "sim/predict/throughput.hpp"

namespace foreshard::cli {
namespace {

Json peaks_json(const MemoryPeaks& peaks) {
  return {peaks.requested, peaks.allocated, peaks.active, peaks.reserved};
}

MemoryPeaks peaks_of(const Json& json) {
  MemoryPeaks peaks;
  peaks.requested = json.at(0).get<Bytes>();
  peaks.allocated = json.at(1).get<Bytes>();
  peaks.active = json.at(2).get<Bytes>();
  peaks.reserved = json.at(3).get<Bytes>();
  return peaks;
}

bool same(const MemoryPeaks& a, const MemoryPeaks& b) {
  return a.requested == b.requested && a.allocated == b.allocated && a.active == b.active && a.reserved == b.reserved;
}

Json or_null(double value) {
  return value > 0 ? Json(value) : Json(nullptr);
}

Json ranks_json(const std::vector<gpu::RankMeasurement>& ranks) {
  Json json = Json::array();
  for (const gpu::RankMeasurement& rank : ranks)
    json.push_back({{"rank", rank.rank},
                    {"host", rank.host},
                    {"gpu", rank.gpu},
                    {"step_ms", rank.step_ms},
                    {"host_issue_ms", rank.host_issue_ms},
                    {"losses", rank.losses},
                    {"peak_requested_bytes", rank.peaks.requested},
                    {"peak_allocated_bytes", rank.peaks.allocated},
                    {"peak_active_bytes", rank.peaks.active},
                    {"peak_reserved_bytes", rank.peaks.reserved},
                    {"num_alloc_retries", rank.num_alloc_retries}});
  return json;
}

Json steps_json(const gpu::RankMeasurement& rank) {
  Json json = Json::array();
  for (const MemoryPeaks& peaks : rank.step_peaks)
    json.push_back({{"peak_allocated_bytes", peaks.allocated}, {"peak_reserved_bytes", peaks.reserved}});
  return json;
}

Json collectives_json(const gpu::Execution& execution) {
  Json json = Json::array();
  for (const gpu::GroupPath& path : execution.paths)
    json.push_back({{"kind", dashed_name(path.path.kind)},
                    {"communicator", path.group},
                    {"asked", name(path.path.asked)},
                    {"ran", name(path.path.ran)},
                    {"reason", path.path.reason},
                    {"path", path.path.seen},
                    {"calls", path.path.calls}});
  return json;
}

void add_plan(Json& json, const RunReport& report) {
  if (report.plan == nullptr) return;
  const sim::Prediction& p = *report.plan;
  json["plan"] = prediction_json(report.source, basis_of(report.planned), *report.planned.workload, p);
  const MemoryPeaks& peaks = report.ranks.front().peaks;
  const double measured = gpu::slowest_step_ms(report.ranks);
  json["difference"] = {
      {"step", p.has_time && measured > 0 ? Json(p.step_ms / measured - 1) : Json(nullptr)},
      {"peak_allocated_bytes",
       static_cast<std::int64_t>(p.peaks.allocated) - static_cast<std::int64_t>(peaks.allocated)},
      {"peak_reserved_bytes", static_cast<std::int64_t>(p.peaks.reserved) - static_cast<std::int64_t>(peaks.reserved)},
      {"memory_equal", same(p.peaks, peaks)},
      {"memory_equal_at_addresses", report.equal_at_addresses ? Json(*report.equal_at_addresses) : Json(nullptr)}};
  if (report.planned.settings.cuda_graph)
    json["difference"]["graph_pool_bytes"] = static_cast<std::int64_t>(p.graph_pool.reserved) -
                                             static_cast<std::int64_t>(report.execution.graph_pool.reserved);
}

}  // namespace

std::string measurement_text(const gpu::RankMeasurement& m) {
  Json steps = Json::array();
  for (const MemoryPeaks& peaks : m.step_peaks) steps.push_back(peaks_json(peaks));
  const Json json = {{"rank", m.rank},
                     {"host", m.host},
                     {"gpu", m.gpu},
                     {"step_ms", m.step_ms},
                     {"host_issue_ms", m.host_issue_ms},
                     {"losses", m.losses},
                     {"peaks", peaks_json(m.peaks)},
                     {"step_peaks", steps},
                     {"retries", m.num_alloc_retries}};
  return json_text(json);
}

Result<gpu::RankMeasurement> parse_measurement(const std::string& text) {
  try {
    const Json json = Json::parse(text);
    gpu::RankMeasurement m;
    m.rank = json.at("rank").get<std::uint32_t>();
    m.host = json.at("host").get<std::string>();
    m.gpu = json.at("gpu").get<std::string>();
    m.step_ms = json.at("step_ms").get<std::vector<double>>();
    m.host_issue_ms = json.at("host_issue_ms").get<std::vector<double>>();
    m.losses = json.at("losses").get<std::vector<double>>();
    m.peaks = peaks_of(json.at("peaks"));
    for (const Json& peaks : json.at("step_peaks")) m.step_peaks.push_back(peaks_of(peaks));
    m.num_alloc_retries = json.at("retries").get<std::int64_t>();
    return m;
  } catch (const Json::exception& wrong) {
    return fail(ErrorKind::mismatch, std::string("a rank's results cannot be read: ") + wrong.what(), {},
                "the ranks must run the same foreshard");
  }
}

std::optional<bool> equal_at_addresses(const RunReport& report) {
  const MemoryPeaks& peaks = report.ranks.front().peaks;
  if (report.plan == nullptr || same(report.plan->peaks, peaks)) return {};
  Planned there = report.planned;
  if (there.settings != there.workload->settings) return {};
  there.workload =
      std::make_shared<const Workload>(recorded_in(*there.workload, there.settings, report.execution.timed_memory));
  const auto plan = predict_planned(there, {});
  if (!plan) return {};
  return same(plan->peaks, peaks);
}

Json run_json(const RunReport& report) {
  const gpu::RankMeasurement& own = report.ranks.front();
  const sim::BusyTime use = sim::timed_step_busy(report.run);
  const double step = gpu::slowest_step_ms(report.ranks);
  Json json = json_result("run");
  json["source"] = report.source;
  json["name"] = report.run.info.name;
  add_basis(basis_of(report.planned), json);
  json["machine"] = own.gpu;
  json["step_ms"] = or_null(step);
  json["host_ms"] = or_null(gpu::host_issue_ms(own));
  json["compute_ms"] = or_null(use.compute.ms());
  json["communication_ms"] = or_null(use.communication.ms());
  json["exposed_communication_ms"] = report.run.steps.empty() ? Json(nullptr) : Json(use.exposed_communication.ms());
  json["tokens_per_s_per_gpu"] = or_null(sim::work_per_second(report.planned.settings, step));
  json["peak_requested_bytes"] = own.peaks.requested;
  json["peak_allocated_bytes"] = own.peaks.allocated;
  json["peak_active_bytes"] = own.peaks.active;
  json["peak_reserved_bytes"] = own.peaks.reserved;
  if (report.planned.settings.cuda_graph) {
    json["graph_pool_bytes"] = report.execution.graph_pool.reserved;
    json["graph_pool_active_bytes"] = report.execution.graph_pool.active;
  }
  json["num_alloc_retries"] = own.num_alloc_retries;
  json["out_of_memory"] = false;
  json["collectives"] = collectives_json(report.execution);
  json["valid"] = report.run.info.valid;
  json["warnings"] = report.warnings;
  json["computed"] = report.execution.computed;
  json["host_paced"] = report.execution.paced;
  json["losses"] = gpu::mean_losses(report.ranks);
  json["recorded_step_ms"] = or_null(report.execution.recorded_step_ms);
  json["nccl"] = report.execution.nccl;
  json["cuda_driver"] = report.execution.driver;
  json["pools"] = {{"acquired", report.execution.pools.acquired},
                   {"reused", report.execution.pools.reused},
                   {"registered", report.execution.pools.registered},
                   {"bytes", report.execution.pools.bytes}};
  json["fixed_bytes"] = report.execution.fixed_bytes;
  json["steps"] = steps_json(own);
  json["ranks"] = ranks_json(report.ranks);
  add_plan(json, report);
  json["settings"] = Json::object();
  for (const auto& [key, value] : setting_options(report.planned.settings))
    json["settings"][key] = parse_ordered_json_text(value);
  if (const std::string known = fingerprint_of(report.run); !known.empty()) json["fingerprint"] = known;
  return json;
}

namespace {

void print_collectives(Console& console, const gpu::Execution& execution) {
  if (execution.paths.empty()) return;
  Table table({{"collective"}, {"asked"}, {"ran"}, {"seen"}, {"calls", Table::Align::right}});
  for (const gpu::GroupPath& path : execution.paths)
    table.row({fmt::format("{} ({})", dashed_name(path.path.kind), path.group), std::string(name(path.path.asked)),
               std::string(name(path.path.ran)),
               path.path.reason.empty() ? path.path.seen : fmt::format("{}; {}", path.path.seen, path.path.reason),
               std::to_string(path.path.calls)});
  console.out << '\n';
  table.print(console.out);
}

void print_losses(Console& console, const std::vector<gpu::RankMeasurement>& ranks) {
  const std::vector<double> mean = gpu::mean_losses(ranks);
  if (mean.empty()) return;
  constexpr std::size_t kMax = 24;
  std::string line = "\nloss by step:";
  for (std::size_t i = 0; i < std::min(mean.size(), kMax); ++i) line += fmt::format(" {:.6g}", mean[i]);
  if (mean.size() > kMax) line += fmt::format(" … {:.6g}", mean.back());
  console.out << line << '\n';
}

}  // namespace

void print_run(Console& console, const RunReport& report) {
  constexpr auto kRight = Table::Align::right;
  const gpu::RankMeasurement& own = report.ranks.front();
  const sim::Prediction* plan = report.plan;
  const sim::BusyTime use = sim::timed_step_busy(report.run);
  Table table({{""}, {"measured", kRight}, {"planned", kRight}, {"plan against run", kRight}});
  const auto time = [&](const char* title, double measured, double planned) {
    const bool both = measured > 0 && planned > 0;
    table.row({title, measured > 0 ? milliseconds(measured) : "-", both ? milliseconds(planned) : "-",
               both ? change(measured, planned) : ""});
  };
  time("step time", gpu::slowest_step_ms(report.ranks), plan != nullptr ? plan->step_ms : 0);
  time("  under CUPTI", report.execution.recorded_step_ms, 0);
  time("  host issue", gpu::host_issue_ms(own), plan != nullptr ? plan->host_ms : 0);
  time("  compute stream busy", use.compute.ms(), plan != nullptr ? plan->compute_ms : 0);
  time("  communication", use.communication.ms(), plan != nullptr ? plan->communication_ms : 0);
  time("  exposed communication", use.exposed_communication.ms(), plan != nullptr ? plan->exposed_communication_ms : 0);
  const auto peak = [&](const char* title, Bytes measured, Bytes planned) {
    table.row({title, exact_bytes(measured) + " B", plan != nullptr ? exact_bytes(planned) + " B" : "-",
               plan == nullptr       ? ""
               : measured == planned ? "equal"
                                     : change(static_cast<double>(measured), static_cast<double>(planned))});
  };
  const MemoryPeaks planned = plan != nullptr ? plan->peaks : MemoryPeaks{};
  peak("peak requested", own.peaks.requested, planned.requested);
  peak("peak allocated", own.peaks.allocated, planned.allocated);
  peak("peak active", own.peaks.active, planned.active);
  peak("peak reserved", own.peaks.reserved, planned.reserved);
  if (report.planned.settings.cuda_graph)
    peak("  of the CUDA graph", report.execution.graph_pool.reserved, plan != nullptr ? plan->graph_pool.reserved : 0);
  table.print(console.out);
  if (report.equal_at_addresses)
    console.out << (*report.equal_at_addresses
                        ? "\npeaks: all four equal where the plan is given the driver's addresses of this run\n"
                        : "\npeaks: they differ with the driver's addresses of this run too\n");
  console.out << fmt::format("\n{} × {}, NCCL {}, CUDA {}; {}; {} outside the caching allocator\n", report.ranks.size(),
                             own.gpu, report.execution.nccl, report.execution.driver,
                             report.execution.computed ? "real numbers" : "emulated kernels",
                             format_bytes(report.execution.fixed_bytes));
  if (report.execution.paced) console.out << "the host issued at the machine profile's pace, not at its own\n";
  print_collectives(console, report.execution);
  print_losses(console, report.ranks);
  for (const std::string& what : traces::left_out(report.planned.source, {}))
    console.out << in_line(left_out_line(what)) << '\n';
}

}  // namespace foreshard::cli
