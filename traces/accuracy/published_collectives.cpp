#include "traces/accuracy/published_collectives.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "core/base/check.hpp"
#include "core/settings/settings_names.hpp"
#include "sim/collectives/modelled_collectives.hpp"
#include "traces/accuracy/published_collectives_data.hpp"

namespace foreshard::sim {
namespace {

/// Cuts the next field off; the last one may be quoted and hold commas.
std::string_view next_field(std::string_view& line) {
  if (!line.empty() && line.front() == '"') return line.substr(1, line.size() - 2);
  const std::size_t comma = std::min(line.find(','), line.size());
  const std::string_view field = line.substr(0, comma);
  line.remove_prefix(std::min(comma + 1, line.size()));
  return field;
}

template <class Number>
Number number(std::string_view text) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  FORESHARD_CHECK(error == std::errc{} && end == text.data() + text.size(), "published_collectives.csv: a number");
  return value;
}

template <class Words>
std::size_t index_of(const Words& words, std::string_view word) {
  const auto it = std::find(words.begin(), words.end(), word);
  FORESHARD_CHECK(it != words.end(), "published_collectives.csv: a known word");
  return static_cast<std::size_t>(it - words.begin());
}

PublishedCollective parse_row(std::string_view line) {
  constexpr std::string_view kNvls = "-nvls";
  PublishedCollective row;
  row.table = next_field(line);
  row.machine = next_field(line);
  if (row.machine.ends_with(kNvls)) {
    row.machine.resize(row.machine.size() - kNvls.size());
    row.nvls = true;
  }
  row.request.kind = static_cast<CollectiveKind>(index_of(kDashedNames<CollectiveKind>, next_field(line)));
  row.request.transport = static_cast<Transport>(index_of(EnumNames<Transport>::kNames, next_field(line)));
  const auto nodes = number<std::uint32_t>(next_field(line));
  row.request.ranks_per_node = number<std::uint32_t>(next_field(line));
  row.request.ranks = nodes * row.request.ranks_per_node;
  row.request.bytes = number<Bytes>(next_field(line));
  row.us = number<double>(next_field(line));
  row.source = next_field(line);
  return row;
}

std::vector<PublishedCollective> parse(std::string_view csv) {
  std::vector<PublishedCollective> rows;
  csv.remove_prefix(std::min(csv.find('\n') + 1, csv.size()));  // the header
  while (!csv.empty()) {
    const std::size_t end = std::min(csv.find('\n'), csv.size());
    if (end > 0) rows.push_back(parse_row(csv.substr(0, end)));
    csv.remove_prefix(std::min(end + 1, csv.size()));
  }
  return rows;
}

CollectiveCheck check(const CollectivePrice& price, double predicted_us, const CollectiveRequest& request,
                      double measured_us, std::string from) {
  return {request, measured_us, predicted_us, price.path, std::move(from)};
}

/// `machine` without what predicts point `p` of table `t` too easily.
MachineProfile without(const MachineProfile& machine, std::size_t t, std::size_t p, LeaveOut left_out) {
  MachineProfile rest = machine;
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
  static const std::vector<PublishedCollective> kRows = parse(kPublishedCollectives);
  return kRows;
}

std::vector<CollectiveCheck> check_published(const MachineProfile& machine, std::string_view table) {
  std::vector<CollectiveCheck> out;
  MachineProfile switched = machine;
  for (const bool nvls : {false, true}) {
    switched.links.nvls = nvls;
    const ModelledCollectives model(switched);
    for (const PublishedCollective& row : published_collectives()) {
      if (row.machine != machine.name || row.nvls != nvls || (!table.empty() && row.table != table)) continue;
      const CollectivePrice price = model.price(row.request);
      out.push_back(check(price, price.time.us(), row.request, row.us, row.table));
    }
  }
  return out;
}

std::vector<CollectiveCheck> check_tables(const MachineProfile& machine, LeaveOut left_out) {
  std::vector<CollectiveCheck> out;
  for (std::size_t t = 0; t < machine.collectives.size(); ++t) {
    const CollectiveTable& table = machine.collectives[t];
    for (std::size_t p = 0; p < table.points.size(); ++p) {
      const CollectiveRequest request{table.kind, table.transport, table.points[p].bytes, table.ranks,
                                      table.ranks_per_node};
      const MachineProfile rest = without(machine, t, p, left_out);
      const CollectivePrice price = ModelledCollectives(rest).price(request);
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

}  // namespace foreshard::sim
