#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/verbs/verbs.hpp"
#include "tests/catch.hpp"
#include "tests/cli/run_cli.hpp"
#include "tests/temporary_folder.hpp"

using namespace foreshard::cli;
using foreshard::test::TemporaryFolder;

namespace {

const std::string kProbe = R"([
{"variant": "nccl", "world": 8, "op": "all_gather", "total_bytes": 16777216, "us": 70.5},
{"variant": "nccl", "world": 8, "op": "all_gather", "total_bytes": 67108864, "us": 195.0},
{"what": "hbm_copy", "gbps_read_plus_write": 2700}])";

}  // namespace

TEST_CASE("calibrate writes a profile that machines and plan read; --json says what was fitted") {
  const TemporaryFolder folder;
  const std::string out = folder.file("ours.json");
  const Answer answer =
      run_cli({"calibrate", folder.write("probe.json", kProbe), "-o", out, "--base", "h100", "--json"});
  INFO(answer.err);
  REQUIRE(answer.status == kDone);
  const auto json = nlohmann::json::parse(answer.out);
  CHECK(json["schema"] == 1);
  CHECK(json["tables"] == 1);
  CHECK(json["constants"][0]["place"] == "/rates/hbm");
  CHECK(json["constants"][0]["after"] == 2700);
  CHECK(json["inputs"][0]["digest"].get<std::string>().starts_with("xxh3:"));
  const Answer shown = run_cli({"machines", out, "--json"});
  REQUIRE(shown.status == kDone);
  CHECK(nlohmann::json::parse(shown.out)["name"] == "h100-calibrated");
  // What calibrate wrote can be calibrated further.
  const Answer again = run_cli({"calibrate", folder.file("probe.json"), "-o", folder.file("b.json"), "--base", out});
  INFO(again.err);
  CHECK(again.status == kDone);
  CHECK(again.out.find("residual of") != std::string::npos);
}

TEST_CASE("calibrate writes over nothing without --force, and nothing when it fails") {
  const TemporaryFolder folder;
  const std::string probe = folder.write("probe.json", kProbe);
  const std::string there = folder.write("there.json", "{}");
  CHECK(run_cli({"calibrate", probe, "-o", there}).status == 2);
  CHECK(run_cli({"calibrate", probe, "-o", there, "--force"}).status == kDone);
  const std::string none = folder.file("none.json");
  CHECK(run_cli({"calibrate", folder.write("cut.json", kProbe.substr(0, 150)), "-o", none}).status == 3);
  CHECK(run_cli({"calibrate", folder.file("missing"), "-o", none}).status == 3);
  CHECK(run_cli({"calibrate", folder.write("text", "hello"), "-o", none}).status == 3);
  CHECK(run_cli({"calibrate", probe, "-o", none, "--base", "h20"}).status == 2);
  CHECK(run_cli({"calibrate", probe, "-o", none, "--transport", "ncll"}).err.find("did you mean 'nccl'") !=
        std::string::npos);
  const std::string slow = folder.write("slow.json", R"([{"variant": "nccl", "world": 8, "op": "all_gather",
    "total_bytes": 16777216, "us": 700}])");
  CHECK(run_cli({"calibrate", probe, slow, "-o", none}).status == 4);
  CHECK_FALSE(std::filesystem::exists(none));
}

TEST_CASE("machines lists the profiles and prints one with its sources") {
  const Answer list = run_cli({"machines"});
  CHECK(list.status == kDone);
  for (const char* name : {"h200", "h100-96", "a100-40", "b200"}) CHECK(list.out.find(name) != std::string::npos);
  const Answer one = run_cli({"machines", "a100"});
  CHECK(one.out.find("/network/nic ") != std::string::npos);
  CHECK(one.out.find("HDR InfiniBand") != std::string::npos);
  const Answer unknown = run_cli({"machines", "h1000"});
  CHECK(unknown.status == 2);
  CHECK(unknown.err.find("h100") != std::string::npos);
}
