#include "cli/reports/accuracy_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "core/base/units.hpp"
#include "core/settings/settings_table.hpp"

namespace foreshard::cli {
namespace {

using traces::AccuracyRow;
using traces::ErrorSum;
using From = AccuracyRow::From;

constexpr Bytes kSmallest = kMiB;  // smaller collectives wait for the host
constexpr Bytes kLargest = kGiB;

std::string percent(double error) {
  return fmt::format("{:+.1f} %", 100 * error);
}

double relative(Bytes predicted, Bytes measured) {
  return static_cast<double>(predicted) / static_cast<double>(measured) - 1;
}

std::string difference(Bytes predicted, Bytes measured) {
  return predicted == measured ? "0" : fmt::format("{:+.2f} %", 100 * relative(predicted, measured));
}

std::string words(const sim::CollectiveRequest& r) {
  return fmt::format("{}, {}, {}, {} ranks ({} a node)", dashed_name(r.kind), name(r.transport), format_bytes(r.bytes),
                     r.ranks, r.ranks_per_node);
}

std::string title(const AccuracyRow& row) {
  return row.from == From::model ? fmt::format("`{}`", row.run) : fmt::format("`{}` → `{}`", row.source, row.run);
}

constexpr std::string_view kRunHead =
    "predicted, ms | measured, ms | error | beyond its range | side | requested | allocated | active | reserved |\n"
    "|---|---|---|---|---|---|---|---|---|---|\n";

std::string line(const AccuracyRow& row) {
  if (!row.refused.empty()) return fmt::format("| {} | refused: {} | | | | | | | | |\n", title(row), row.refused);
  const auto& m = row.measured;
  std::string time =
      fmt::format("| {} | – | {:.1f} [{:.1f}–{:.1f}] | – | – | – |", title(row), m.median_ms, m.low_ms, m.high_ms);
  if (row.has_time)
    time = fmt::format("| {} | {:.1f} | {:.1f} [{:.1f}–{:.1f}] | {} | {:.1f} % | {}{} |", title(row), row.step_ms,
                       m.median_ms, m.low_ms, m.high_ms, percent(row.error()), 100 * row.beyond(),
                       row.host_bound ? "host" : "GPU", row.time_known ? "" : ", not valid");
  return time + fmt::format(" {} | {} | {} | {} |\n", difference(row.peaks.requested, m.peaks.requested),
                            difference(row.peaks.allocated, m.peaks.allocated),
                            difference(row.peaks.active, m.peaks.active),
                            difference(row.peaks.reserved, m.peaks.reserved));
}

std::string run_table(const traces::Accuracy& accuracy, From from, std::string_view first) {
  std::string out = fmt::format("| {} | {}", first, kRunHead);
  for (const AccuracyRow& row : accuracy.rows)
    if (row.from == from) out += line(row);
  return out;
}

bool sized(const sim::CollectiveCheck& check) {
  return check.request.bytes >= kSmallest && check.request.bytes <= kLargest;
}

ErrorSum sum_of(std::span<const sim::CollectiveCheck> checks) {
  ErrorSum sum;
  for (const sim::CollectiveCheck& check : checks)
    if (sized(check)) sum.add(check.error());
  return sum;
}

ErrorSum sum_of(std::span<const ThroughputRow> rows, std::string_view source) {
  ErrorSum sum;
  for (const ThroughputRow& row : rows)
    if (source.empty() || row.source == source) sum.add(row.error());
  return sum;
}

std::vector<std::string> sources_of(const std::vector<ThroughputRow>& rows) {
  std::vector<std::string> sources;
  for (const ThroughputRow& row : rows)
    if (std::find(sources.begin(), sources.end(), row.source) == sources.end()) sources.push_back(row.source);
  return sources;
}

std::string mean_and_worst(const ErrorSum& sum) {
  return fmt::format("mean error {:.2f} %, worst {:.1f} %", 100 * sum.mean(), 100 * sum.worst);
}

std::string capture_sentences(const traces::Accuracy& accuracy) {
  const AccuracySummary self = summarise(accuracy, From::itself);
  const AccuracySummary s = summarise(accuracy, From::sibling);
  std::string out = fmt::format(
      "From a recording, at its own settings: all four peaks exact to the byte in {} of {} runs.\n\n"
      "From a recording, at another run's settings ({} pairs{}): GPU- and link-bound {} pairs, {}; host-bound {} "
      "pairs, "
      "at most {:.1f} % outside the measured range of ten steps. Memory: all four peaks exact in {} of {} pairs; {} of "
      "the others follow record_stream, where time decides.",
      self.exact, self.predicted, s.predicted,
      s.refused == 0 ? "" : fmt::format("; {} more cannot be derived from the recording", s.refused), s.gpu.count,
      mean_and_worst(s.gpu), s.host.count, 100 * s.host.worst, s.exact, s.predicted, s.clocked);
  if (s.not_valid > 0)
    out += fmt::format(" {} pairs whose time the plan itself calls not valid are not in these times.", s.not_valid);
  traces::Rankings rankings;
  for (const AccuracyRow& row : accuracy.rows)
    if (row.from == From::sibling && row.has_time && !row.host_bound && row.time_known)
      rankings.add(row.source, row.step_ms, row.measured);
  out += fmt::format(
      "\nRanking: of settings planned from one recording whose measured steps differ by more than 3 % and their "
      "spread, {} pairs are in the right order and {} are not.\n",
      rankings.right(), rankings.wrong());
  return out;
}

std::string model_sentence(const traces::Accuracy& accuracy) {
  const AccuracySummary s = summarise(accuracy, From::model);
  return fmt::format(
      "From the model and the `{}` profile alone, {} runs{}: step time {} beyond the run's own range of ten steps; "
      "peak "
      "allocated {}; peak reserved {} (without record_stream).\n",
      accuracy.machine, s.predicted, s.refused == 0 ? "" : fmt::format(" ({} more have no model)", s.refused),
      mean_and_worst(s.beyond), mean_and_worst(s.allocated), mean_and_worst(s.reserved));
}

std::string collective_sentences(const AccuracyResult& result) {
  std::string out;
  std::vector<sim::CollectiveCheck> measured;
  for (const traces::CollectiveRow& row : result.accuracy.collectives) measured.push_back(row.check);
  if (!measured.empty()) {
    const ErrorSum sum = sum_of(measured);
    out += fmt::format("Collectives alone, 1 MiB to 1 GiB: {} measured points, {}", sum.count, mean_and_worst(sum));
    const ErrorSum without = sum_of(result.left_out);
    if (without.count > 0)
      out += fmt::format("; each predicted without its own measurement {}", mean_and_worst(without));
    out += ".\n";
  }
  for (const auto& published : result.published_collectives) {
    if (published.checks.empty()) continue;
    const sim::CheckSummary s = sim::summarise(published.checks);
    out += fmt::format("Published collectives on `{}`: {} rows, mean error {:.1f} %, worst {:.1f} %.\n",
                       published.machine, s.rows, 100 * s.mean, 100 * s.worst);
  }
  return out;
}

std::string throughput_sentences(const AccuracyResult& result) {
  if (result.throughput.empty()) return {};
  std::string out;
  for (const std::string& source : sources_of(result.throughput)) {
    const ErrorSum sum = sum_of(result.throughput, source);
    out += fmt::format("{}{}: {} rows, {}", out.empty() ? "" : "; ", source, sum.count, mean_and_worst(sum));
  }
  const ErrorSum all = sum_of(result.throughput, {});
  return fmt::format("Published throughput, {} rows, {} ({}).\n", all.count, mean_and_worst(all), out);
}

std::string collective_table(std::span<const sim::CollectiveCheck> checks) {
  std::string out = "| collective | measured, µs | predicted, µs | error | path | from |\n|---|---|---|---|---|---|\n";
  for (const sim::CollectiveCheck& check : checks)
    out += fmt::format("| {} | {:.1f} | {:.1f} | {} | {} | {} |\n", words(check.request), check.measured_us,
                       check.predicted_us, percent(check.error()), check.path, check.from);
  return out;
}

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
  json["uncertainty"] = time(row.uncertainty);
  json["host_bound"] = row.host_bound;
  json["record_stream"] = row.record_stream;
  json["valid"] = row.time_known;
  json["peaks_exact"] = row.exact();
  json["warnings"] = row.warnings;
  return json;
}

Json summary_json(const AccuracySummary& s) {
  const auto sum = [](const ErrorSum& e) { return Json{{"count", e.count}, {"mean", e.mean()}, {"worst", e.worst}}; };
  return {{"predicted", s.predicted},
          {"refused", s.refused},
          {"not_valid", s.not_valid},
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
  double measured = 0;
  double predicted = 0;
  [[nodiscard]] double error() const { return predicted / measured - 1; }
};

std::vector<PlainRow> plain_rows(const AccuracyResult& result) {
  std::vector<PlainRow> rows;
  for (const traces::CollectiveRow& row : result.accuracy.collectives)
    rows.push_back(
        {"collective", row.variant, words(row.check.request), "us", row.check.measured_us, row.check.predicted_us});
  for (const auto& published : result.published_collectives)
    for (const sim::CollectiveCheck& check : published.checks)
      rows.push_back({"published_collective", check.from, published.machine + ", " + words(check.request), "us",
                      check.measured_us, check.predicted_us});
  for (const ThroughputRow& row : result.throughput)
    rows.push_back({"published_throughput", row.source, fmt::format("{}, {}, {}", row.model, row.machine, row.setup),
                    "tokens/s/GPU", row.published, row.predicted});
  return rows;
}

}  // namespace

AccuracySummary summarise(const traces::Accuracy& accuracy, From from) {
  AccuracySummary s;
  for (const AccuracyRow& row : accuracy.rows) {
    if (row.from != from) continue;
    if (!row.refused.empty()) {
      ++s.refused;
      continue;
    }
    ++s.predicted;
    s.exact += row.exact() ? 1 : 0;
    s.clocked += !row.exact() && row.record_stream ? 1 : 0;
    s.allocated.add(relative(row.peaks.allocated, row.measured.peaks.allocated));
    if (!row.record_stream) s.reserved.add(relative(row.peaks.reserved, row.measured.peaks.reserved));
    if (!row.has_time) continue;
    if (!row.time_known && from != From::model) {
      ++s.not_valid;
      continue;
    }
    s.beyond.add(row.beyond());
    row.host_bound ? s.host.add(row.beyond()) : s.gpu.add(row.error());
  }
  return s;
}

std::string accuracy_summary_text(const AccuracyResult& result) {
  return capture_sentences(result.accuracy) + "\n" + model_sentence(result.accuracy) + "\n" +
         collective_sentences(result) + throughput_sentences(result) + "\n" +
         run_table(result.accuracy, From::model, "run, from its model alone");
}

std::string accuracy_tables_text(const AccuracyResult& result) {
  std::string out = "### Runs from their models alone\n\n" +
                    run_table(result.accuracy, From::model, "run, from its model alone") +
                    "\n### Runs from recordings at other settings\n\n" +
                    run_table(result.accuracy, From::sibling, "recording → settings of");
  std::vector<sim::CollectiveCheck> checks;
  for (const traces::CollectiveRow& row : result.accuracy.collectives) {
    checks.push_back(row.check);
    checks.back().from = row.variant;
  }
  if (!checks.empty()) out += "\n### Collectives, measured alone\n\n" + collective_table(checks);
  for (const auto& published : result.published_collectives)
    if (!published.checks.empty())
      out +=
          fmt::format("\n### Published collectives, `{}`\n\n", published.machine) + collective_table(published.checks);
  if (result.throughput.empty()) return out;
  out +=
      "\n### Published throughput\n\n| source | model | machine | setup | published, tokens/s/GPU | predicted | error "
      "|\n|---|---|---|---|---|---|---|\n";
  for (const ThroughputRow& row : result.throughput)
    out += fmt::format("| {} | {} | {} | {} | {:.0f} | {:.0f} | {} |\n", row.source, row.model, row.machine, row.setup,
                       row.published, row.predicted, percent(row.error()));
  return out;
}

Json accuracy_json(const AccuracyResult& result) {
  Json json = json_result("accuracy");
  json["folder"] = result.folder;
  json["machine"] = result.accuracy.machine;
  json["summary"] = {{"itself", summary_json(summarise(result.accuracy, From::itself))},
                     {"sibling", summary_json(summarise(result.accuracy, From::sibling))},
                     {"model", summary_json(summarise(result.accuracy, From::model))}};
  json["runs"] = Json::array();
  for (const AccuracyRow& row : result.accuracy.rows) json["runs"].push_back(row_json(row));
  json["others"] = Json::array();
  for (const PlainRow& row : plain_rows(result))
    json["others"].push_back({{"kind", row.kind},
                              {"name", row.name},
                              {"setup", row.setup},
                              {"unit", row.unit},
                              {"published", row.measured},
                              {"predicted", row.predicted},
                              {"error", row.error()}});
  return json;
}

std::string accuracy_csv(const AccuracyResult& result) {
  std::string out =
      "kind,name,setup,unit,measured,predicted,error,beyond_range,host_bound,requested_error,allocated_error,"
      "active_error,reserved_error,refused\n";
  for (const AccuracyRow& row : result.accuracy.rows) {
    out += fmt::format("run_from_{},{},{},ms,{}", name(row.from), csv_field(row.run), csv_field(row.source),
                       row.measured.median_ms);
    if (!row.refused.empty()) {
      out += fmt::format(",,,,,,,,,{}\n", csv_field(row.refused));
      continue;
    }
    out += row.has_time ? fmt::format(",{},{:.6f},{:.6f},{}", row.step_ms, row.error(), row.beyond(), row.host_bound)
                        : std::string(",,,,");
    const MemoryPeaks& p = row.peaks;
    const MemoryPeaks& m = row.measured.peaks;
    out +=
        fmt::format(",{:.6f},{:.6f},{:.6f},{:.6f},\n", relative(p.requested, m.requested),
                    relative(p.allocated, m.allocated), relative(p.active, m.active), relative(p.reserved, m.reserved));
  }
  for (const PlainRow& row : plain_rows(result))
    out += fmt::format("{},{},{},{},{},{},{:.6f},,,,,,,\n", row.kind, csv_field(row.name), csv_field(row.setup),
                       row.unit, row.measured, row.predicted, row.error());
  return out;
}

}  // namespace foreshard::cli
