// The sentence that `compare` opens with says the same as its tables, and its parts add up.
#include "cli/reports/compare_answer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "cli/verbs/compare_pair.hpp"
#include "tests/catch.hpp"
#include "tests/traces/export/random_run.hpp"

using namespace foreshard;
using namespace foreshard::cli;

namespace {

/// A random run, a hundred times as long, and reported to be up to 3 % longer or shorter than its timeline.
Run random_pair_run(std::uint64_t seed, RunKind kind) {
  Run run = test::RandomRun(seed, kind).make();
  const auto longer = [](Nanoseconds& time) { time.count *= 100; };
  for (StepRecord& step : run.steps) {
    longer(step.start);
    longer(step.end);
    if (step.device_end) longer(*step.device_end);
  }
  for (PhaseRecord& phase : run.phases) {
    longer(phase.start);
    longer(phase.end);
  }
  for (DeviceOpRecord& op : run.device_ops)
    for (Nanoseconds* time : {&op.issue, &op.start, &op.end}) longer(*time);
  for (HostOpRecord& op : run.host_ops)
    for (Nanoseconds* time : {&op.start, &op.end}) longer(*time);
  const StepRecord* step = timed_step(run);
  if (step == nullptr || !step->device_end || seed % 3 == 0) return run;
  const DeviceSpan span = *device_span(run, *step);
  run.results["step_ms"] =
      fmt::format("{:.6f}", (span.end - span.begin).ms() * (0.97 + 0.01 * static_cast<double>(seed % 7)));
  return run;
}

/// The parts of the sentence by name, as they are printed.
std::map<std::string, std::string> told(const std::string& line) {
  static const std::regex part(
      "(compute|exposed communication|host|other|untraced|isolated|kernel contention) "
      "([+-][0-9.]+) ms");
  std::map<std::string, std::string> out;
  for (auto at = std::sregex_iterator(line.begin(), line.end(), part); at != std::sregex_iterator(); ++at)
    CHECK(out.emplace((*at)[1], (*at)[2]).second);
  return out;
}

void check_parts(const CompareReport& report) {
  Nanoseconds sum;
  for (const StepPart& part : step_parts(report.comparison)) sum += part.difference;
  CHECK(sum == report.comparison.b.time->reported - report.comparison.a.time->reported);

  const Json json = compare_json(report);
  std::map<std::string, std::int64_t> table;
  for (const Json& row : json["budget"]) {
    std::string cause = row["cause"].get<std::string>();
    std::replace(cause.begin(), cause.end(), '_', ' ');
    table[cause] += row["difference_ns"].get<std::int64_t>();
  }
  table["compute"] = table["isolated compute"] + table["kernel contention"];
  table["isolated"] = table["isolated compute"];
  const auto said = told(json["answer"][0].get<std::string>());
  for (const auto& [name, text] : said) {
    INFO(name);
    CHECK(text == fmt::format("{:+.2f}", static_cast<double>(table[name]) / 1e6));
  }
  for (const std::string name : {"compute", "exposed communication", "host", "other", "untraced"})
    if (std::abs(table[name]) >= 5'000) CHECK(said.contains(name));
  for (const std::string key : {"compute", "kernel_contention", "exposed_communication", "host", "other", "untraced"}) {
    const Json& row = json["time"][key + "_ms"];
    std::string name = key;
    std::replace(name.begin(), name.end(), '_', ' ');
    INFO(name);
    if (!row["a"].is_null() && !row["b"].is_null())
      CHECK(row["b"].get<double>() - row["a"].get<double>() ==
            Approx(static_cast<double>(table[name]) / 1e6).margin(1e-9));
  }
}

}  // namespace

TEST_CASE("compare's sentence has its table's parts, and they add up to the difference of the steps") {
  std::size_t compared = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    INFO("seed " << seed);
    const Run a = random_pair_run(seed, seed % 2 == 0 ? RunKind::imported : RunKind::planned);
    const Run b = random_pair_run(seed + 1000, seed % 3 == 0 ? RunKind::imported : RunKind::planned);
    const auto report = compare_pair(a, "a.db", b, "b.db");
    REQUIRE(report);
    if (!report->comparison.a.time || !report->comparison.b.time || !report->a.step_ms || !report->b.step_ms) continue;
    ++compared;
    check_parts(*report);
  }
  CHECK(compared > 100);
}
