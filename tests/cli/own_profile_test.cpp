// Plans by a profile of foreshard's own run, which price a launch by what it computes, and their stores.
#include <nlohmann/json.hpp>

#include "tests/catch.hpp"
#include "tests/cli/run_cli.hpp"
#include "tests/temporary_folder.hpp"

using namespace foreshard::cli;
using foreshard::test::TemporaryFolder;
using nlohmann::json;

namespace {

json asked(std::vector<std::string> arguments) {
  arguments.emplace_back("--json");
  const Answer answer = run_cli(arguments);
  INFO(answer.err);
  REQUIRE(answer.status == 0);
  return json::parse(answer.out);
}

/// A plan of llama-tiny by a profile file whose host is foreshard's, and its store.
struct PlannedStore {
  TemporaryFolder folder;
  std::string machine = folder.write(
      "own.json",
      R"({"schema": 2, "name": "own", "extends": "h200", "host": {"program": {"value": "foreshard", "source": "a test"}}})");
  std::string store = folder.write("own.db", "");
  json plan =
      asked({"plan",           "llama-tiny", "--layers",  "2",     "--gpus",  "2",   "--param-dtype", "bfloat16",
             "--reduce-dtype", "float32",    "--seq",     "512",   "--batch", "1",   "--kernels",     "fused",
             "--lowering",     "foreshard",  "--machine", machine, "-o",      store, "--force"});
};

const std::string kNote = "the run's machine 'own' is not built in: h200 is taken; --machine FILE gives its profile";

}  // namespace

TEST_CASE("a plan of a store is the plan that the store is of", "[store]") {
  const PlannedStore plan_of_store;
  json again = asked({"plan", plan_of_store.store, "--machine", plan_of_store.machine});
  json first = plan_of_store.plan;
  first.erase("source");
  again.erase("source");
  CHECK(first["step_ms"].get<double>() > 0);
  CHECK(first["step_ms"] == again["step_ms"]);
  CHECK(first["warnings"] == again["warnings"]);
  CHECK(first == again);
  CHECK(asked({"explain", plan_of_store.store, "--machine", plan_of_store.machine})["simulated"]["step_ms"] ==
        first["step_ms"]);
}

TEST_CASE("explain says on whose machine it simulates remedies", "[explain]") {
  const PlannedStore plan_of_store;
  const json elsewhere = asked({"explain", plan_of_store.store});
  CHECK(elsewhere["simulated"]["machine"] == "h200");
  CHECK(elsewhere["simulated"]["machine_note"] == kNote);
  const Answer text = run_cli({"explain", plan_of_store.store});
  CHECK(text.out.find(kNote) != std::string::npos);
  CHECK(run_cli({"plan", plan_of_store.store}).err.find(kNote) != std::string::npos);
  const json there = asked({"explain", plan_of_store.store, "--machine", plan_of_store.machine});
  CHECK(there["simulated"]["machine"] == "own");
  CHECK(there["simulated"]["machine_note"].is_null());
}

TEST_CASE("the host's work in a store is that of the store's machine", "[store]") {
  const PlannedStore plan_of_store;
  const std::string store = plan_of_store.folder.write("h200.db", "");
  asked({"plan", "mlp", "--dim", "64", "--gpus", "2", "--lowering", "foreshard", "-o", store, "--force"});
  const std::string note = "the host's work is what the run's machine 'h200' says of it, not own's";
  CHECK(run_cli({"plan", store, "--machine", plan_of_store.machine}).err.find(note) != std::string::npos);
  CHECK(run_cli({"plan", store}).err.find("host's work") == std::string::npos);
  CHECK(run_cli({"plan", plan_of_store.store, "--machine", plan_of_store.machine}).err.find("host's work") ==
        std::string::npos);
  const json there = asked({"explain", store, "--machine", plan_of_store.machine});
  CHECK(there["simulated"]["machine_note"].get<std::string>().find(note) == 0);
}

TEST_CASE("a plan of a program whose host was not measured says that its host is assumed") {
  const PlannedStore plan_of_store;
  const auto assumed = [&](const std::string& source, const std::vector<std::string>& options) {
    std::vector<std::string> words{"plan", source, "--gpus", "2"};
    words.insert(words.end(), options.begin(), options.end());
    const json plan = asked(words);
    CAPTURE(plan.dump());
    const std::string warnings = plan["warnings"].dump();
    const bool said = warnings.find("the host is assumed") != std::string::npos;
    CHECK((plan["host_confidence"] == "assumed") == said);
    if (said && plan["host_bound"].get<bool>()) CHECK_FALSE(plan["valid"].get<bool>());
    return said;
  };
  CHECK_FALSE(assumed("mlp", {}));
  CHECK(assumed("mlp", {"--lowering", "foreshard"}));           // h200's is PyTorch's
  CHECK(assumed("mlp", {"--machine", plan_of_store.machine}));  // PyTorch, by name
  CHECK_FALSE(assumed("mlp", {"--machine", plan_of_store.machine, "--lowering", "foreshard"}));
  CHECK_FALSE(assumed(plan_of_store.store, {}));  // the store knows whose host its times are of, whatever the machine
  CHECK(assumed(plan_of_store.store, {"--lowering", "pytorch"}));
}

TEST_CASE("of a stored preset a remedy is timed as the preset is, also where blocks share fused kernels", "[explain]") {
  const PlannedStore plan_of_store;
  const json j = asked({"explain", plan_of_store.store, "--machine", plan_of_store.machine});
  bool checkpoints = false;
  for (const json& remedy : j["remedies"]) {
    INFO(remedy["setting"]);
    checkpoints |= remedy["setting"] == "--checkpoint blocks";
    CHECK_FALSE(remedy["step_ms"].is_null());
  }
  CHECK(checkpoints);
}
