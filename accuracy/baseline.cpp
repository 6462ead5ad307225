#include "accuracy/baseline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <set>

#include "accuracy/data_fields.hpp"
#include "core/device/collective_names.hpp"
#include "core/settings/settings_table.hpp"

namespace foreshard::accuracy {
namespace {

constexpr std::string_view kHead = "table,row,metric,value";

double relative(Bytes predicted, Bytes measured) {
  return static_cast<double>(predicted) / static_cast<double>(measured) - 1;
}

/// A row's name is a field of the table: no commas. Rows of one name are told apart by their number.
void add(Baseline& out, const std::string& table, std::string row, const std::string& metric, double value) {
  std::replace(row.begin(), row.end(), ',', ';');
  Baseline::key_type key(table, row, metric);
  for (int n = 2; out.contains(key); ++n) std::get<1>(key) = fmt::format("{} #{}", row, n);
  out.emplace(std::move(key), value);
}

std::string name_of(const sim::CollectiveRequest& r) {
  return fmt::format("{} {} {} ranks ({} a node) {} bytes", dashed_name(r.kind), name(r.transport), r.ranks,
                     r.ranks_per_node, r.bytes);
}

void add_row(const AccuracyRow& row, Baseline& out) {
  const bool model = row.from == AccuracyRow::From::model;
  const std::string table(model ? "model" : "recording");
  const std::string title = model ? row.run : row.source + " -> " + row.run;
  if (!row.differs.empty()) return;
  if (!row.refused.empty()) return add(out, table, title, "refused", 1);
  if (row.has_time && (row.time_known || model)) add(out, table, title, "step", row.error());
  const MemoryPeaks& p = row.peaks;
  const MemoryPeaks& m = row.measured.peaks;
  add(out, table, title, "requested", relative(p.requested, m.requested));
  add(out, table, title, "allocated", relative(p.allocated, m.allocated));
  add(out, table, title, "active", relative(p.active, m.active));
  add(out, table, title, "reserved", relative(p.reserved, m.reserved));
}

}  // namespace

void add_runs(const Accuracy& accuracy, Baseline& out) {
  for (const AccuracyRow& row : accuracy.rows) add_row(row, out);
  for (const NotImportable& one : accuracy.not_importable) add(out, "recording", one.run, "refused", 1);
  for (const CollectiveRow& row : accuracy.collectives)
    add(out, "collective", row.file + " " + name_of(row.check.request), "time", row.check.error());
}

void add_contention(std::span<const ContentionCheck> checks, Baseline& out) {
  for (const ContentionCheck& check : checks) {
    const char* how = check.how == ContentionCheck::How::rows ? "rows " : "covered ";
    if (check.kernel_measured > 0)
      add(out, "contention", how + check.name, "kernel", check.kernel_model - check.kernel_measured);
    if (check.collective_measured > 0)
      add(out, "contention", how + check.name, "collective", check.collective_model - check.collective_measured);
  }
}

void add_published_collectives(std::string_view machine, std::span<const CollectiveCheck> checks, Baseline& out) {
  for (const CollectiveCheck& check : checks)
    add(out, "published collective", fmt::format("{} {} {}", check.from, machine, name_of(check.request)), "time",
        check.error());
}

void add_throughput(std::span<const PublishedRow> rows, Baseline& out) {
  for (const PublishedRow& row : rows)
    add(out, "published throughput",
        fmt::format("{} {} {} {}", row.row->source, row.row->model, row.row->machine, setup_of(*row.row)), "tokens",
        row.error());
}

std::string baseline_csv(const Baseline& baseline) {
  std::string out = fmt::format("{}\n", kHead);
  for (const auto& [key, value] : baseline) {
    const auto& [table, row, metric] = key;
    out += fmt::format("{},{},{},{:.6f}\n", table, row, metric, std::abs(value) < kRounding ? 0.0 : value);
  }
  return out;
}

Result<Baseline> read_baseline(std::string_view csv, const std::string& where) {
  Baseline out;
  for (int number = 1; !csv.empty(); ++number) {
    const std::size_t end = std::min(csv.find('\n'), csv.size());
    std::string_view line = csv.substr(0, end);
    csv.remove_prefix(std::min(end + 1, csv.size()));
    const std::string place = fmt::format("{}, line {}", where, number);
    if (number == 1) {
      if (line != kHead) return fail(ErrorKind::input, fmt::format("the first line is '{}'", kHead), place);
      continue;
    }
    const std::string table(next_field(line));
    const std::string row(next_field(line));
    const std::string metric(next_field(line));
    double value = 0;
    const auto [rest, error] = std::from_chars(line.data(), line.data() + line.size(), value);
    if (metric.empty() || error != std::errc{} || rest != line.data() + line.size())
      return fail(ErrorKind::input, "a table, a row, a metric and a number are needed", place);
    if (!out.emplace(std::tuple(table, row, metric), value).second)
      return fail(ErrorKind::input, "a row twice", place, "foreshard accuracy --baseline writes it anew");
  }
  return out;
}

std::vector<BaselineChange> changes(const Baseline& before, const Baseline& now) {
  using Kind = BaselineChange::Kind;
  std::vector<BaselineChange> out;
  const auto text = [](const auto& key) {
    return fmt::format("{}, {}, {}", std::get<0>(key), std::get<1>(key), std::get<2>(key));
  };
  std::set<std::string> tables;
  for (const auto& [key, value] : now) {
    tables.insert(std::get<0>(key));
    const auto it = before.find(key);
    if (it == before.end()) {
      out.push_back({Kind::added, text(key), 0, value});
      continue;
    }
    if (std::abs(value - it->second) <= kRounding) continue;
    const bool worse = std::abs(value) > std::abs(it->second) + kRounding;
    out.push_back({worse ? Kind::worse : Kind::better, text(key), it->second, value});
  }
  for (const auto& [key, value] : before)
    if (tables.contains(std::get<0>(key)) && !now.contains(key)) out.push_back({Kind::gone, text(key), value, 0});
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.row < b.row; });
  return out;
}

}  // namespace foreshard::accuracy
