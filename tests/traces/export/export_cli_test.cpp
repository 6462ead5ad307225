// `foreshard export` and `foreshard compare` at the front door.

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/verbs/verbs.hpp"
#include "tests/catch.hpp"
#include "tests/cli/run_cli.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/traces/export/random_run.hpp"
#include "traces/store/store.hpp"

using namespace foreshard;
using namespace foreshard::cli;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

struct Folder : test::TemporaryFolder {
  [[nodiscard]] std::string store(std::uint64_t seed, RunKind kind) const {
    const std::string name = file(std::to_string(seed) + ".db");
    REQUIRE(traces::write_run(test::RandomRun(seed, kind).make(), name, {.force = true}));
    return name;
  }
  [[nodiscard]] std::size_t files() const {
    return static_cast<std::size_t>(std::distance(fs::directory_iterator(path()), {}));
  }
};

}  // namespace

TEST_CASE("export writes every format, to a file and to standard output alike, twice the same") {
  const Folder folder;
  const std::string store = folder.store(5, RunKind::planned);
  for (const std::string format : {"perfetto", "chrome", "snapshot", "dot", "chakra"}) {
    INFO(format);
    const std::string out = folder.file("out." + format);
    const Answer written = run_cli({"export", store, "--format", format, "-o", out});
    CHECK(written.status == 0);
    CHECK(written.out.empty());
    CHECK(written.err.find("wrote " + out) == 0);
    const Answer shown = run_cli({"export", store, "--format", format, "-o", "-"});
    CHECK(shown.status == 0);
    CHECK((shown.out == test::file_bytes(out)));
    CHECK_FALSE(shown.out.empty());
  }
}

TEST_CASE("export packs by name and never writes over a file unasked") {
  const Folder folder;
  const std::string store = folder.store(5, RunKind::planned);
  const std::string out = folder.file("run.perfetto.gz");
  REQUIRE(run_cli({"export", store, "--format", "perfetto", "-o", out}).status == 0);
  CHECK(test::file_bytes(out).substr(0, 2) == "\x1f\x8b");
  const std::string before = test::file_bytes(out);
  const Answer again = run_cli({"export", store, "--format", "chrome", "-o", out});
  CHECK(again.status == 2);
  CHECK(again.err.find("--force") != std::string::npos);
  CHECK((test::file_bytes(out) == before));
  CHECK(run_cli({"export", store, "--format", "chrome", "-o", out, "--force"}).status == 0);
  CHECK((test::file_bytes(out) != before));
  CHECK(folder.files() == 2);  // no partial files
}

TEST_CASE("export csv: one file a table, one table, or a view") {
  const Folder folder;
  const std::string store = folder.store(6, RunKind::imported);
  const std::string tables = folder.file("tables");
  REQUIRE(run_cli({"export", store, "--format", "csv", "-o", tables, "-q"}).status == 0);
  const std::string ops = test::file_bytes(tables + "/device_op.csv");
  CHECK(ops.starts_with("id,kind,stream,"));
  CHECK(ops == run_cli({"query", store, "SELECT * FROM device_op", "--csv"}).out);
  CHECK(ops == run_cli({"export", store, "--format", "csv", "--table", "device_op"}).out);
  CHECK(run_cli({"export", store, "--format", "csv", "--table", "step_summary"}).out ==
        run_cli({"query", store, "SELECT * FROM step_summary", "--csv"}).out);
  CHECK(run_cli({"export", store, "--format", "csv", "-o", tables}).status == 2);
  const Answer wrong = run_cli({"export", store, "--format", "csv", "--table", "device_ops"});
  CHECK(wrong.status == 2);
  CHECK(wrong.err.find("device_op'") != std::string::npos);
}

TEST_CASE("export refuses what it cannot do, and leaves nothing behind") {
  const Folder folder;
  const std::string store = folder.store(7, RunKind::planned);
  const std::string out = folder.file("out");
  const std::vector<std::vector<std::string>> wrong{
      {"--format", "perfeto", "-o", out},
      {"--format", "perfetto"},
      {"--format", "perfetto", "-o", out, "--step", "99"},
      {"--format", "perfetto", "-o", out, "--step", "x"},
      {"--format", "snapshot", "-o", out, "--step", "1"},
      {"--format", "csv"},
      {"--format", "csv", "-o", out, "--step", "1"},
      {"--format", "dot", "-o", out, "--table", "step"},
      {"--format", "dot", "-o", out, "--collapse", "layers"},
      {"--format", "svg-graph"},
      {"--format", "dot", "-o", folder.file("no/such/folder")},
  };
  for (const auto& arguments : wrong) {
    std::vector<std::string> all{"export", store};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const Answer answer = run_cli(all);
    INFO(answer.err);
    CHECK((answer.status == 2 || answer.status == 3));
    CHECK(answer.out.empty());
    CHECK(answer.err.starts_with("error: "));
  }
  CHECK(run_cli({"export", folder.file("nothing.db"), "--format", "dot"}).status == 3);
  CHECK(folder.files() == 1);
}

TEST_CASE("compare: the budget's rows add up to the difference of the step times it shows") {
  const Folder folder;
  const std::string a = folder.store(8, RunKind::imported);
  const std::string b = folder.store(9, RunKind::planned);
  const json parsed = json::parse(run_cli({"compare", a, b, "--json"}).out);
  REQUIRE_FALSE(parsed["budget"].empty());
  std::int64_t of_a = 0, of_b = 0, difference = 0;
  for (const json& row : parsed["budget"]) {
    of_a += row["a_ns"].get<std::int64_t>();
    of_b += row["b_ns"].get<std::int64_t>();
    difference += row["difference_ns"].get<std::int64_t>();
  }
  CHECK(of_a == parsed["steps"]["a"]["time"]["reported_ns"]);
  CHECK(of_b == parsed["steps"]["b"]["time"]["reported_ns"]);
  CHECK(difference == of_b - of_a);
  CHECK(run_cli({"compare", a, b}).out.find("why the steps differ") != std::string::npos);
  CHECK(run_cli({"compare", a, b, "--exit-code"}).status == kDiffers);
  CHECK(run_cli({"compare", a, a, "--exit-code"}).status == kDone);
  const json first = json::parse(run_cli({"compare", b, b, "--step", "0", "--json"}).out);
  CHECK(first["steps"]["a"]["time"]["step"] == 0);
  CHECK(first["step_ms_source"]["a"] == "timeline");
  CHECK(run_cli({"compare", b, b, "--step", "9"}).status == 2);
}
