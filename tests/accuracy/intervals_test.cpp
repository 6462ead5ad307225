// Intervals: the widths that rows need, and those that the machine profile states against the committed rows.
#include "accuracy/intervals.hpp"

#include <cmath>
#include <fstream>
#include <iterator>

#include "sim/machine/profile.hpp"
#include "tests/catch.hpp"

namespace foreshard::accuracy {
namespace {

using RowKind = IntervalRow::Kind;

IntervalRow row(RowKind kind, const std::string& program, double error, double moved = 0) {
  static int number = 0;
  IntervalRow out;
  out.kind = kind;
  out.program = program;
  out.source = kind == RowKind::recorded ? program + " recording" : "";
  out.run = std::to_string(++number);
  out.moved_below = out.moved_above = moved;
  out.predicted_ms = 100;
  out.measured_ms = 100 * std::exp(error);
  return out;
}

std::vector<IntervalRow> committed() {
  std::ifstream file("tests/reference/interval_rows.csv", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return read_interval_rows(text, "interval_rows.csv").value();
}

TEST_CASE("the width holds nine of ten errors and one more") {
  CHECK(needed_width({}) == 0);
  CHECK(needed_width({-0.3}) == 0.3);
  std::vector<double> errors;
  for (int i = 1; i <= 19; ++i) errors.push_back(i % 2 == 0 ? 0.01 * i : -0.01 * i);
  CHECK(needed_width(errors) == Approx(0.18));  // 18 of 19: place 0.9 x 20
  errors.pop_back();
  CHECK(needed_width(errors) == Approx(0.18));  // too few for place 17.1: the largest
}

TEST_CASE("each width is read off the rows that it can have caused") {
  std::vector<IntervalRow> rows;
  for (int i = 1; i <= 19; ++i) {
    rows.push_back(row(RowKind::recorded, "a", 0.001 * i));
    rows.push_back(row(RowKind::recorded, "a", 0.01 * i, 1));
    rows.push_back(row(RowKind::modelled, "a", -0.002 * i));
  }
  const sim::PredictionSpec widths = needed_widths(rows, {});
  CHECK(widths.gpu_bound == Approx(0.018));
  CHECK(widths.model == Approx(0.036));
  CHECK(widths.host_bound == Approx(std::sqrt(0.18 * 0.18 - 0.018 * 0.018)));
  CHECK(widths.adapted == 0);
  CHECK(is_inside(row(RowKind::recorded, "b", 0.018), widths));
  CHECK_FALSE(is_inside(row(RowKind::recorded, "b", 0.0181), widths));
  CHECK(is_inside(row(RowKind::recorded, "b", 0.1, 1), widths));
  CHECK_FALSE(is_inside(row(RowKind::recorded, "b", 0.1, 0.4), widths));
}

TEST_CASE("a program that is left out is held against the widths of the others") {
  std::vector<IntervalRow> rows;
  for (int i = 1; i <= 9; ++i) rows.push_back(row(RowKind::recorded, "near", 0.001 * i));
  rows.push_back(row(RowKind::recorded, "far", 0.5));
  const auto checks = check_intervals(rows, needed_widths(rows, {}));
  CHECK(checks[0].rows == 10);
  CHECK(checks[0].programs == 2);
  CHECK(checks[0].inside == 10);
  CHECK(checks[0].left_out == 9);
  CHECK(checks[0].left_out_rows == 10);
  CHECK(checks.back().rows == 10);
  CHECK(check_intervals(std::vector<IntervalRow>(rows.begin(), rows.begin() + 9), {})[0].left_out_rows == 0);
}

TEST_CASE("what both plans of one source miss alike is not in their ratio") {
  std::vector<IntervalRow> rows;
  for (int i = 0; i < 5; ++i) rows.push_back(row(RowKind::recorded, "a", 0.1 + 0.001 * i));
  CHECK(needed_widths(rows, {}).difference == Approx(0.004));
  CHECK(needed_widths(rows, {}).gpu_bound == Approx(0.104));
}

TEST_CASE("rows are written and read back") {
  const std::vector<IntervalRow> rows{row(RowKind::recorded, "a 1x2", 0.1, 0.5), row(RowKind::modelled, "b", -0.1)};
  const auto read = read_interval_rows(interval_rows_csv(rows), "rows");
  REQUIRE(read);
  CHECK(interval_rows_csv(*read) == interval_rows_csv(rows));
  for (const char* wrong :
       {"", "kind\n", "x,a,,b,false,0,0,1,1", "recorded,a,,b,maybe,0,0,1,1", "recorded,a,,b,false,0,0,0,1",
        "recorded,a,,b,false,0,0,1", "recorded,a,,b,false,0,0,1,1,1"}) {
    const std::string head = interval_rows_csv({});
    const std::string text = std::string(wrong).starts_with("kind") ? wrong : head + wrong + "\n";
    CHECK_FALSE(read_interval_rows(text, "rows"));
  }
  CHECK(with_rows(rows, {rows[1]}).size() == 2);
}

TEST_CASE("the widths of h200 are those that the committed rows need") {
  const sim::PredictionSpec stated = sim::builtin_profile("h200").value().prediction;
  const std::vector<IntervalRow> rows = committed();
  const sim::PredictionSpec needed = needed_widths(rows, stated);
  using Spec = sim::PredictionSpec;
  for (const auto member :
       {&Spec::gpu_bound, &Spec::adapted, &Spec::host_bound, &Spec::model, &Spec::model_host, &Spec::model_elsewhere,
        &Spec::difference, &Spec::difference_host, &Spec::difference_model_host})
    CHECK(std::abs(stated.*member - needed.*member) < 0.0015);
  const auto checks = check_intervals(rows, stated);
  const IntervalCheck& all = checks.back();
  CAPTURE(all.rows, all.inside, all.left_out);
  CHECK(all.left_out_rows >= 300);
  CHECK(all.left_out >= 0.85 * all.left_out_rows);
  CHECK(all.left_out <= 0.95 * all.left_out_rows);
  CHECK(all.inside >= 0.85 * all.rows);
  CHECK(all.inside <= 0.95 * all.rows);
  for (const IntervalCheck& check : check_differences(rows, stated)) {
    CAPTURE(check.what, check.rows, check.inside);
    CHECK(check.inside >= 0.85 * check.rows);
    CHECK(check.inside <= 0.96 * check.rows);
  }
}

}  // namespace
}  // namespace foreshard::accuracy
