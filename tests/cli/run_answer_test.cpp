// What a stored run answers: as plan said it, or from what was recorded.
#include "cli/reports/run_answer.hpp"

#include <nlohmann/json.hpp>

#include "tests/catch.hpp"
#include "tests/cli/run_cli.hpp"
#include "tests/temporary_folder.hpp"
#include "traces/store/store.hpp"

using namespace foreshard;
using namespace foreshard::cli;
using foreshard::test::TemporaryFolder;

namespace {

/// plan's --json, and the run that it stored.
std::pair<nlohmann::json, Run> planned(const TemporaryFolder& folder, std::vector<std::string> more) {
  const std::string path = folder.file("run.db");
  std::vector<std::string> words{"plan", "mlp", "--layers", "4", "--dim", "2048", "--gpus", "4", "--json", "-o", path};
  words.insert(words.end(), more.begin(), more.end());
  const auto answer = run_cli(words);
  INFO(answer.err);
  auto run = traces::read_run(path);
  REQUIRE(run);
  return {nlohmann::json::parse(answer.out), std::move(*run)};
}

}  // namespace

TEST_CASE("a stored plan answers with plan's opening lines") {
  const TemporaryFolder folder;
  const auto [json, run] = planned(folder, {});
  const RunAnswer answer = run_answer(run);
  REQUIRE_FALSE(answer.lines.empty());
  CHECK(answer.lines.front() == json["answer"][0]);
  CHECK(answer.lines.front().starts_with("fits: "));
  CHECK(answer.lines.size() + answer.not_valid.size() == json["answer"].size());
  CHECK(fits_word(answer) == "fits");
  CHECK(*answer.capacity == json["memory_capacity_bytes"].get<Bytes>());
  CHECK(answer.capacity_of == "h200");
  CHECK(*answer.step_ms == Approx(json["step_ms"].get<double>()));
  CHECK(answer.step_source == "predicted");
  const Json piece = run_answer_json(answer);
  CHECK(piece["lines"] == answer.lines);
  CHECK(piece["capacity_bytes"] == *answer.capacity);
}

TEST_CASE("a plan's limit is its capacity, and running out of it is said") {
  const TemporaryFolder folder;
  const auto [json, run] = planned(folder, {"--memory-limit", "300MiB"});
  const RunAnswer answer = run_answer(run);
  CHECK(answer.lines.front().starts_with("does not fit: "));
  CHECK(fits_word(answer) == "out of memory");
  CHECK(*answer.capacity == 300 * kMiB);
}

TEST_CASE("a run that no plan answered for says what was recorded") {
  Run run;
  run.info.gpu = "NVIDIA H200";
  run.settings.batch = 2;
  run.settings.seq = 1024;
  run.info.warnings = {"a warning"};
  StepRecord step{Recording::snapshot, 0, {}, Nanoseconds{5'000'000}, {}, {}, 0, 0};
  step.peaks.reserved = 20 * kGiB;
  run.steps.push_back(step);
  const RunAnswer answer = run_answer(run);
  REQUIRE(answer.lines.size() >= 1);
  CHECK(answer.lines.front().starts_with("fits: 20 GiB of "));
  CHECK(answer.lines.front().find("reserved at the peak") != std::string::npos);
  CHECK(answer.capacity_of == "h200");
  CHECK(answer.warnings == std::vector<std::string>{"a warning"});
  run.info.gpu = "some other GPU";
  const RunAnswer unknown = run_answer(run);
  CHECK_FALSE(unknown.capacity);
  CHECK(fits_word(unknown).empty());
  CHECK(unknown.lines.front() ==
        "fits: not known: 20 GiB reserved at the peak, and what the GPU has is in no profile and no trace");
  CHECK(run_answer_json(unknown)["capacity_bytes"].is_null());
  CHECK(fit_json(unknown)["headroom_bytes"].is_null());
  // A recording's machine may be another GPU's profile, which contention was taken out with: its memory is not meant.
  run.info.kind = RunKind::imported;
  run.info.machine = "h200";
  CHECK_FALSE(run_answer(run).capacity);
  run.results["device_memory_bytes"] = std::to_string(40 * kGiB);
  const RunAnswer recorded = run_answer(run);
  CHECK(recorded.lines.front() == "fits: 20 GiB of 40 GiB reserved at the peak, 20 GiB (50 %) left");
  CHECK(recorded.capacity_of == "the recorded GPU");
  CHECK(fit_json(recorded)["headroom_bytes"] == 20 * kGiB);
  run.steps.clear();
  CHECK(run_answer(run).lines.front() == "fits: not known, no memory was recorded");
}

TEST_CASE("a stored plan that another host may take out of memory does not say that it fits") {
  const TemporaryFolder folder;
  const std::string path = folder.file("run.db");
  const Answer plan =
      run_cli({"plan", "llama-8b", "--gpus", "8", "--param-dtype", "bfloat16", "--release", "record-stream", "--batch",
               "1", "--seq", "2048", "--memory-limit", "28GiB", "--json", "-o", path});
  const auto json = nlohmann::json::parse(plan.out);
  CHECK(json["may_run_out_of_memory"] == true);
  CHECK(json["out_of_memory"] == false);
  CHECK(json["answer"][0].get<std::string>().starts_with("may not fit: "));
  const auto run = traces::read_run(path);
  REQUIRE(run);
  const RunAnswer answer = run_answer(*run);
  CHECK(fits_word(answer) == "may not fit");
  CHECK(answer.lines.front() == json["answer"][0]);
  CHECK(run_answer_json(answer)["fits"] == "may not fit");
  CHECK(run_answer_json(answer)["may_run_out_of_memory"] == true);
}

TEST_CASE("a recording's answer has MFU, and its plan's the number of plan --json") {
  const TemporaryFolder folder;
  const std::string sample = "traces/samples/l1b_implicit", path = folder.file("run.db"), plan = folder.file("plan.db");
  const Answer imported = run_cli({"import", "--snapshot", sample + ".pickle.xz", "--trace", sample + ".trace.json.xz",
                                   "--about", sample + ".about.json", "-o", path, "--json"});
  REQUIRE(imported.status == 0);
  const auto run = traces::read_run(path);
  REQUIRE(run);
  const RunAnswer answer = run_answer(*run);
  CHECK(answer.utilization.value == nlohmann::json::parse(imported.out)["mfu"].get<double>());
  CHECK(answer.lines.back().find(", MFU 37 %") != std::string::npos);
  CHECK(run_answer_json(answer)["mfu_rests_on"].get<std::string>().starts_with("113 weight matrices"));
  const auto json = nlohmann::json::parse(run_cli({"plan", path, "--json", "-o", plan}).out);
  CHECK(json["mfu"].get<double>() == Approx(answer.utilization.value));  // one step time, one count
  const auto planned = traces::read_run(plan);
  REQUIRE(planned);
  CHECK(run_answer(*planned).utilization.value == json["mfu"].get<double>());
}
