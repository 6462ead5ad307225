// Equal questions have equal fingerprints; whatever a result depends on changes it.

#include "cli/reports/fingerprint.hpp"

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "core/base/digest.hpp"
#include "tests/catch.hpp"
#include "tests/cli/run_cli.hpp"

using namespace foreshard;
using namespace foreshard::cli;

namespace {

std::string planned(std::vector<std::string> setting_options) {
  setting_options.insert(setting_options.begin(), {"plan", "mlp", "--gpus", "4", "--json"});
  return nlohmann::json::parse(run_cli(setting_options).out)["fingerprint"];
}

}  // namespace

TEST_CASE("the same plan has the same fingerprint, and every setting changes it") {
  const std::string base = planned({});
  CHECK(base.size() == 21);
  CHECK(base == planned({}));
  CHECK(base == planned({"--machine", "h200"}));
  std::set<std::string> all{base};
  all.insert(planned({"--forward-prefetch", "2"}));
  all.insert(planned({"--machine", "h100"}));
  all.insert(planned({"--memory-limit", "60GiB"}));
  all.insert(planned({"--layers", "3"}));
  CHECK(all.size() == 5);
}

TEST_CASE("what a rank skips, from which step on, and which rank it is, each changes the fingerprint") {
  std::set<std::string> all{planned({})};
  for (const char* skipped : {"1=layers.0", "1=layers.1", "2=layers.0", "1=layers.0@1", "1=layers.0@3"}) {
    const Answer answer = run_cli({"plan", "mlp", "--gpus", "4", "--json", "--skip-unit", skipped});
    all.insert(nlohmann::json::parse(answer.out)["fingerprint"].get<std::string>());
  }
  CHECK(all.size() == 6);
}

TEST_CASE("a profile that says the same has the same digest") {
  const auto folder = std::filesystem::temp_directory_path();
  const auto digest = [&](const std::string& text) {
    const std::string path = (folder / ("profile_" + digest_of(text).substr(5) + ".json")).string();
    std::ofstream(path) << text;
    const auto result = machine_digest(path);
    std::filesystem::remove(path);
    REQUIRE(result.has_value());
    return *result;
  };
  const std::string one = digest(R"({"extends": "h200", "name": "ours", "description": "x"})");
  CHECK(one == digest(R"({"description": "x", "name": "ours", "extends": "h200"})"));
  CHECK(one != digest(R"({"extends": "h100", "name": "ours", "description": "x"})"));
  CHECK(machine_digest("h200").value() != machine_digest("h100").value());
}

TEST_CASE("a store keeps the fingerprint of its plan, and explain and compare show it") {
  const std::filesystem::path store =
      std::filesystem::temp_directory_path() / ("fingerprint_" + digest_of(__FILE__).substr(5) + ".db");
  const Answer plan = run_cli({"plan", "mlp", "--gpus", "4", "--json", "--force", "-o", store.string()});
  REQUIRE(plan.status == 0);
  const std::string fingerprint = nlohmann::json::parse(plan.out)["fingerprint"];
  const auto compared = nlohmann::json::parse(run_cli({"compare", store.string(), store.string(), "--json"}).out);
  CHECK(compared["fingerprint"]["a"] == fingerprint);
  CHECK(compared["fingerprint"]["b"] == fingerprint);
  const auto explained = nlohmann::json::parse(run_cli({"explain", store.string(), "--no-remedies", "--json"}).out);
  CHECK(explained["fingerprint"] == fingerprint);
  CHECK(
      run_cli({"query", store.string(), "SELECT value FROM result WHERE key = 'fingerprint'"}).out.find(fingerprint) !=
      std::string::npos);
  std::filesystem::remove(store);
}

TEST_CASE("a sweep's fingerprint follows its ranges") {
  const auto swept = [](const std::string& depths) -> std::string {
    return nlohmann::json::parse(
        run_cli({"sweep", "mlp", "--gpus", "4", "--forward-prefetch", depths, "--json", "--quiet"}).out)["fingerprint"];
  };
  const std::string one = swept("1,2");
  CHECK(one == swept("1,2"));
  CHECK(one != swept("1,3"));
}
