// A recording that another rank held up: its plans are of a step in which that rank keeps up, and say so.
#include <nlohmann/json.hpp>

#include "cli/reports/as_it_is.hpp"
#include "core/run/rank_shapes.hpp"
#include "tests/catch.hpp"
#include "tests/cli/run_cli.hpp"
#include "tests/temporary_folder.hpp"
#include "traces/store/store.hpp"

using namespace foreshard;
using namespace foreshard::cli;

namespace {

constexpr std::string_view kCaveat = " if rank 3 keeps up (175.76 ms measured, with it late)";

std::string printed_by(const std::vector<std::string>& arguments) {
  const Answer answer = run_cli(arguments);
  INFO(answer.err);
  REQUIRE(answer.status == 0);
  return answer.out;
}

/// The sample as if rank 3, whose trace it lacks, had been late.
std::string late_recording(const test::TemporaryFolder& folder) {
  const std::string sample = "traces/samples/l1b_implicit", run = folder.file("late.db");
  (void)printed_by({"import", "--snapshot", sample + ".pickle.xz", "--trace", sample + ".trace.json.xz", "--about",
                    sample + ".about.json", "-o", run, "--quiet"});
  auto late = traces::read_run(run);
  REQUIRE(late);
  late->measured->late_rank = 3;
  auto workload = nlohmann::ordered_json::parse(late->workload_json);
  workload.at("measured")["late_rank"] = 3;
  late->workload_json = workload.dump();
  REQUIRE(traces::write_run(*late, run, {.force = true}));
  return run;
}

bool has_caveat(const std::vector<std::string>& arguments, std::string_view caveat = kCaveat) {
  const Answer answer = run_cli(arguments);
  CHECK(answer.status == 0);
  const bool said = answer.out.find(caveat) != std::string::npos;
  CHECK((answer.err.find("rank 3 was late in the recording") != std::string::npos) == said);
  return said;
}

}  // namespace

TEST_CASE("words at the begin of a sentence have a capital") {
  CHECK(capitalised("as it is") == "As it is");
  CHECK(capitalised("if rank 3 keeps up") == "If rank 3 keeps up");
  CHECK(capitalised("→ it") == "→ it");
  CHECK(capitalised("").empty());
}

TEST_CASE("ranks that had more work are several in what explain says of them", "[explain]") {
  const test::TemporaryFolder folder;
  const std::string path = late_recording(folder);
  const auto explained = [&](const std::vector<RankShape>& shapes) {
    auto run = traces::read_run(path);
    REQUIRE(run);
    run->measured->late_rank = 1;
    for (double& ms : run->measured->step_ms) ms *= 0.9;
    auto workload = nlohmann::ordered_json::parse(run->workload_json);
    workload.at("measured")["late_rank"] = 1;
    workload.at("measured")["step_ms"] = run->measured->step_ms;
    for (const RankShape& of : shapes) workload["rank_shapes"].push_back({of.rank, of.batch, of.seq});
    if (!shapes.empty()) run->results[kRankShapes] = rank_shapes_text(shapes);
    run->workload_json = workload.dump();
    const std::string changed = folder.file("changed.db");
    REQUIRE(traces::write_run(*run, changed, {.force = true}));
    return printed_by({"explain", changed, "--time"});
  };
  const std::vector<RankShape> two{{0, 4, 2048}, {1, 4, 4096}, {2, 4, 4096}, {3, 4, 2048}};
  const auto has = [](const std::string& text, std::string_view part) {
    INFO(text);
    CHECK(text.find(part) != std::string::npos);
  };
  // A step without the profiler that is shorter: the planned one's diagnosis stands behind.
  has(explained(two), "ranks 1–2 had more work without it too.\nIf ranks 1–2 had no more work, as planned: ");
  has(explained({}), "rank 1 was late without it too.\nIf rank 1 keeps up, as planned: ");
}

TEST_CASE("what is said of other ranks leaves the late one as it is planned", "[plan]") {
  const test::TemporaryFolder folder;
  const std::string run = late_recording(folder);
  CHECK(has_caveat({"plan", run}));
  CHECK(has_caveat({"plan", run, "--slow-gpu", "1=1.05"}));
  CHECK(has_caveat({"plan", run, "--slow-gpu", "3=0.9"}));
  CHECK(has_caveat({"plan", run, "--slow-link", "2=2"}));
  CHECK(has_caveat({"plan", run, "--rank-source", "1=" + run}));
  CHECK_FALSE(has_caveat({"plan", run, "--rank-source", "3=" + run}));
}

TEST_CASE("what is said of the late rank is all that holds it up in the plan", "[plan]") {
  const test::TemporaryFolder folder;
  const std::string run = late_recording(folder);
  // A guess, not what held the others up.
  const std::vector<std::string> guess{"plan", run, "--slow-gpu", "3=1.2"};
  CHECK(has_caveat(guess, " if nothing but kernels × 1.2 holds rank 3 up (175.76 ms measured, with it late)"));
  const Answer answer = run_cli(guess);
  CHECK(answer.out.find("keeps up") == std::string::npos);
  CHECK(answer.out.find(" longer because of rank 3's GPU: ") != std::string::npos);
  CHECK(answer.err.find("this is a step in which nothing but kernels × 1.2 holds it up (") != std::string::npos);
}

TEST_CASE("remedies begin with the step in which the late rank keeps up", "[explain]") {
  const test::TemporaryFolder folder;
  const std::string run = late_recording(folder);
  for (const char* what : {"--time", "--at=peak"}) {  // the step's time; its memory
    const std::string text = printed_by({"explain", run, what});
    CHECK(text.find("\nif rank 3 keeps up ") != std::string::npos);
    CHECK(text.find("as it is  ") == std::string::npos);
  }
  CHECK(nlohmann::json::parse(printed_by({"explain", run, "--time", "--json"})).at("remedies").at("keeps_up") == 3);
  CHECK(nlohmann::json::parse(printed_by({"explain", run, "--json"})).at("simulated").at("keeps_up") == 3);
}
