// explain: the same numbers from a snapshot and from its store, on the terminal, as JSON and by SQL.
#include <fmt/format.h>

#include <map>
#include <nlohmann/json.hpp>

#include "cli/reports/explain_report.hpp"
#include "cli/terminal/output.hpp"
#include "cli/verbs/page_output.hpp"
#include "core/base/units.hpp"
#include "tests/catch.hpp"
#include "tests/cli/run_cli.hpp"
#include "tests/temporary_folder.hpp"
#include "traces/store/store.hpp"
#include "viz/scene/cause_colours.hpp"

using namespace foreshard;
using namespace foreshard::cli;
using nlohmann::json;

namespace {

const std::string kSample = "traces/samples/mlp_record1";

std::vector<std::string> snapshot_arguments(const std::string& verb) {
  return {verb, "--about", kSample + ".about.json", "--trace", kSample + ".trace.json.xz"};
}

/// The sample, imported once for each test.
struct Stored {
  test::TemporaryFolder folder;
  std::string path = folder.file("run.db");
  Stored() {
    std::vector<std::string> arguments = snapshot_arguments("import");
    for (const std::string& more : {std::string("--snapshot"), kSample + ".pickle.xz", std::string("-o"), path,
                                    std::string("--force"), std::string("--quiet")})
      arguments.push_back(more);
    const Answer answer = run_cli(arguments);
    INFO(answer.err);
    REQUIRE(answer.status == 0);
  }
};

json explain_json(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "explain");
  arguments.push_back("--json");
  const Answer answer = run_cli(arguments);
  INFO(answer.err);
  REQUIRE(answer.status == 0);
  return json::parse(answer.out);
}

/// GiB, with decimals.
Bytes gibibytes(double of) {
  return static_cast<Bytes>(of * static_cast<double>(kGiB));
}

/// A plan that ran out of memory, by hand.
Run failed_run() {
  Run run;
  run.info.kind = RunKind::planned;
  run.info.name = "full";
  run.streams.push_back({kComputeStream, "compute", 0, 0});
  BlockRecord block;
  block.address = Address{1} << 40;
  block.requested = block.size = 64 * kMiB;
  block.stream = kComputeStream;
  run.blocks.push_back(block);
  run.allocator.push_back({AllocatorAction::segment_alloc, block.address, block.size, kComputeStream, {0}, {}});
  run.allocator.push_back({AllocatorAction::alloc, block.address, block.size, kComputeStream, {1}, BlockId{0}});
  run.allocator.push_back({AllocatorAction::oom, kMiB, 32 * kMiB, kComputeStream, {2}, {}});
  return run;
}

}  // namespace

TEST_CASE("explain finds what was recorded, and predicts what was measured without it", "[explain]") {
  const Stored store;
  const json j = explain_json({store.path});
  CHECK(j["schema"] == kJsonSchema);
  CHECK(j["step"] == 3);
  CHECK(j["reserved_peak_bytes"] == 15606 * kMiB);
  const Bytes pending = j["pending_free_peak_bytes"];
  CHECK(static_cast<double>(pending) ==
        Approx(static_cast<double>(j["active_peak_bytes"].get<Bytes>() - j["allocated_peak_bytes"].get<Bytes>()))
            .epsilon(0.05));
  REQUIRE(j["causes"].size() == 1);
  CHECK(j["causes"][0]["cause"] == "record_stream");
  CHECK(j["causes"][0]["category"] == "gather_buffers");
  REQUIRE(j["remedies"].size() >= 3);
  const json& best = j["remedies"][0];
  CHECK(best["setting"] == "--release stash");
  CHECK(best["choice"] == best["setting"]);  // the former name
  CHECK(best["peak_reserved_bytes"] == 6470 * kMiB);
  CHECK(best["saving_bytes"] == (15606 - 6470) * kMiB);
  for (const json& remedy : j["remedies"]) {
    CHECK_FALSE(remedy["pytorch"].get<std::string>().empty());
    CHECK((remedy["step_ms"].is_number() || remedy["valid"] == false));  // not timed: another optimizer
  }
}

TEST_CASE("the snapshot and its store, the JSON and the SQL tell the same numbers", "[explain]") {
  const Stored store;
  json of_store = explain_json({store.path, "--no-remedies"});
  std::vector<std::string> arguments = snapshot_arguments(kSample + ".pickle.xz");
  arguments.push_back("--no-remedies");
  json of_snapshot = explain_json(arguments);
  of_store.erase("run");
  of_snapshot.erase("run");
  CHECK(of_store == of_snapshot);
  const json& gap = of_store["gap"];
  const std::string row = std::to_string(gap["event"].get<std::size_t>());
  const json sql = json::parse(run_cli({"query", store.path, "SELECT * FROM gap WHERE id = " + row, "--json"}).out);
  const auto column = [&](const std::string& name) {
    for (std::size_t i = 0; i < sql["columns"].size(); ++i)
      if (sql["columns"][i] == name) return sql["rows"][0][i];
    return json();
  };
  CHECK(column("ts") == gap["time_ns"]);
  for (const char* part : {"requested", "rounding", "pending_free", "hard_fragmentation", "soft_fragmentation",
                           "stream_fragmentation", "private_pools", "allocated", "active", "reserved", "gap"}) {
    INFO(part);
    CHECK(column(part) == gap[std::string(part) + "_bytes"]);
  }
  const json peak = json::parse(
      run_cli({"query", store.path, "SELECT max(reserved), max(pending_free), max(gap) FROM gap", "--json"}).out);
  CHECK(peak["rows"][0] == json::array({of_store["reserved_peak_bytes"], of_store["pending_free_peak_bytes"],
                                        of_store["gap_peak_bytes"]}));
  const Answer text = run_cli({"explain", store.path, "--no-remedies"});
  CHECK(text.out.find(of_store["headline"].get<std::string>()) != std::string::npos);
}

TEST_CASE("what made up the peak of allocated memory is what the store's view says", "[explain]") {
  const Stored store;
  const json j = explain_json({store.path, "--no-remedies"});
  std::map<std::string, Bytes> told, stored;
  for (const json& share : j["moments"]["allocated_peak"]["categories"])
    if (share["live_bytes"] != 0) told[share["category"]] = share["live_bytes"];
  const json sql = json::parse(
      run_cli({"query", store.path, "SELECT category, bytes FROM peak_by_category WHERE step = 3", "--json"}).out);
  for (const json& row : sql["rows"]) stored[row[0]] = row[1].get<Bytes>();
  CHECK(told == stored);
}

TEST_CASE("steps of a plan without times are told apart", "[explain]") {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("run.db"), plan = folder.file("plan.db");
  REQUIRE(
      run_cli({"import", "--snapshot", kSample + ".pickle.xz", "--about", kSample + ".about.json", "-o", path, "-q"})
          .status == 0);
  REQUIRE(run_cli({"plan", path, "-o", plan, "-q"}).status == 0);
  const json j = explain_json({plan, "--no-remedies"});
  const json steps = json::parse(
      run_cli({"query", plan, "SELECT peak_allocated, peak_active, peak_reserved FROM step ORDER BY step", "--json"})
          .out)["rows"];
  REQUIRE(steps.size() == j["steps"].size());
  for (std::size_t k = 0; k < steps.size(); ++k) {
    INFO(k);
    CHECK(j["steps"][k]["peak_allocated_bytes"] == steps[k][0]);
    CHECK(j["steps"][k]["peak_active_bytes"] == steps[k][1]);
    CHECK(j["steps"][k]["peak_reserved_bytes"] == steps[k][2]);
  }
  CHECK(j["step"] == steps.size() - 1);
  CHECK(run_cli({"plan", path}).out.find(fmt::format("memory at the peak (step {}", steps.size() - 1)) !=
        std::string::npos);
  const std::string text = run_cli({"explain", plan, "--no-remedies"}).out;
  const std::size_t at = text.find("reserved memory at its peak (at event ");
  REQUIRE(at != std::string::npos);
  CHECK(text.find(fmt::format(" of step {}", steps.size() - 1), at) < text.find(')', at));
}

TEST_CASE("each time in the first lines of explain --time stands in its tables, and in compare's", "[explain]") {
  const test::TemporaryFolder folder;
  for (const std::string& sample : {kSample, std::string("traces/samples/l1b_implicit")}) {
    INFO(sample);
    const std::string path = folder.file("run.db");
    REQUIRE(run_cli({"import", "--snapshot", sample + ".pickle.xz", "--trace", sample + ".trace.json.xz", "--about",
                     sample + ".about.json", "-o", path, "--force", "--quiet"})
                .status == 0);
    const Answer answer = run_cli({"explain", path, "--time", "--no-remedies"});
    REQUIRE(answer.status == 0);
    const std::size_t end = answer.out.find('\n');
    const std::string first = answer.out.substr(0, end), tables = answer.out.substr(end);
    std::size_t times = 0;
    for (std::size_t at = first.find(" ms"); at != std::string::npos; at = first.find(" ms", at + 1), ++times) {
      const std::size_t from = first.find_last_of(" (", at - 1) + 1;
      INFO(first.substr(from, at - from));
      CHECK(tables.find(" " + first.substr(from, at - from)) != std::string::npos);
    }
    CHECK(times >= 3);
    const json time = json::parse(run_cli({"explain", path, "--time", "--no-remedies", "--json"}).out);
    const json same = json::parse(run_cli({"compare", path, path, "--json"}).out);
    std::map<std::string, std::int64_t> sums;
    for (const json& row : same["budget"]) sums[row["cause"].get<std::string>()] += row["a_ns"].get<std::int64_t>();
    CHECK(sums["isolated_compute"] + sums["kernel_contention"] == time["compute_ns"]);
    CHECK(sums["kernel_contention"] == time["kernel_contention_ns"]);
    CHECK(sums["exposed_communication"] == time["exposed_communication_ns"]);
    CHECK(sums["host"] == time["host_ns"]);
    CHECK(sums["other"] == time["other_ns"]);
    const json asked = json::parse(run_cli({"query", path,
                                            "SELECT dur, compute_busy, exposed FROM step_summary WHERE recording = "
                                            "'trace' ORDER BY step DESC LIMIT 1",
                                            "--json"})
                                       .out);
    CHECK(asked["rows"][0] == json{time["step_ns"], time["compute_ns"], time["exposed_communication_ns"]});
  }
}

TEST_CASE("the page draws each cause in the picture's colour", "[explain]") {
  const Stored store;
  const auto run = traces::read_run(store.path);
  REQUIRE(run);
  std::ostringstream out, err;
  Console console{out, err};
  ExtraOptions options;
  options.machine.reset();
  const json time = page_extra("time", *run, store.path, options, console);
  CHECK(time["colours"].size() == kEnumSize<IdleCause>);
  for (const IdleCause cause : kEnumValues<IdleCause>)
    CHECK(time["colours"][std::string(name(cause))] == viz::cause_colour(cause));
}

TEST_CASE("explain takes a step, all of them, and a moment", "[explain]") {
  const Stored store;
  CHECK(explain_json({store.path, "--no-remedies", "--step", "0"})["step"] == 0);
  CHECK(explain_json({store.path, "--no-remedies", "--step", "all"})["step"].is_null());
  const json at = explain_json({store.path, "--no-remedies", "--at", "1ms", "--series", "5"});
  CHECK(at["gap"]["event"] == at["moments"]["asked"]["event"]);
  CHECK(at["series"].size() == 5);
}

TEST_CASE("a request that found no memory is explained first", "[explain]") {
  const test::TemporaryFolder folder;
  const std::string path = folder.file("oom.db");
  REQUIRE(traces::write_run(failed_run(), path, {.force = true}));
  const Answer answer = run_cli({"explain", path});
  CHECK(answer.status == 0);
  CHECK(answer.out.starts_with("out of memory: "));
  CHECK(answer.out.find("\nfull, the whole record: Out of memory: a request of 32 MiB found no memory") !=
        std::string::npos);
  CHECK(answer.out.find("room for this request alone: nothing that is free would do: 31 MiB more are needed") !=
        std::string::npos);
  CHECK(answer.out.find("not simulated: the store holds no workload") != std::string::npos);
}

TEST_CASE("without a cause the headline names what takes most of the gap, if that is more than noise", "[explain]") {
  const Run run;
  Explanation explanation;
  explanation.reserved_peak.at.parts.requested = 8 * kGiB;
  explanation.reserved_peak.at.parts.stream = 2 * kGiB;
  ExplainReport report{"run.db", run, explanation, sim::Remedies{}, {}};
  report.remedies->tried = 4;
  report.remedies->before = {.requested = 8 * kGiB, .allocated = 8 * kGiB, .active = 8 * kGiB, .reserved = 10 * kGiB};
  const auto add = [&](const char* setting, Bytes allocated, Bytes reserved, bool costs) {
    sim::Remedy& remedy = report.remedies->useful.emplace_back();
    remedy.setting = setting;
    remedy.peaks = {.requested = allocated, .allocated = allocated, .active = allocated, .reserved = reserved};
    remedy.saving = static_cast<std::int64_t>(10 * kGiB - reserved);
    remedy.costs = costs;
  };
  add("--less-allocated", 4 * kGiB, 6 * kGiB, false);  // what is over-allocated stays
  add("--noise", 8 * kGiB, 10 * kGiB - 200 * kMiB, false);
  CHECK(best_remedy(report)->setting == "--less-allocated");
  CHECK(
      headline(report).ends_with("None of 4 simulated changes gives back more of what is above than a plan is sure of "
                                 "(3 % of the peak); with less "
                                 "allocated, --less-allocated would bring it to 6 GiB (4 GiB less)."));
  report.remedies->useful.erase(report.remedies->useful.begin());
  CHECK(best_remedy(report) == nullptr);
  CHECK(headline(report).ends_with(
      "None of 4 simulated changes gives back more of it than a plan is sure of (3 % of the peak)."));
  add("--slow", 8 * kGiB, 9 * kGiB, true);
  CHECK(best_remedy(report)->setting == "--slow");
  add("--as-fast", 8 * kGiB, 9 * kGiB + 400 * kMiB, false);
  REQUIRE(best_remedy(report) != nullptr);
  CHECK(best_remedy(report)->setting == "--as-fast");
  CHECK(
      headline(report).ends_with(" --as-fast would bring it to 9.39 GiB (624 MiB less). --slow saves most: 9 GiB (1 "
                                 "GiB less)."));
  add("--less-allocated", 4 * kGiB, 6 * kGiB, false);
  CHECK(best_remedy(report)->setting == "--as-fast");
  CHECK(
      headline(report).ends_with(" --as-fast would bring it to 9.39 GiB (624 MiB less). --less-allocated saves most, "
                                 "of what is allocated: 6 GiB (4 "
                                 "GiB less)."));
}

TEST_CASE("of a run that retries the headline names what ends that, and savings say against what", "[explain]") {
  const Run run;
  Explanation explanation;
  explanation.reserved_peak.at.parts.requested = 8 * kGiB;
  explanation.reserved_peak.at.parts.stream = 4 * kGiB;
  ExplainReport report{"run.db", run, explanation, sim::Remedies{}, {}};
  report.remedies->tried = 2;
  report.remedies->before = {.requested = 8 * kGiB, .allocated = 8 * kGiB, .active = 8 * kGiB, .reserved = 10 * kGiB};
  const auto add = [&](const char* setting, Bytes reserved, bool retries) {
    sim::Remedy& remedy = report.remedies->useful.emplace_back();
    remedy.setting = setting;
    remedy.peaks = {.requested = 8 * kGiB, .allocated = 8 * kGiB, .active = 8 * kGiB, .reserved = reserved};
    remedy.saving = static_cast<std::int64_t>(10 * kGiB - reserved);
    remedy.retries_each_step = retries;
  };
  add("--most", 8 * kGiB, true);
  add("--ends", 9 * kGiB, false);
  CHECK(headline(report).ends_with(
      "--most would bring it to 8 GiB (2 GiB less than the 10 GiB that are simulated as it is)."));
  report.remedies->retries_each_step = true;
  CHECK(headline(report).ends_with(" --ends would end the retries: 9 GiB reserved."));
  CHECK(best_remedy(report)->setting == "--ends");
  report.remedies->useful.back().valid = false;
  report.remedies->useful.back().not_valid = {"no measurement"};
  CHECK(headline(report).ends_with(" --ends would end the retries: 9 GiB reserved; not valid: no measurement."));
  CHECK(best_remedy(report) == nullptr);
}

TEST_CASE("what explain cannot do it says", "[explain]") {
  CHECK(run_cli({"explain", "no-such-file.db"}).status == 3);
  const Stored store;
  CHECK(run_cli({"explain", store.path, "--step", "99"}).err.find("has no step 99") != std::string::npos);
  CHECK(run_cli({"explain", store.path, "--step", "soon"}).status == 2);
  CHECK(run_cli({"explain", store.path, "--at", "later"}).status == 2);
  CHECK(run_cli({"explain", store.path, "--trace", "x.json"}).status == 2);
  CHECK(run_cli({"explain", store.path, "--machine", "abacus"}).status == 2);
}

TEST_CASE("the first line's sizes are the table's, and add up as it does") {
  const Run run;
  Explanation explanation;
  MemoryParts& parts = explanation.reserved_peak.at.parts;
  parts.requested = gibibytes(34.9487);
  parts.hard = gibibytes(2.4449);
  parts.stream = gibibytes(4.2944);
  const PrintedParts printed = printed_memory_parts(parts);
  const ExplainReport report{"", run, explanation, {}, "none"};
  CHECK(format_bytes_fixed(printed.named[5]) == "4.30 GiB");  // 41.69 less 34.95 less 2.44; alone 4.29
  CHECK(
      headline(report).starts_with("Reserved memory peaks at 41.69 GiB, 6.74 GiB above what is allocated then, and "
                                   "nothing unusual holds it (most of it: 4.3 GiB "));
}
