#include "accuracy/collectives_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <vector>

#include "accuracy/published_collectives.hpp"
#include "core/settings/settings_table.hpp"

namespace foreshard::accuracy {
namespace {

constexpr Bytes kLeastReported = kMiB;

std::string what(const sim::CollectiveRequest& request) {
  return fmt::format("{} {}, {} ranks", name(request.transport), dashed_name(request.kind), request.ranks);
}

std::string size_of(Bytes bytes) {
  if (bytes >= kGiB) return fmt::format("{:.4g} GiB", static_cast<double>(bytes) / static_cast<double>(kGiB));
  if (bytes >= kMiB) return fmt::format("{:.4g} MiB", static_cast<double>(bytes) / static_cast<double>(kMiB));
  return fmt::format("{:.4g} KiB", static_cast<double>(bytes) / static_cast<double>(kKiB));
}

/// "mean / worst" in percent.
std::string errors(const std::vector<CollectiveCheck>& checks) {
  const CheckSummary summary = summarise(checks);
  return fmt::format("{:.1f} / {:.1f} %", 100 * summary.mean, 100 * summary.worst);
}

using Groups = std::map<std::string, std::vector<CollectiveCheck>>;

Groups by_table(const sim::MachineProfile& machine, LeaveOut left_out) {
  Groups groups;
  for (CollectiveCheck& check : check_tables(machine, left_out)) {
    if (check.request.bytes < kLeastReported) continue;
    groups["all"].push_back(check);
    groups[what(check.request)].push_back(std::move(check));
  }
  return groups;
}

}  // namespace

std::string report_tables(const sim::MachineProfile& machine) {
  if (machine.collectives.empty()) return {};
  constexpr std::array kColumns{LeaveOut::nothing, LeaveOut::size, LeaveOut::table, LeaveOut::all};
  std::vector<Groups> columns;
  for (const LeaveOut left_out : kColumns) columns.push_back(by_table(machine, left_out));
  std::string out =
      "| measured from 1 MiB, mean / worst error | all tables | without the size | without the table | no table |\n"
      "|---|---|---|---|---|\n";
  for (const auto& [label, checks] : columns.front()) {
    out += fmt::format("| {} ({}) |", label, checks.size());
    for (Groups& column : columns) out += fmt::format(" {} |", errors(column[label]));
    out += "\n";
  }
  return out;
}

std::string report_published(const sim::MachineProfile& machine, double bar) {
  Groups groups;
  std::vector<CollectiveCheck> missed;
  for (CollectiveCheck& check : check_published(machine)) {
    if (std::abs(check.error()) > bar) missed.push_back(check);
    groups[check.from + (check.request.bytes > 16 * kMiB ? ", above 16 MiB" : ", up to 16 MiB")].push_back(
        std::move(check));
  }
  if (groups.empty()) return {};
  std::string out =
      fmt::format("| published, held against {} | rows | mean / worst error | beyond {:.0f} % |\n|---|---|---|---|\n",
                  machine.name, 100 * bar);
  for (const auto& [label, checks] : groups) {
    const auto beyond = std::count_if(checks.begin(), checks.end(),
                                      [bar](const CollectiveCheck& check) { return std::abs(check.error()) > bar; });
    out += fmt::format("| {} | {} | {} | {} |\n", label, checks.size(), errors(checks), beyond);
  }
  if (missed.empty()) return out;
  out += fmt::format("\n| beyond {:.0f} % | size | published, us | predicted, us | error |\n|---|---|---|---|---|\n",
                     100 * bar);
  for (const CollectiveCheck& check : missed)
    out += fmt::format("| {}: {}, {} a node | {} | {:.1f} | {:.1f} | {:+.0f} % |\n", check.from, what(check.request),
                       check.request.ranks_per_node, size_of(check.request.bytes), check.measured_us,
                       check.predicted_us, 100 * check.error());
  return out;
}

}  // namespace foreshard::accuracy
