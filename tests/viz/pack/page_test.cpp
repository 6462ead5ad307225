// The page as a file, and the command that writes it. What a browser shows is tested in tests/browser.

#include "viz/pack/page.hpp"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "core/run/plan_results.hpp"
#include "tests/cli/run_cli.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/viz/pack/decode.hpp"
#include "tests/viz/svg/drawn_runs.hpp"
#include "traces/store/store.hpp"

using namespace foreshard;
using namespace foreshard::viz;

namespace {

Pack pack_of(const Run& run) {
  auto pack = Pack::make(run, {});
  REQUIRE(pack);
  return std::move(*pack);
}

std::string page_of(const Run& run) {
  std::vector<Pack> packs;
  packs.push_back(pack_of(run));
  return page_file({run.info.name, "auto", {{"", run.info.name}}, ""}, packs,
                   {{"explain", R"({"headline":"</script>"})"}});
}

}  // namespace

TEST_CASE("every piece has a name of its own and can be read") {
  const Run run = small_run();
  const Pack pack = pack_of(run);
  CHECK(pack.names().front() == "meta");
  std::set<std::string> names;
  for (const std::string& name : pack.names()) {
    CHECK(names.insert(name).second);
    CHECK(name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789/") == std::string::npos);
    const auto piece = pack.piece(name);
    REQUIRE(piece);
    if (name != "meta" && name != "names") CHECK_FALSE(decoded(inflated(*piece)).empty());
  }
  CHECK_FALSE(pack.piece("no/such/piece"));
  CHECK_FALSE(pack.piece(""));
  const auto meta = nlohmann::json::parse(inflated(*pack.piece("meta")));
  CHECK(meta["schema"] == 2);
  for (std::size_t level = 0; level + 1 < meta["memory"]["levels"].size(); ++level)
    CHECK(names.contains("memory/lines/" + std::to_string(level) + "/0"));
  CHECK(table(pack, "find/blocks").at("block").size() == meta["blocks"]["count"]);
  CHECK(table(pack, "find/ops").at("name").size() == run.device_ops.size());
}

TEST_CASE("equal runs give equal pages") {
  CHECK(page_of(small_run()) == page_of(small_run()));
}

TEST_CASE("no name of a run reaches the page as markup") {
  Run run = small_run();
  const std::string bad = "</script><script>alert(1)</script><!--";
  run.info.name = run.units[1].name = run.streams[1].name = bad;
  const std::string page = page_of(run);
  CHECK(page.find("alert(1)</script>") == std::string::npos);
  CHECK(page.find("</script><script>alert") == std::string::npos);
  CHECK(page.find("<title>&lt;/script&gt;") != std::string::npos);
  // Nothing but the page's own scripts opens one: the built page's, the configuration, and the pieces.
  std::size_t scripts = 0;
  for (std::size_t at = page.find("<script"); at != std::string::npos; at = page.find("<script", at + 1)) ++scripts;
  CHECK(scripts == pack_of(run).names().size() + 1 + 2);
  CHECK(page.find("http://") == page.find("http://www.w3.org/2000/svg"));
}

TEST_CASE("a run without memory, and one without ops, make pages") {
  Run run = small_run();
  run.allocator.clear();
  run.blocks.clear();
  CHECK(page_of(run).size() > 1000);
  Run memory = small_run();
  memory.device_ops.clear();
  memory.host_ops.clear();
  CHECK(page_of(memory).size() > 1000);
  CHECK_FALSE(Pack::make(Run{}, {}));
}

TEST_CASE("beside times that count allocator events the device has no ops") {
  Run run = small_run();
  run.info.kind = RunKind::planned;
  const auto has_ops = [](const Run& of) {
    const auto pack = Pack::make(of, {});
    REQUIRE(pack);
    const std::vector<std::string>& names = pack->names();
    return std::find(names.begin(), names.end(), "ops/0") != names.end();
  };
  CHECK(has_ops(run));
  for (std::size_t i = 0; i < run.allocator.size(); ++i)
    run.allocator[i].time = Nanoseconds{static_cast<std::int64_t>(i)};
  REQUIRE(counts_events(run));
  CHECK_FALSE(has_ops(run));
  CHECK_FALSE(run.device_ops.empty());
}

TEST_CASE("a run of several ranks has what each does, and one of one rank has not") {
  CHECK_FALSE(Pack::make(small_run(), {})->piece("rankmap"));
  Run run = small_run();
  for (const std::uint32_t rank : {0U, 3U}) {
    run.ranks.push_back({rank, {}, {}});
    for (const DeviceOpRecord& op : run.device_ops) {
      run.rank_ops.push_back({rank, 0, {}, -1, op});
      if (rank == 3) run.rank_ops.back().op.end = run.rank_ops.back().op.end + Nanoseconds{20};
    }
  }
  const auto pack = Pack::make(run, {});
  REQUIRE(pack);
  const auto map = nlohmann::json::parse(inflated(*pack->piece("rankmap")));
  REQUIRE(map["rows"].size() == 2);
  CHECK(map["rows"][1]["name"] == "rank 3");
  CHECK(map["missing"] == "2 of 4 ranks are not kept: plan … --ranks all -o RUN keeps them");
  CHECK(map["states"].size() == 4);
  const NamedColumns cells = table(*pack, "rankcells");
  // Each row's cells follow one another, and every state is one of the map's.
  const Column &row = cells.at("row"), &start = cells.at("start"), &length = cells.at("length");
  REQUIRE(row.size() > 4);
  CHECK(std::is_sorted(row.begin(), row.end()));
  for (std::size_t i = 0; i < row.size(); ++i) {
    CHECK(cells.at("state")[i] < 4);
    CHECK(length[i] > 0);
    if (i > 0 && row[i] == row[i - 1]) CHECK(start[i] == start[i - 1] + length[i - 1]);
  }
}

TEST_CASE("view writes a page once, and again with --force") {
  const foreshard::test::TemporaryFolder folder;
  const std::string store = folder.file("run.db"), path = folder.file("run.html");
  REQUIRE(traces::write_run(small_run(), store, {.force = true}));
  CHECK(cli::run_cli({"view", store, "-o", path}).status == 0);
  const std::string page = foreshard::test::file_bytes(path);
  CHECK(page.starts_with("<!doctype html>"));
  CHECK(page.find("id=\"data:explain\"") != std::string::npos);
  CHECK(cli::run_cli({"view", store, "-o", path}).status == 2);
  CHECK(cli::run_cli({"view", store, "-o", path, "--force", "--theme", "dark", "--step", "0"}).status == 0);
  CHECK(cli::run_cli({"view", store, "-o", path, "--force", "--width", "900"}).status == 2);
  CHECK(cli::run_cli({"view", store, "-o", path, "--force", "--step", "9"}).status == 2);
}
