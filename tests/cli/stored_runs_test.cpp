// Verbs that read stores, on small runs made here.

#include <nlohmann/json.hpp>

#include "tests/catch.hpp"
#include "tests/cli/run_cli.hpp"
#include "tests/temporary_folder.hpp"
#include "traces/store/store.hpp"

using namespace foreshard;
using namespace foreshard::cli;
using nlohmann::json;

namespace {

Run small_run(double step_ms, Bytes reserved) {
  Run run;
  run.info.kind = RunKind::planned;
  run.info.name = "small";
  run.units.push_back({"", {}});
  run.streams.push_back({kComputeStream, "compute", 0, 0});
  StepRecord step;
  step.end = Nanoseconds::from_us(1000);
  step.peaks = {100, 512, 512, reserved};
  run.steps.push_back(step);
  run.phases.push_back({0, Recording::run, "forward", {0}, Nanoseconds::from_us(400)});
  run.results["step_ms"] = std::to_string(step_ms);
  return run;
}

struct TwoStores {
  test::TemporaryFolder folder;
  std::string a = folder.file("a.db");
  std::string b = folder.file("b.db");
  TwoStores() {
    Run other = small_run(8, 4 * kMiB);
    other.settings.forward_prefetch = 2;
    REQUIRE(traces::write_run(small_run(10, 2 * kMiB), a, {.force = true}));
    REQUIRE(traces::write_run(other, b, {.force = true}));
  }
};

}  // namespace

TEST_CASE("query prints a table, JSON and comma-separated values") {
  const TwoStores stores;
  const std::string sql = "SELECT name, dur FROM phase";
  const Answer table = run_cli({"query", stores.a, sql});
  CHECK(table.status == 0);
  CHECK(table.out == "name        dur\n-------  ------\nforward  400000\n");
  const json parsed = json::parse(run_cli({"query", stores.a, sql, "--json"}).out);
  CHECK(parsed["schema"] == 1);
  CHECK(parsed["columns"] == json::array({"name", "dur"}));
  CHECK(parsed["rows"] == json::array({json::array({"forward", 400000})}));
  CHECK(run_cli({"query", stores.a, sql, "--csv"}).out == "name,dur\nforward,400000\n");
  const Answer wrong = run_cli({"query", stores.a, "SELECT nothing FROM nowhere"});
  CHECK(wrong.status == 2);
  CHECK(wrong.out.empty());
}

TEST_CASE("--unverified is of one command, and not of those after it") {
  const TwoStores stores;
  std::string bytes = test::file_bytes(stores.a);
  bytes[bytes.size() - 2] = 'x';  // of the checksum
  test::write_file(stores.a, bytes);
  const std::vector<std::string> question{"query", stores.a, "SELECT 1", "--csv"};
  std::vector<std::string> anyway = question;
  anyway.push_back("--unverified");
  CHECK(run_cli(question).status == 3);
  const Answer read = run_cli(anyway);
  CHECK(read.status == 0);
  CHECK(read.err.find("no answer is sure") != std::string::npos);
  const Answer after = run_cli(question);
  CHECK(after.status == 3);
  CHECK(after.err.find("no answer is sure") == std::string::npos);
  for (const std::vector<std::string>& verb :
       std::vector<std::vector<std::string>>{{"explain", stores.a},
                                             {"compare", stores.a, stores.b},
                                             {"export", stores.a, "--format", "csv", "--table", "run"}}) {
    CHECK(run_cli(verb).err.find("those that were written") != std::string::npos);
    std::vector<std::string> open = verb;
    open.push_back("--unverified");
    CHECK(run_cli(open).err.find("those that were written") == std::string::npos);
  }
}

TEST_CASE("the JSON of every verb begins with one schema and the verb") {
  const TwoStores stores;
  const std::string sample = "traces/samples/mlp_implicit.pickle.xz";
  for (const std::vector<std::string>& verb : std::vector<std::vector<std::string>>{
           {"plan", "mlp"},
           {"sweep", "mlp", "--batch", "1,2"},
           {"compare", stores.a, stores.b},
           {"query", stores.a, "SELECT 1"},
           {"replay", sample},
           {"import", "--snapshot", sample, "--about", "traces/samples/mlp_implicit.about.json", "-o",
            stores.folder.file("i.db")},
           {"explain", stores.folder.file("i.db"), "--no-remedies"},
           {"machines"},
           {"rules", "--pytorch", "2.13", "--against", "2.11"}}) {
    std::vector<std::string> words = verb;
    words.push_back("--json");
    const Answer answer = run_cli(words);
    INFO(verb[0] << " " << answer.err);
    const std::string begin =
        "{\n  \"schema\": " + std::to_string(kJsonSchema) + ",\n  \"verb\": \"" + verb[0] + "\",\n";
    CHECK(answer.out.substr(0, begin.size()) == begin);
  }
}

TEST_CASE("compare names the settings that differ, times and peaks") {
  const TwoStores stores;
  const json both = json::parse(run_cli({"compare", stores.a, stores.b, "--json"}).out);
  CHECK(both["schema"] == 1);
  CHECK(both["settings"] == json::parse(R"({"forward_prefetch": {"a": "implicit", "b": 2}})"));
  CHECK(both["time"]["step_ms"] == json::parse(R"({"a": 10.0, "b": 8.0, "printed_difference": -2.0})"));
  CHECK(both["memory"]["peak_reserved_bytes"] ==
        json::parse(R"({"a": 2097152, "b": 4194304, "printed_difference": 2097152})"));
  CHECK(both["phase_host_ms"]["forward"]["a"] == 0.4);
  const Answer table = run_cli({"compare", stores.a, stores.b});
  CHECK(table.status == 0);
  CHECK(table.out.find("-20.0 %") != std::string::npos);
}

TEST_CASE("compare --exit-code says whether runs differ") {
  const TwoStores stores;
  CHECK(run_cli({"compare", stores.a, stores.a, "--exit-code"}).status == 0);
  CHECK(run_cli({"compare", stores.a, stores.b, "--exit-code"}).status == 13);
  CHECK(run_cli({"compare", stores.a, "/nonexistent.db"}).status == 3);
}
