// explain --time: the command of every remedy plans the step that the remedy says.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/catch.hpp"
#include "tests/cli/run_cli.hpp"
#include "tests/temporary_folder.hpp"

using namespace foreshard;
using namespace foreshard::cli;

namespace {

std::string out_of(const std::vector<std::string>& arguments) {
  const Answer answer = run_cli(arguments);
  INFO(answer.err);
  REQUIRE(answer.status == 0);
  return answer.out;
}

/// The words of a command of `foreshard`, without its name.
std::vector<std::string> words_of(const std::string& command) {
  std::istringstream text(command);
  std::vector<std::string> out;
  for (std::string word; text >> word;) {
    if (word.size() >= 2 && word.front() == '\'' && word.back() == '\'') word = word.substr(1, word.size() - 2);
    out.push_back(word);
  }
  REQUIRE_FALSE(out.empty());
  REQUIRE(out.front() == "foreshard");
  out.erase(out.begin());
  return out;
}

nlohmann::json explained(const std::string& run) {
  return nlohmann::json::parse(out_of({"explain", run, "--time", "--json"})).at("remedies");
}

/// All of them, or of each list the first `most`; their settings.
std::vector<std::string> check_commands(const nlohmann::json& remedies, std::size_t most = SIZE_MAX) {
  std::vector<std::string> settings;
  for (const char* list : {"faster", "not_valid", "no_difference", "slower"})
    for (std::size_t i = 0; i < std::min(most, remedies.at(list).size()); ++i) {
      const nlohmann::json& remedy = remedies.at(list)[i];
      const std::string command = remedy.at("command");
      INFO(list << ": " << command);
      CHECK_FALSE(remedy.at("pytorch").get<std::string>().empty());
      CHECK_FALSE(remedy.at("reason").get<std::string>().empty());
      const double within = remedy.at("saved_ms_interval")[1].get<double>() - remedy.at("saved_ms").get<double>();
      CHECK(within > 0);
      settings.push_back(remedy.at("setting"));
      std::vector<std::string> words = words_of(command);
      words.emplace_back("--json");
      const nlohmann::json plan = nlohmann::json::parse(out_of(words));
      CHECK(plan.at("step_ms") == remedy.at("step_ms"));
      CHECK(plan.at("exposed_communication_ms") == remedy.at("exposed_communication_ms"));
      CHECK(plan.at("peak_reserved_bytes") == remedy.at("peak_reserved_bytes"));
    }
  return settings;
}

bool contains(const std::vector<std::string>& list, const std::string& text) {
  return std::find(list.begin(), list.end(), text) != list.end();
}

std::string imported(const test::TemporaryFolder& folder) {
  const std::string sample = "traces/samples/l1b_implicit", run = folder.file("l1b.db");
  (void)out_of({"import", "--snapshot", sample + ".pickle.xz", "--trace", sample + ".trace.json.xz", "--about",
                sample + ".about.json", "-o", run, "--quiet"});
  return run;
}

}  // namespace

TEST_CASE("each remedy of a model's plan comes with a command that plans it", "[explain]") {
  const test::TemporaryFolder folder;
  const std::string run = folder.file("model.db");
  (void)out_of({"plan", "llama-tiny", "--gpus", "4", "--batch", "2", "--seq", "512", "--param-dtype", "bfloat16",
                "--reduce-dtype", "float32", "-o", run});
  const nlohmann::json remedies = explained(run);
  const auto settings = check_commands(remedies);
  for (const char* wanted : {"--optimizer adam-fused", "--separate-reduce-scatter-group",
                             "--fully-shard-embedding-and-head", "--units-per-group 2", "--cuda-graph 3"}) {
    INFO(wanted);
    CHECK(contains(settings, wanted));
  }
  CHECK(remedies.at("not_split").is_null());
}

TEST_CASE("each remedy of a recording comes with a command that plans it", "[explain]") {
  const test::TemporaryFolder folder;
  const std::string run = imported(folder);
  const nlohmann::json remedies = explained(run);
  const auto settings = check_commands(remedies);
  CHECK(contains(settings, "--separate-reduce-scatter-group"));
  CHECK(contains(settings, "--optimizer adam-fused"));  // its kernels are the profile's
  CHECK_FALSE(contains(settings, "--fully-shard-embedding-and-head"));
}

TEST_CASE("commands begin with what was planned, which the store has", "[explain]") {
  const test::TemporaryFolder folder;
  const std::string recorded = imported(folder), planned = folder.file("planned.db");
  (void)out_of({"plan", recorded, "--forward-prefetch", "2", "--memory-limit", "60GiB", "-o", planned});
  const nlohmann::json remedies = explained(planned);
  (void)check_commands(remedies, 2);
  const std::string command = remedies.at("faster")[0].at("command");
  CHECK(command.find("--forward-prefetch 2") == std::string::npos);
  CHECK(command.find("--memory-limit") == std::string::npos);
}

TEST_CASE("a snapshot has no store to plan from", "[explain]") {
  const std::string sample = "traces/samples/l1b_implicit";
  const nlohmann::json remedies =
      nlohmann::json::parse(out_of({"explain", sample + ".pickle.xz", "--trace", sample + ".trace.json.xz", "--about",
                                    sample + ".about.json", "--time", "--json"}))
          .at("remedies");
  CHECK(remedies.at("faster")[0].at("command").is_null());
}
