// What a profile states about its own error, against the committed errors of rows that none of its constants saw.
#include "accuracy/intervals.hpp"

#include <cmath>

#include "tests/baseline.hpp"

namespace foreshard::accuracy {
namespace {

Baseline committed() {
  std::ifstream file("tests/reference/accuracy_baseline.csv", std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  return read_baseline(text, "accuracy_baseline.csv").value();
}

/// Measured over predicted, less one, of the rows of a table that `held_out` picks by name.
template <class F>
std::vector<double> errors_of(std::string_view table, std::string_view metric, F held_out) {
  std::vector<double> out;
  for (const auto& [key, value] : committed())
    if (std::get<0>(key) == table && std::get<2>(key) == metric && held_out(std::get<1>(key)))
      out.push_back(1 / (1 + value) - 1);
  return out;
}

/// Neither below the mean error nor so narrow that fewer than four of five rows lie inside.
void hold_interval(const std::vector<double>& errors, double stated) {
  REQUIRE_FALSE(errors.empty());
  ErrorSum sum;
  for (const double error : errors) sum.add(error);
  CAPTURE(errors.size(), sum.mean(), needed_half_width(errors), stated);
  CHECK(stated >= sum.mean());
  CHECK(stated >= needed_half_width(errors));
}

/// The side that a plan from the model says of the held-out runs, which the baseline does not have (docs/accuracy.md).
bool is_host_bound(std::string_view run) {
  return run == "lora_l3b" || run == "tp2_l3b";
}

TEST_CASE("the half width that holds four of five rows") {
  CHECK(needed_half_width({}) == 0);
  CHECK(needed_half_width({-0.3}) == 0.3);
  CHECK(needed_half_width({0.01, -0.05, 0.02, 0.4, -0.03}) == 0.05);
  CHECK(needed_half_width({0.01, -0.05, 0.02, 0.4, -0.03, 0.06}) == 0.06);
}

TEST_CASE("no interval of h200 is narrower than its held-out errors") {
  using sim::ConstantUse;
  const auto machine = sim::builtin_profile("h200");
  REQUIRE(machine);
  const auto held_out = [&](ConstantUse use, std::string_view run) {
    return seen(*machine, use, run) == AccuracyRow::Seen::held_out;
  };
  for (const bool host_bound : {false, true})
    hold_interval(errors_of("model", "step",
                            [&](const std::string& run) {
                              return held_out(ConstantUse::model, run) && is_host_bound(run) == host_bound;
                            }),
                  host_bound ? machine->prediction.model_host : machine->prediction.model);
  hold_interval(errors_of("recording", "step",
                          [&](const std::string& pair) {
                            const std::size_t arrow = pair.find(" -> ");
                            const std::string run = pair.substr(arrow + 4);
                            return pair.substr(0, arrow) != run && held_out(ConstantUse::recording, run);
                          }),
                machine->prediction.gpu_bound);
}

TEST_CASE("the interval of machines that nothing was measured on is that of published throughputs") {
  // A rate's error, predicted over published, is the step's measured over predicted.
  std::vector<double> errors;
  for (const double error : errors_of("published throughput", "tokens", [](const std::string&) { return true; }))
    errors.push_back(1 / (1 + error) - 1);
  hold_interval(errors, sim::builtin_profile("h200")->prediction.model_elsewhere);
}

TEST_CASE("rows are counted by the constant that their plans' intervals come from") {
  Accuracy accuracy;
  const auto add = [&](AccuracyRow::From from, bool host_bound, double predicted, double measured, double uncertainty) {
    AccuracyRow row;
    row.from = from;
    row.seen = AccuracyRow::Seen::held_out;
    row.has_time = true;
    row.host_bound = host_bound;
    row.step_ms = predicted;
    row.measured.median_ms = measured;
    row.uncertainty = uncertainty;
    accuracy.rows.push_back(row);
  };
  using From = AccuracyRow::From;
  add(From::model, false, 100, 105, 0.1);
  add(From::model, false, 100, 125, 0.2);
  add(From::model, true, 100, 150, 0.3);
  add(From::itself, false, 100, 100, 0.1);
  accuracy.rows.push_back(accuracy.rows.front());
  accuracy.rows.back().differs = "it did something else";
  const auto checks = check_intervals(accuracy, AccuracyRow::Seen::held_out);
  REQUIRE(checks.size() == 4);
  CHECK(checks[0].error.count == 0);
  const IntervalCheck& model = checks[2];
  CHECK(model.error.count == 2);
  CHECK(model.inside == 1);
  CHECK(model.needed == Approx(0.25));
  CHECK(model.least == 0.1);
  CHECK(model.most == 0.2);
  CHECK(checks[3].error.count == 1);
  CHECK(check_intervals(accuracy, AccuracyRow::Seen::fitted)[2].error.count == 0);
}

}  // namespace
}  // namespace foreshard::accuracy
