#include "accuracy/published_collectives.hpp"

#include <algorithm>
#include <cmath>

#include "accuracy/data_fields.hpp"
#include "accuracy/published_collectives_data.hpp"
#include "core/base/check.hpp"
#include "core/settings/settings_names.hpp"
#include "sim/collectives/modelled_collectives.hpp"

namespace foreshard::accuracy {
namespace {

/// The last field of a line, which may be quoted and hold commas.
std::string_view source_field(std::string_view line) {
  return line.starts_with('"') ? line.substr(1, line.size() - 2) : next_field(line);
}

PublishedCollective parse_collective(std::string_view line) {
  constexpr std::string_view kNvls = "-nvls";
  PublishedCollective row;
  row.table = next_field(line);
  row.machine = next_field(line);
  if (row.machine.ends_with(kNvls)) {
    row.machine.resize(row.machine.size() - kNvls.size());
    row.nvls = true;
  }
  row.request.kind = static_cast<CollectiveKind>(word_field(kDashedNames<CollectiveKind>, next_field(line)));
  row.request.transport = static_cast<Transport>(word_field(EnumNames<Transport>::kNames, next_field(line)));
  const auto nodes = number_field<std::uint32_t>(next_field(line));
  row.request.ranks_per_node = number_field<std::uint32_t>(next_field(line));
  row.request.ranks = nodes * row.request.ranks_per_node;
  row.request.bytes = number_field<Bytes>(next_field(line));
  row.us = number_field<double>(next_field(line));
  row.source = source_field(line);
  return row;
}

std::vector<PublishedCollective> parse_collectives(std::string_view csv) {
  std::vector<PublishedCollective> rows;
  csv.remove_prefix(std::min(csv.find('\n') + 1, csv.size()));  // the header
  while (!csv.empty()) {
    const std::size_t end = std::min(csv.find('\n'), csv.size());
    if (end > 0) rows.push_back(parse_collective(csv.substr(0, end)));
    csv.remove_prefix(std::min(end + 1, csv.size()));
  }
  return rows;
}

CollectiveCheck check(const sim::CollectivePrice& price, double predicted_us, const sim::CollectiveRequest& request,
                      double measured_us, std::string from) {
  return {request, measured_us, predicted_us, price.path, std::move(from)};
}

/// `machine` without what predicts point `p` of table `t` too easily.
sim::MachineProfile without(const sim::MachineProfile& machine, std::size_t t, std::size_t p, LeaveOut left_out) {
  sim::MachineProfile rest = machine;
  if (left_out == LeaveOut::all) rest.collectives.clear();
  if (left_out == LeaveOut::table) rest.collectives.erase(rest.collectives.begin() + static_cast<std::ptrdiff_t>(t));
  if (left_out == LeaveOut::size) {
    auto& points = rest.collectives[t].points;
    points.erase(points.begin() + static_cast<std::ptrdiff_t>(p));
  }
  return rest;
}

}  // namespace

std::span<const PublishedCollective> published_collectives() {
  static const std::vector<PublishedCollective> kRows = parse_collectives(kPublishedCollectives);
  return kRows;
}

std::vector<CollectiveCheck> check_published(const sim::MachineProfile& machine, std::string_view table) {
  std::vector<CollectiveCheck> out;
  sim::MachineProfile switched = machine;
  for (const bool nvls : {false, true}) {
    switched.links.nvls = nvls;
    const sim::ModelledCollectives model(switched);
    for (const PublishedCollective& row : published_collectives()) {
      if (row.machine != machine.name || row.nvls != nvls || (!table.empty() && row.table != table)) continue;
      const sim::CollectivePrice price = model.price(row.request);
      out.push_back(check(price, price.time.us(), row.request, row.us, row.table));
    }
  }
  return out;
}

std::vector<CollectiveCheck> check_tables(const sim::MachineProfile& machine, LeaveOut left_out) {
  std::vector<CollectiveCheck> out;
  for (std::size_t t = 0; t < machine.collectives.size(); ++t) {
    const sim::CollectiveTable& table = machine.collectives[t];
    if (table.held_out) continue;
    for (std::size_t p = 0; p < table.points.size(); ++p) {
      sim::CollectiveRequest request{table.kind, table.transport, table.points[p].bytes, table.ranks,
                                     table.ranks_per_node};
      request.upcasts = table.upcasts;
      request.dtype = table.dtype;
      const sim::MachineProfile rest = without(machine, t, p, left_out);
      const sim::CollectivePrice price = sim::ModelledCollectives(rest).price(request);
      out.push_back(check(price, price.period.us(), request, table.points[p].time.us(), table.source));
    }
  }
  return out;
}

CheckSummary summarise(std::span<const CollectiveCheck> checks) {
  CheckSummary out;
  for (const CollectiveCheck& one : checks) {
    out.mean += std::abs(one.error());
    out.worst = std::max(out.worst, std::abs(one.error()));
  }
  out.rows = checks.size();
  if (out.rows > 0) out.mean /= static_cast<double>(out.rows);
  return out;
}

}  // namespace foreshard::accuracy
