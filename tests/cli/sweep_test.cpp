// sweep on a small preset: ranges in, table, JSON and comma-separated values out.
#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/reports/sweep_report.hpp"
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

std::vector<std::string> small(std::vector<std::string> more) {
  std::vector<std::string> arguments{"sweep", "mlp", "--dim", "512", "--layers", "3", "--gpus", "4"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

json answer_of(const std::vector<std::string>& more) {
  std::vector<std::string> arguments = small(more);
  arguments.emplace_back("--json");
  const Answer answer = run_cli(arguments);
  INFO(answer.err);
  REQUIRE(answer.status == 0);
  return json::parse(answer.out);
}

}  // namespace

TEST_CASE("a sweep's JSON has every point, the Pareto front, the best and how to set it") {
  const json result = answer_of({"--forward-prefetch", "implicit,1..2", "--reshard-after-forward", "true,false,3"});
  CHECK(result["schema"] == 1);
  CHECK(result["verb"] == "sweep");
  REQUIRE(result["points"].size() == 9);
  CHECK(result["points"][1]["settings"] ==
        json::parse(R"({"gpus": 4, "forward_prefetch": "implicit", "reshard_after_forward": false})"));
  CHECK(result["points"][1]["choices"] == result["points"][1]["settings"]);  // the former name
  CHECK(result["points"][2]["state"] == "refused");
  CHECK(result["refused"][0]["points"] == 3);
  CHECK(result["refused"][0]["reason"].get<std::string>().find("does not divide") != std::string::npos);
  const std::size_t best = result["best"], fastest = result["fastest"];
  CHECK(fastest == result["best_overall"]);  // the former name
  CHECK(result["pareto"][0] == fastest);
  if (best != fastest) CHECK(result["ties"][0] == fastest);
  const double near = 1.022 * result["points"][fastest]["step_ms"].get<double>();
  CHECK(result["points"][best]["step_ms"].get<double>() <= near);
  for (const json& index : result["ties"]) {  // of those about as fast as the fastest the one of least memory is named
    const json& tie = result["points"][index.get<std::size_t>()];
    if (tie["step_ms"].get<double>() <= near)
      CHECK(tie["peak_reserved_bytes"] >= result["points"][best]["peak_reserved_bytes"]);
  }
  for (const json& point : result["points"])
    if (point["state"] == "ran") {
      CHECK(point["step_ms"].get<double>() >= result["points"][fastest]["step_ms"].get<double>());
      CHECK(point["tokens_per_s_per_gpu"].get<double>() > 0);
    }
  CHECK(result["best_settings"]["gpus"] == 4);
  CHECK(result["pytorch"]["lines"].size() > 3);
}

TEST_CASE("results do not depend on the number of threads") {
  const std::vector<std::string> ranges{"--forward-prefetch", "implicit,1..3", "--batch", "1..4"};
  std::vector<std::string> one = ranges, four = ranges;
  one.insert(one.end(), {"--jobs", "1"});
  four.insert(four.end(), {"--jobs", "4"});
  CHECK(answer_of(one) == answer_of(four));
  CHECK(run_cli(small(one)).out == run_cli(small(four)).out);
}

TEST_CASE("the best stays within the limit") {
  const json limited = answer_of({"--batch", "64,1000000", "--memory-limit", "1GiB"});
  CHECK(limited["best"] == 0);
  CHECK(limited["points"][1]["state"] == "out_of_memory");
  CHECK(limited["points"][1]["within_limit"] == false);
  const Answer nothing = run_cli(small({"--reshard-after-forward", "true,false", "--memory-limit", "3MiB"}));
  CHECK(nothing.status == 10);
  CHECK(nothing.err.find("no point stays within 3 MiB") != std::string::npos);
}

TEST_CASE("under a limit a point says what plan says under it") {
  const json all = answer_of({"--optimizer", "adam", "--batch", "64"});
  const auto allocated = all["points"][0]["peak_allocated_bytes"].get<std::uint64_t>();
  for (const std::uint64_t limit : {allocated / 2, allocated + 4 * foreshard::kMiB, 2 * allocated}) {
    const std::vector<std::string> options{"mlp",
                                           "--dim",
                                           "512",
                                           "--layers",
                                           "3",
                                           "--gpus",
                                           "4",
                                           "--batch",
                                           "64",
                                           "--optimizer",
                                           "adam",
                                           "--memory-limit",
                                           std::to_string(limit),
                                           "--json",
                                           "--quiet"};
    std::vector<std::string> planned{"plan"}, swept{"sweep"};
    planned.insert(planned.end(), options.begin(), options.end());
    swept.insert(swept.end(), options.begin(), options.end());
    const json plan = json::parse(run_cli(planned).out), point = json::parse(run_cli(swept).out)["points"][0];
    INFO(limit);
    CHECK((point["state"] == "out_of_memory") == plan["out_of_memory"].get<bool>());
    for (const char* key : {"peak_reserved_bytes", "num_alloc_retries", "step_ms", "valid", "not_valid"})
      CHECK(point[key] == plan[key]);
  }
}

TEST_CASE("where the list ends before memory does, the most that fits is looked for beyond it") {
  const std::vector<std::string> limit{"--memory-limit", "200MiB"};
  const auto swept = [&](const std::string& batches) {
    std::vector<std::string> more{"--batch", batches, "--json"};
    more.insert(more.end(), limit.begin(), limit.end());
    return json::parse(run_cli(small(more)).out);
  };
  const json ended = swept("1,2");
  const json& beyond = ended["most_that_fits"]["beyond"][0];
  CHECK(ended["most_that_fits"]["point"] == 1);
  CHECK(beyond["key"] == "batch");
  const auto most = beyond["value"].get<std::uint32_t>();
  REQUIRE(most > 2);
  // A list that reaches beyond it finds the same.
  const json reached = swept(std::to_string(most) + ".." + std::to_string(most + 1));
  CHECK(reached["most_that_fits"]["point"].get<std::size_t>() == 0);
  CHECK(reached["most_that_fits"]["beyond"].empty());
  CHECK(reached["points"][0]["peak_reserved_bytes"] == beyond["peak_reserved_bytes"]);
  const std::string text = run_cli(small({"--batch", "1,2", "--memory-limit", "200MiB"})).out;
  CHECK(text.find(fmt::format("; the list ends there: --batch {} fits, too: ", most)) != std::string::npos);
  CHECK(text.find(beyond["words"].get<std::string>()) != std::string::npos);
}

TEST_CASE("a limit above the machine's memory is refused, and points that are not valid may stay within one") {
  const Answer above = run_cli(small({"--memory-limit", "500GiB"}));
  CHECK(above.status == 2);
  CHECK(above.err.find("more than h200 gives the caching allocator") != std::string::npos);
  const json both = answer_of({"--offload", "true,false"});
  CHECK(both["points"][0]["valid"] == false);
  CHECK(both["best"] == 1);
  const auto offloaded = both["points"][0]["peak_reserved_bytes"].get<std::uint64_t>();
  REQUIRE(offloaded < both["points"][1]["peak_reserved_bytes"].get<std::uint64_t>());
  const json within = answer_of({"--offload", "true,false", "--memory-limit", std::to_string(offloaded)});
  const json& best = within["points"][within["best"].get<std::size_t>()];
  CHECK(best["peak_reserved_bytes"].get<std::uint64_t>() <= offloaded);
}

TEST_CASE("the table names the best, its ties and its Python") {
  const Answer answer = run_cli(small({"--forward-prefetch", "implicit,1", "--unshard-async", "true,false"}));
  CHECK(answer.status == 0);
  CHECK(answer.out.find(" on h200: 4 ran") != std::string::npos);
  CHECK(answer.out.starts_with("best: "));
  CHECK(answer.out.find("the one of least memory, then time, is --forward-prefetch") != std::string::npos);
  CHECK(answer.out.find("samples/s/GPU") != std::string::npos);
  CHECK(answer.out.find("fully_shard(block") != std::string::npos);
}

TEST_CASE("a flag alone means true, its negation false") {
  CHECK(answer_of({"--unshard-async"})["points"].size() == 1);
  CHECK(answer_of({"--unshard-async", "--gpus", "2"})["points"].size() == 2);
  const json off = answer_of({"--no-root-reshard-explicit"});  // as plan takes it
  REQUIRE(off["points"].size() == 1);
  CHECK(off["points"] == answer_of({"--root-reshard-explicit", "false"})["points"]);
  CHECK(off["points"][0]["settings"]["root_reshard_explicit"] == false);
  CHECK(answer_of({"--no-unshard-async", "--unshard-async"})["points"].size() == 2);
}

TEST_CASE("wrong ranges and words are wrong usage, with a suggestion") {
  CHECK(run_cli(small({"--batch", "4..1"})).status == 2);
  const Answer word = run_cli(small({"--all-gather", "nccl,copy-engin"}));
  CHECK(word.status == 2);
  CHECK(word.err.find("did you mean 'copy-engine'?") != std::string::npos);
  CHECK(run_cli(small({"--forward-prefetc", "1"})).err.find("--forward-prefetch") != std::string::npos);
  const Answer refused = run_cli(small({"--replicate", "3"}));
  CHECK(refused.status == 2);
  CHECK(refused.err.find("does not divide") != std::string::npos);
  CHECK(run_cli({"sweep", "llama-8"}).err.find("did you mean 'llama-8b'?") != std::string::npos);
}

TEST_CASE("every point goes to a file of comma-separated values, the best one to a store") {
  const TemporaryFolder folder;
  const std::string csv = folder.file("points.csv"), store = folder.file("best.db");
  const Answer answer =
      run_cli(small({"--forward-prefetch", "implicit,1", "--replicate", "1,3", "--csv", csv, "-o", store, "--force"}));
  CHECK(answer.status == 0);
  const std::string text = file_bytes(csv);
  CHECK(std::count(text.begin(), text.end(), '\n') == 5);
  CHECK(text.starts_with("index,gpus,replicate,forward_prefetch,state,step_ms,"));
  const auto fields = std::count(text.begin(), std::find(text.begin(), text.end(), '\n'), ',');
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK(std::count(line.begin(), line.end(), ',') == fields);
  const Answer query = run_cli({"query", store, "SELECT count(*) AS n FROM workload", "--csv"});
  CHECK(query.out == "n\n1\n");
}

TEST_CASE("the options of a point are words that a shell gives to plan: files by name, the rest quoted") {
  const TemporaryFolder folder;
  const std::string file = folder.write("sweep's lists.json", R"({"forward": {"": ["layers.0"]}})");
  const Answer answer = run_cli(small({"--prefetch-lists", file, "--alloc-conf", "expandable_segments:True"}));
  CHECK(answer.status == 0);
  CHECK(answer.out.find("--prefetch-lists '" + folder.file(R"(sweep'\''s lists.json')")) != std::string::npos);
  CHECK(answer.out.find("--alloc-conf expandable_segments:True") != std::string::npos);
  const Answer blanks = run_cli(small({"--alloc-conf", "max_split_size_mb:64, expandable_segments:True"}));
  CHECK(blanks.out.find("--alloc-conf 'max_split_size_mb:64, expandable_segments:True'") != std::string::npos);
}

TEST_CASE("points are ranked among those of their router_imbalance, which is no choice") {
  using foreshard::sim::SweepPoint;
  const auto point = [&](std::uint32_t ranks, double imbalance, double ms) {
    SweepPoint out;
    out.values = {std::to_string(ranks), imbalance == 1 ? "1" : "2"};
    out.settings.expert_parallel = ranks;
    out.settings.router_imbalance = out.router_imbalance = imbalance;
    out.has_time = true;
    out.step_ms = ms;
    out.exposed_all_to_all_ms = ms / 10;
    out.peaks.reserved = out.least_reserved = out.most_reserved = foreshard::kGiB;
    return out;
  };
  SweepResult result;
  result.name = "a model";
  result.ranges = {{"expert_parallel", {"4", "8"}}, {"router_imbalance", {"1", "2"}}};
  result.points = {point(4, 1, 10), point(4, 2, 14), point(8, 1, 12), point(8, 2, 13)};
  find_best(result);
  CHECK(result.best == 0U);
  REQUIRE(result.others.size() == 1);
  CHECK(result.others[0].best == 3U);
  const json said = json::parse(sweep_json(result).dump());
  CHECK(said["points"][3]["exposed_all_to_all_ms"] == 1.3);
  REQUIRE(said["by_router_imbalance"].size() == 2);
  CHECK(said["by_router_imbalance"][1] ==
        json{{"router_imbalance", 2.0}, {"best", 3}, {"fastest", 3}, {"pareto", {3}}, {"ties", json::array()}});
  std::ostringstream text;
  print_sweep(text, result);
  CHECK(text.str().starts_with(
      "best: --expert-parallel 4 --router-imbalance 1: 10.00 ms a step, 1 GiB reserved, 1.00 ms "
      "exposed all-to-all; the slowest, --expert-parallel 8 --router-imbalance 1, takes 20.0 %"));
  CHECK(text.str().find("\nbest: --expert-parallel 8 --router-imbalance 2: 13.00 ms a step") != std::string::npos);
  CHECK(sweep_csv(result).find("3,8,2,ran") != std::string::npos);
  result.points.erase(result.points.begin() + 1);
  result.points.pop_back();
  find_best(result);
  CHECK(result.others.empty());
  CHECK(json::parse(sweep_json(result).dump())["by_router_imbalance"].is_null());
}

TEST_CASE("a point that may run out of memory does not win over one that surely fits, and is never a plain fit") {
  using foreshard::sim::SweepPoint;
  const auto gib = [](double size) { return static_cast<foreshard::Bytes>(size * foreshard::kGiB); };
  const auto point = [&](const char* release, double ms, double reserved) {
    SweepPoint out;
    out.values = {release};
    out.has_time = true;
    out.step_ms = ms;
    out.peaks.reserved = out.least_reserved = out.most_reserved = gib(reserved);
    return out;
  };
  SweepResult result;
  result.name = "a model";
  result.ranges = {{"release", {"record-stream", "stash"}}};
  result.points = {point("record-stream", 10, 40), point("stash", 12, 30)};
  result.points[0].least_reserved = gib(38);
  result.points[0].most_reserved = gib(44);
  result.points[0].may_run_out_of_memory = true;
  find_best(result);
  CHECK(result.best == 1U);
  const json said = json::parse(sweep_json(result).dump());
  CHECK(said["points"][0]["fits"] == "may not fit");
  CHECK(said["points"][0]["peak_reserved_bytes_range"] == json{gib(38), gib(44)});
  CHECK(said["points"][1]["fits"] == "fits");
  std::ostringstream text;
  print_sweep(text, result);
  CHECK(text.str().starts_with("best: --release stash: 12.00 ms a step, 30 GiB reserved\n"));
  CHECK(text.str().find("1 point may not fit with every speed of the host, and comes after those that do, the fastest "
                        "of them --release record-stream: 10.00 ms, 40 GiB reserved (38 GiB to 44 GiB with the host's "
                        "speed, or out of memory)\n") != std::string::npos);
  CHECK(sweep_csv(result).find(",may not fit,") != std::string::npos);

  result.points.pop_back();  // where it is the only one, it says so
  find_best(result);
  CHECK(result.best == 0U);
  std::ostringstream alone;
  print_sweep(alone, result);
  CHECK(alone.str().find("; it may not fit\n") != std::string::npos);
}

TEST_CASE("an interrupted sweep answers with what it came to, and says how much that is not") {
  const EarlyEnd early;
  REQUIRE(keep_signal(SIGTERM));
  const TemporaryFolder folder;
  const std::string csv = folder.file("o.csv");
  const Answer words = run_cli(small({"--forward-prefetch", "1..3", "--csv", csv}));
  const Answer answer = run_cli(small({"--forward-prefetch", "1..3", "--json"}));
  forget_signal();
  CHECK(words.status == kInterrupted);
  CHECK(words.out.find("; interrupted: 3 more points were not tried") != std::string::npos);
  CHECK(words.err.find("--csv and -o are not written") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(csv));
  CHECK(answer.status == kInterrupted);
  const json result = json::parse(answer.out);
  CHECK(result["points"].empty());
  CHECK(result["points_not_tried"] == 3);
  CHECK(result["fingerprint"].is_null());
}
