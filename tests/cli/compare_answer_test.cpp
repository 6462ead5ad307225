// The sentence that `compare` opens with says the same as its tables, and its parts add up.
#include "cli/reports/compare_answer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

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
    const Json& time = json["time"];
    const auto printed = [&](const char* key) { return time[key]["printed_difference"].get<double>(); };
    std::string key = name + "_ms";
    std::replace(key.begin(), key.end(), ' ', '_');
    const double shown =
        name == "isolated" ? printed("compute_ms") - printed("kernel_contention_ms") : printed(key.c_str());
    CHECK(std::stod(text) == Approx(shown).margin(1e-9));
    // Each side is rounded to its own hundredth: half of one each. Untraced is the digits of the reported step less
    // those of the timeline's, twice that a side; host or other takes what rounding left of the step's parts.
    const bool takes = name == "host" || name == "other" || name == "isolated";
    const double rounded = takes ? 0.03 : name == "untraced" ? 0.0201 : 0.0101;
    CHECK(shown == Approx(static_cast<double>(table[name]) / 1e6).margin(rounded));
  }
  double told_sum = 0;
  for (const std::string name : {"compute", "exposed communication", "host", "other", "untraced"}) {
    if (std::abs(table[name]) >= 40'000) CHECK(said.contains(name));
    if (said.contains(name)) told_sum += std::stod(said.at(name));
  }
  // As they are printed, where what is neither compute nor communication is long enough to take what rounding left.
  const auto can_take = [&](const char* side) {
    const Json &host = json["time"]["host_ms"][side], &other = json["time"]["other_ms"][side];
    return host.is_number() && other.is_number() && std::max(host.get<double>(), other.get<double>()) >= 0.02;
  };
  if (can_take("a") && can_take("b"))
    CHECK(told_sum == Approx(json["time"]["step_ms"]["printed_difference"].get<double>()).margin(1e-9));
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

/// The breakdown's row of all has the numbers of the first line.
void check_breakdown(const CompareReport& report) {
  std::ostringstream out;
  print_compare(out, report, 0);
  std::istringstream lines(out.str());
  std::map<std::string, std::string> of_all;
  std::vector<std::string> titles;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(std::regex_replace(line, std::regex(" {2,}"), "\n"));
    std::vector<std::string> cells;
    for (std::string cell; std::getline(words, cell);) cells.push_back(cell);
    if (!cells.empty() && cells.front() == "B - A, ms") titles = cells;
    for (std::size_t i = 1;
         !titles.empty() && cells.size() == titles.size() && cells.front() == "all" && i < cells.size(); ++i)
      of_all[titles[i]] = cells[i];
  }
  REQUIRE_FALSE(of_all.empty());
  const Json json = compare_json(report);
  for (auto [name, text] : told(json["answer"][0].get<std::string>())) {
    if (name == "compute") continue;
    INFO(name);
    CHECK(of_all[name == "isolated" ? "isolated compute" : name] == text);
  }
}

/// A run of one kernel a step, as long as `us_a_token` says of 4 samples of such lengths.
Run varied(RunKind kind, const std::vector<std::uint32_t>& lengths, double us_a_token) {
  Run run;
  run.info.kind = kind;
  run.units = {{"", {}}};
  run.streams = {{kComputeStream, "compute", 7, 0}};
  run.settings.batch = 4;
  run.settings.seq = lengths.front();
  const Recording recording = kind == RunKind::imported ? Recording::trace : Recording::run;
  Json steps = Json::array();
  std::vector<StepShape> shapes;
  Nanoseconds now{1000};
  double sum = 0;
  for (std::size_t k = 0; k < lengths.size(); ++k) {
    StepRecord step;
    step.recording = recording;
    step.index = static_cast<std::int32_t>(k);
    step.start = now;
    DeviceOpRecord op;
    op.stream = kComputeStream;
    op.label = run.labels.intern("gemm");
    op.issue = now;
    op.start = now + Nanoseconds{1000};
    op.end = op.start + Nanoseconds::from_double(4e3 * us_a_token * lengths[k]);
    run.device_ops.push_back(op);
    step.end = op.end;
    step.device_end = op.end;
    now = step.end;
    run.steps.push_back(step);
    shapes.push_back({4, lengths[k]});
    steps.push_back({{"batch", 4}, {"seq", lengths[k]}});
    if (k > 0) sum += 4 * us_a_token * lengths[k] / 1e3;
  }
  const std::size_t cycle = lengths.size() - 1;
  if (kind == RunKind::imported) {
    run.results[kStepShapes] = step_shapes_text(shapes, shapes);
    const double mean = sum / static_cast<double>(cycle);
    run.measured = Measured{{mean, mean, mean, mean, mean}, {}, static_cast<std::uint32_t>(cycle)};
  } else {
    run.results["steps"] = steps.dump();
    run.results["cycle"] = std::to_string(cycle);
    run.results["step_ms"] = fmt::format("{}", sum / static_cast<double>(cycle));
  }
  return run;
}

std::vector<std::string> answer_of(const Run& a, const Run& b, const ComparedSteps& steps = {}) {
  const auto report = compare_pair(a, "a.db", b, "b.db", steps);
  REQUIRE(report);
  return compare_answer(*report);
}

}  // namespace

TEST_CASE("of runs whose steps differ, steps of one size are laid side by side, and means of the same steps") {
  // The recording's last profiled step is of 1536 tokens a sample, the plan's steady one of 1024.
  const Run a = varied(RunKind::imported, {2048, 1536, 1024, 1536}, 2);
  const Run b = varied(RunKind::planned, {2048, 1536, 1024, 1536}, 3);
  const auto report = compare_pair(a, "a.db", b, "b.db");
  REQUIRE(report);
  CHECK(report->comparison.a.time->index == 3);
  CHECK(report->comparison.b.time->index == 1);
  const std::vector<std::string> lines = compare_answer(*report);
  CHECK(lines[0] ==
        "in the mean of the same steps, of 4 × 1536 and 4 × 1024 tokens a GPU: B takes 16.38 ms a step, 5.46 ms "
        "(50.0 %) more than A");
  CHECK(lines[1].starts_with(
      "of a step of 4 × 1536 tokens a GPU (step 3 of the trace of A, step 1 of B): B takes 18.43 ms a step, 6.14 ms "
      "(50.0 %) more than A: compute +6.14 ms"));
  const Json json = compare_json(*report);
  CHECK(json["time"]["mean_step_ms"]["printed_difference"].get<double>() == Approx(5.46));
  CHECK(json["work"]["a"]["step"] == json["work"]["b"]["step"]);
}

TEST_CASE("a profiler's first step is laid beside no other but another's first") {
  // A has 2048 tokens a sample in the profiler's first step alone, B in each.
  const Run a = varied(RunKind::imported, {2048, 1536, 1024}, 2);
  const Run b = varied(RunKind::imported, {2048, 2048, 2048}, 3);
  const auto both_first = compare_pair(a, "a.db", b, "b.db");
  REQUIRE(both_first);
  CHECK(both_first->comparison.a.time->index == 0);
  CHECK(both_first->comparison.b.time->index == 0);
  CHECK(compare_answer(*both_first)[1].find("; both are a profiler's first, and begin with an idle GPU): ") !=
        std::string::npos);
  // A plan has no profiler: its own steady step and A's last one are told to be of other sizes.
  const auto none = compare_pair(a, "a.db", varied(RunKind::planned, {2048, 2048, 2048}, 3), "b.db");
  REQUIRE(none);
  CHECK(none->comparison.a.time->index == 2);
  CHECK(compare_answer(*none)[1].starts_with("no two steps of the timelines are known to be of one size: step 2"));
}

TEST_CASE("of a recording whose steps do not differ, steps of the other's size are compared as they were measured") {
  Run a = varied(RunKind::imported, {1536, 1536}, 2);
  a.results.clear();
  const Run b = varied(RunKind::planned, {2048, 1536, 1024, 1536}, 3);
  const std::vector<std::string> lines = answer_of(a, b);
  REQUIRE(lines.size() > 1);
  CHECK(
      lines[1] ==
      "steps of 4 × 1536 tokens a GPU, measured without a profiler, against the plan's: B takes 18.43 ms a step, 6.14 "
      "ms (50.0 %) more than A");
}

TEST_CASE("steps of different work are compared a token, and nothing is said of why") {
  const Run a = varied(RunKind::planned, {2048, 1536, 1536}, 2);
  const Run b = varied(RunKind::planned, {1024, 512, 512}, 2);
  const std::vector<std::string> lines = answer_of(a, b);
  CHECK(
      lines[0] ==
      "A's step time, 12.29 ms, and B's, 4.10 ms, are of different work, 6144 and 2048 tokens a GPU: B takes 2.000 us "
      "a token, as long as A");
  CHECK(lines[1].starts_with("no two steps of the timelines are known to be of one size: step 2 of A is of 4 × 1536"));
  CHECK(lines[1].find("compute") == std::string::npos);
  // Steps that were asked for, too.
  const std::vector<std::string> asked = answer_of(a, a, {0, 1});
  CHECK(asked[0].find("are of different work, 8192 and 6144 tokens a GPU: B takes 2.000 us a token") !=
        std::string::npos);
  CHECK(asked[1].find(": compute -4.09 ms") != std::string::npos);
  CHECK(answer_of(a, a, {1, 2})[0].starts_with("B takes as long as A, 12.29 ms a step"));
}

TEST_CASE("two plans of one source say how well their difference is known") {
  Run a = random_pair_run(1, RunKind::planned);
  a.results = {{"step_ms", "100.0"}, {"difference", "0.02"}, {"host_confidence", "\"recorded\""}};
  Run b = a;
  b.results["step_ms"] = "99.0";
  b.results["difference"] = "0.03";
  const auto first = [](const Run& of_a, const Run& of_b) {
    return compare_answer(*compare_pair(of_a, "a.db", of_b, "b.db")).front();
  };
  const std::string less = "B takes 99.00 ms a step, 1.00 ms (1.0 %) less than A";
  CHECK(first(a, b).starts_with(less + " (± 3.00 ms, which a measurement may not tell apart)"));
  b.results["step_ms"] = "90.0";
  CHECK(first(a, b).starts_with("B takes 90.00 ms a step, 10.00 ms (10.0 %) less than A (± 3.00 ms)"));
  const auto report = compare_pair(a, "a.db", b, "b.db");
  const auto interval = compare_json(*report).at("planned_difference").at("interval");
  CHECK(interval.at("low") == -13);
  CHECK(interval.at("high") == -7);
  // Neither of another recording, nor of another machine, nor of what no difference is known of.
  const auto unknown = [&](auto change) {
    Run other = b;
    change(other);
    CHECK(compare_json(*compare_pair(a, "a.db", other, "b.db")).at("planned_difference").is_null());
  };
  unknown([](Run& run) { run.workload_json += " "; });
  unknown([](Run& run) { run.info.machine = "a100"; });
  unknown([](Run& run) { run.info.kind = RunKind::imported; });
  unknown([](Run& run) { run.results["host_confidence"] = "\"assumed\""; });
  unknown([](Run& run) { run.results["difference"] = "null"; });
}

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
    check_breakdown(*report);
  }
  CHECK(compared > 100);
}
