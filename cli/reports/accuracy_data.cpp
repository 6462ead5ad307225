// `accuracy --json` and `--csv`: every row of every table for programs.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "accuracy/intervals.hpp"
#include "accuracy/promises.hpp"
#include "cli/reports/accuracy_parts.hpp"
#include "cli/reports/accuracy_report.hpp"

namespace foreshard::cli {
namespace {

using accuracy::AccuracyRow;
using accuracy::ErrorSum;
using From = AccuracyRow::From;

Json peaks_json(const MemoryPeaks& peaks) {
  return {{"requested_bytes", peaks.requested},
          {"allocated_bytes", peaks.allocated},
          {"active_bytes", peaks.active},
          {"reserved_bytes", peaks.reserved}};
}

std::string_view name(From from) {
  constexpr std::string_view kNames[] = {"itself", "sibling", "model"};
  return kNames[static_cast<std::size_t>(from)];
}

Json row_json(const AccuracyRow& row) {
  Json json;
  json["from"] = name(row.from);
  json["recording"] = row.source.empty() ? Json(nullptr) : Json(row.source);
  json["run"] = row.run;
  json["seen"] = word(row.seen);
  json["differs"] = row.differs.empty() ? Json(nullptr) : Json(row.differs);
  json["measured"] = {{"step_ms", row.measured.median_ms},
                      {"low_ms", row.measured.low_ms},
                      {"high_ms", row.measured.high_ms},
                      {"peaks", peaks_json(row.measured.peaks)}};
  json["refused"] = row.refused.empty() ? Json(nullptr) : Json(row.refused);
  if (!row.refused.empty()) return json;
  const auto time = [&](double value) { return row.has_time ? Json(value) : Json(nullptr); };
  json["predicted"] = {{"step_ms", time(row.step_ms)}, {"peaks", peaks_json(row.peaks)}};
  json["step_error"] = time(row.error());
  json["step_beyond_range"] = time(row.beyond());
  json["low_ms"] = time(row.low_ms);
  json["high_ms"] = time(row.high_ms);
  json["host_bound"] = row.host_bound;
  json["host_may_bind"] = row.host_may_bind;
  json["record_stream"] = row.record_stream;
  json["valid"] = row.time_known;
  json["peaks_exact"] = row.exact();
  json["missed_promises"] = accuracy::missed(row);
  json["warnings"] = row.warnings;
  return json;
}

Json checks_json(const std::vector<accuracy::IntervalCheck>& checks) {
  Json out = Json::array();
  for (const accuracy::IntervalCheck& check : checks)
    out.push_back({{"predicted", check.what},
                   {"constant", check.stated.empty() ? Json(nullptr) : Json(check.stated)},
                   {"stated", std::expm1(check.width)},
                   {"needed", std::expm1(check.needed)},
                   {"rows", check.rows},
                   {"programs", check.programs},
                   {"inside", check.inside},
                   {"inside_left_out", check.left_out},
                   {"rows_left_out", check.left_out_rows}});
  return out;
}

Json summary_json(const AccuracySummary& s) {
  const auto sum = [](const ErrorSum& e) { return Json{{"count", e.count}, {"mean", e.mean()}, {"worst", e.worst}}; };
  return {{"predicted", s.predicted},
          {"refused", s.refused},
          {"not_valid", s.not_valid},
          {"differs", s.differs},
          {"gpu_bound_step_error", sum(s.gpu)},
          {"host_bound_beyond_range", sum(s.host)},
          {"step_beyond_range", sum(s.beyond)},
          {"allocated_error", sum(s.allocated)},
          {"reserved_error", sum(s.reserved)},
          {"peaks_exact", s.exact},
          {"record_stream_not_exact", s.clocked}};
}

/// Rows of one shape for whatever is published or measured: name, setup, measured, predicted, error.
struct PlainRow {
  std::string kind, name, setup, unit;
  Seen seen = Seen::not_stated;
  double measured = 0;
  double predicted = 0;
  [[nodiscard]] double error() const { return predicted / measured - 1; }
};

std::vector<PlainRow> plain_rows(const AccuracyResult& result) {
  std::vector<PlainRow> rows;
  for (const accuracy::CollectiveRow& row : result.accuracy.collectives)
    rows.push_back({"collective", row.file, describe(row.check.request), "us", row.seen, row.check.measured_us,
                    row.check.predicted_us});
  for (const auto& row : result.published_collectives)
    rows.push_back({"published_collective", row.check.from, row.machine + ", " + describe(row.check.request), "us",
                    row.seen, row.check.measured_us, row.check.predicted_us});
  for (const ThroughputRow& row : result.throughput)
    rows.push_back({"published_throughput", row.source, fmt::format("{}, {}, {}", row.model, row.machine, row.setup),
                    "tokens/s/GPU", row.seen, row.published, row.predicted});
  return rows;
}

}  // namespace

Json accuracy_json(const AccuracyResult& result) {
  Json json = json_result("accuracy");
  json["folder"] = result.folder;
  json["machine"] = result.accuracy.machine;
  const auto summaries = [&](std::optional<Seen> seen) {
    return Json{{"itself", summary_json(summarise(result.accuracy, From::itself, seen))},
                {"sibling", summary_json(summarise(result.accuracy, From::sibling, seen))},
                {"model", summary_json(summarise(result.accuracy, From::model, seen))}};
  };
  json["summary"] = summaries({});
  json["summary_held_out"] = summaries(Seen::held_out);
  json["summary_fitted"] = summaries(Seen::fitted);
  json["intervals"] = checks_json(accuracy::check_intervals(result.all_interval_rows, result.widths));
  json["differences"] = checks_json(accuracy::check_differences(result.all_interval_rows, result.widths));
  json["not_importable"] = Json::array();
  for (const accuracy::NotImportable& one : result.accuracy.not_importable)
    json["not_importable"].push_back({{"run", one.run}, {"why", one.why}});
  json["runs"] = Json::array();
  for (const AccuracyRow& row : result.accuracy.rows) json["runs"].push_back(row_json(row));
  json["others"] = Json::array();
  for (const PlainRow& row : plain_rows(result))
    json["others"].push_back({{"kind", row.kind},
                              {"name", row.name},
                              {"setup", row.setup},
                              {"unit", row.unit},
                              {"seen", word(row.seen)},
                              {"published", row.measured},
                              {"predicted", row.predicted},
                              {"error", row.error()}});
  return json;
}

std::string accuracy_csv(const AccuracyResult& result) {
  std::string out =
      "kind,name,setup,unit,measured,predicted,error,beyond_range,host_bound,requested_error,allocated_error,"
      "active_error,reserved_error,refused,seen,differs\n";
  for (const AccuracyRow& row : result.accuracy.rows) {
    out += fmt::format("run_from_{},{},{},ms,{}", name(row.from), csv_field(row.run), csv_field(row.source),
                       row.measured.median_ms);
    if (!row.refused.empty()) {
      out += fmt::format(",,,,,,,,,{},{},{}\n", csv_field(row.refused), word(row.seen), csv_field(row.differs));
      continue;
    }
    out += row.has_time ? fmt::format(",{},{:.6f},{:.6f},{}", row.step_ms, row.error(), row.beyond(), row.host_bound)
                        : std::string(",,,,");
    const MemoryPeaks& p = row.peaks;
    const MemoryPeaks& m = row.measured.peaks;
    out += fmt::format(",{:.6f},{:.6f},{:.6f},{:.6f},,{},{}\n", relative(p.requested, m.requested),
                       relative(p.allocated, m.allocated), relative(p.active, m.active),
                       relative(p.reserved, m.reserved), word(row.seen), csv_field(row.differs));
  }
  for (const PlainRow& row : plain_rows(result))
    out += fmt::format("{},{},{},{},{},{},{:.6f},,,,,,,,{},\n", row.kind, csv_field(row.name), csv_field(row.setup),
                       row.unit, row.measured, row.predicted, row.error(), word(row.seen));
  return out;
}

}  // namespace foreshard::cli
