// tune on a small preset: its JSON, the files that it writes, and the plans that it promises.
#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>

#include "cli/reports/tune_report.hpp"
#include "cli/terminal/early_end.hpp"
#include "cli/terminal/exit_code.hpp"
#include "tests/catch.hpp"
#include "tests/cli/run_cli.hpp"
#include "tests/temporary_folder.hpp"

using namespace foreshard::cli;
using foreshard::test::file_bytes;
using foreshard::test::TemporaryFolder;
using nlohmann::json;

namespace {

std::vector<std::string> tuned(std::vector<std::string> more) {
  std::vector<std::string> arguments{"tune", "mlp", "--dim", "2048", "--layers", "6", "--gpus", "4"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

json tune_answer(std::vector<std::string> more) {
  more.emplace_back("--json");
  const Answer answer = run_cli(tuned(more));
  INFO(answer.err);
  REQUIRE(answer.status == 0);
  return json::parse(answer.out);
}

/// The arguments of "foreshard plan …", which has no word with a blank in it.
std::vector<std::string> words(const std::string& command) {
  std::vector<std::string> out;
  for (std::size_t from = 0; from < command.size();) {
    const std::size_t blank = std::min(command.find(' ', from), command.size());
    std::string word = command.substr(from, blank - from);
    std::erase(word, '\'');
    out.push_back(word);
    from = blank + 1;
  }
  out.erase(out.begin());
  return out;
}

}  // namespace

TEST_CASE("every number of a search is plan's of the command beside it, to the digit", "[tune]") {
  const json result = tune_answer({});
  CHECK(result["schema"] == 1);
  CHECK(result["verb"] == "tune");
  const double equal = 1.0025;  // steps that differ by less are equal, and of them the smaller is the answer
  CHECK(result["best"]["step_ms"].get<double>() <= result["uniform"]["step_ms"].get<double>() * equal);
  CHECK(result["best"]["step_ms"].get<double>() <= result["depth"]["step_ms"].get<double>() * equal);
  CHECK(result["best"]["step_ms"].get<double>() >= result["bound_ms"].get<double>());
  std::vector<json> points{result["start"], result["best"], result["uniform"], result["depth"]};
  for (const json& next : result["next"]) points.push_back(next);
  for (const json& point : points) {
    std::vector<std::string> plan = words(point["command"]);
    plan.emplace_back("--json");
    const Answer answer = run_cli(plan);
    INFO(point["command"] << '\n' << answer.err);
    REQUIRE(answer.status == 0);
    const json planned = json::parse(answer.out);
    for (const char* key :
         {"step_ms", "host_ms", "exposed_communication_ms", "peak_requested_bytes", "peak_allocated_bytes",
          "peak_active_bytes", "peak_reserved_bytes", "num_alloc_retries", "valid", "not_valid"})
      CHECK(planned[key] == point[key]);
  }
}

TEST_CASE("the best's lists and run are written", "[tune]") {
  const TemporaryFolder folder;
  const std::string lists = (folder.path() / "lists.json").string();
  const std::string run = (folder.path() / "best.db").string();
  const json result = tune_answer({"--points", "60", "--lists", lists, "-o", run});
  CHECK(json::parse(file_bytes(lists)).is_object());
  const Answer again = run_cli({"plan", run, "--json"});
  REQUIRE(again.status == 0);
  CHECK(json::parse(again.out)["step_ms"] == result["best"]["step_ms"]);
  CHECK(run_cli(tuned({"--points", "60", "--lists", lists})).status == 2);  // it is there
}

TEST_CASE("wrong questions of a search", "[tune]") {
  const Answer unknown = run_cli(tuned({"--keep", "prefetch,wings"}));
  CHECK(unknown.status == 2);
  CHECK(unknown.err.find("'wings'") != std::string::npos);
  CHECK(run_cli(tuned({"--points", "0"})).status == 2);
  CHECK(run_cli(tuned({"--time-limit", "5"})).status == 2);  // 5 of what?
  CHECK(run_cli(tuned({"--memory-limit", "64MiB"})).status == 10);
  CHECK(run_cli(tuned({"--replicate", "3"})).status == 2);
}

TEST_CASE("a CUDA graph matters where it is told apart from the best without it") {
  CHECK(worth_of(1.0, 0.022) == GraphWorth::nothing);
  CHECK(worth_of(0.991, 0.022) == GraphWorth::not_told_apart);
  CHECK(worth_of(0.9, 0.022) == GraphWorth::faster);
}

TEST_CASE("a search that is interrupted answers with the best so far, and says so", "[tune]") {
  const EarlyEnd early;
  REQUIRE(keep_signal(SIGINT));
  CHECK_FALSE(keep_signal(SIGINT));  // the second one ends the process
  const Answer words = run_cli(tuned({}));
  const Answer answer = run_cli(tuned({"--json"}));
  forget_signal();
  CHECK(words.status == kInterrupted);
  CHECK(words.out.find("; interrupted: another run may end elsewhere") != std::string::npos);
  CHECK(answer.status == kInterrupted);
  const json result = json::parse(answer.out);
  CHECK(result["searched"]["ended_by"] == "interrupted");
  CHECK(result["searched"]["points"] == 1);
  CHECK(result["fingerprint"].is_null());
  CHECK(result["best"]["step_ms"] == result["start"]["step_ms"]);
}
