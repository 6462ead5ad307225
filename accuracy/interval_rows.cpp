#include "accuracy/interval_rows.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <tuple>

#include "accuracy/data_fields.hpp"

namespace foreshard::accuracy {
namespace {

using Kind = IntervalRow::Kind;

constexpr std::string_view kRowsHead =
    "kind,program,source,run,adapted,moved_below,moved_above,predicted_ms,measured_ms";

bool read_cell(std::string_view text, double& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size() && std::isfinite(value) && value >= 0;
}

bool read_cell(std::string_view text, bool& value) {
  value = text == "true";
  return value || text == "false";
}

bool read_row(std::string_view line, IntervalRow& row) {
  const auto kind = parse_name<Kind>(next_field(line));
  if (!kind) return false;
  row.kind = *kind;
  row.program = next_field(line);
  row.source = next_field(line);
  row.run = next_field(line);
  bool good = read_cell(next_field(line), row.adapted);
  for (double* number : {&row.moved_below, &row.moved_above, &row.predicted_ms, &row.measured_ms})
    good &= read_cell(next_field(line), *number);
  return good && line.empty() && row.predicted_ms > 0 && row.measured_ms > 0;
}

}  // namespace

double IntervalRow::error() const {
  return std::log(measured_ms / predicted_ms);
}

std::vector<IntervalRow> interval_rows(const Accuracy& accuracy) {
  std::vector<IntervalRow> out;
  for (const AccuracyRow& row : accuracy.rows) {
    const bool model = row.from == AccuracyRow::From::model;
    if (row.from == AccuracyRow::From::itself || !row.refused.empty() || !row.differs.empty() || !row.has_time ||
        (!row.time_known && !model))
      continue;
    out.push_back({model ? Kind::modelled : Kind::recorded, row.program, row.source, row.run, row.adapted,
                   row.moved_below, row.moved_above, row.step_ms, row.measured.median_ms});
  }
  return out;
}

IntervalRow published_interval_row(const PublishedRow& row) {
  std::string run = fmt::format("{} {} {}", row.row->source, row.row->machine, setup_of(*row.row));
  std::replace(run.begin(), run.end(), ',', ';');
  return {Kind::published,
          row.row->model,
          {},
          std::move(run),
          false,
          0,
          0,
          row.step_ms,
          row.step_ms * row.predicted / row.row->tokens};
}

std::vector<IntervalRow> with_rows(std::vector<IntervalRow> before, const std::vector<IntervalRow>& now) {
  const auto key = [](const IntervalRow& row) { return std::tie(row.kind, row.program, row.source, row.run); };
  std::erase_if(before, [&](const IntervalRow& row) {
    return std::any_of(now.begin(), now.end(), [&](const IntervalRow& other) { return key(other) == key(row); });
  });
  before.insert(before.end(), now.begin(), now.end());
  std::sort(before.begin(), before.end(), [&](const auto& a, const auto& b) { return key(a) < key(b); });
  return before;
}

std::string interval_rows_csv(const std::vector<IntervalRow>& rows) {
  std::string out = fmt::format("{}\n", kRowsHead);
  for (const IntervalRow& row : rows)
    out += fmt::format("{},{},{},{},{},{:.3f},{:.3f},{:.3f},{:.3f}\n", name(row.kind), row.program, row.source, row.run,
                       row.adapted, row.moved_below, row.moved_above, row.predicted_ms, row.measured_ms);
  return out;
}

Result<std::vector<IntervalRow>> read_interval_rows(std::string_view csv, std::string_view where) {
  std::vector<IntervalRow> out;
  for (int number = 1; !csv.empty(); ++number) {
    const std::string_view line = next_field(csv, '\n');
    const std::string place = fmt::format("{}, line {}", where, number);
    if (number == 1) {
      if (line != kRowsHead) return fail(ErrorKind::input, fmt::format("the first line is '{}'", kRowsHead), place);
      continue;
    }
    IntervalRow row;
    if (!read_row(line, row))
      return fail(ErrorKind::input, "no row of that head", place, "foreshard accuracy --interval-rows writes it anew");
    out.push_back(std::move(row));
  }
  return out;
}

}  // namespace foreshard::accuracy
