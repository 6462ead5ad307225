// Step times of the logs that lie beside a recording, and whose settings a config.json is.
#include "traces/import/training_log.hpp"

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"

using namespace foreshard;
using namespace foreshard::traces;

namespace {

std::string error_of(const Result<std::optional<Measured>>& times) {
  REQUIRE_FALSE(times);
  CHECK(times.error().kind == ErrorKind::input);
  return times.error().what;
}

}  // namespace

TEST_CASE("the first log that has step times is taken, and said") {
  const foreshard::test::TemporaryFolder folder;
  const std::string other = folder.write("a.log", "nothing of steps\n");
  const std::string train = folder.write("b.log", "step: 1 tps: 10\nstep: 2 tps: 1,000\nstep: 3 tps: 2,000\n");
  std::vector<ImportStat> stats;
  const auto times = logged_times({{other, train}, false}, {.tokens = 500}, stats);
  REQUIRE(times);
  REQUIRE(*times);
  CHECK((*times)->steady_steps() == std::vector<double>{250, 500});
  CHECK((*times)->host_issue_ms.empty());
  REQUIRE(stats.size() == 1);
  CHECK(stats[0].name == "step_times_of_log");
  CHECK(stats[0].text.find("b.log: 2 lines of steps 2 to 3") != std::string::npos);
  stats.clear();
  CHECK_FALSE(*logged_times({{other, "/nonexistent.log"}, false}, {.tokens = 500}, stats));
  CHECK(stats.empty());
}

TEST_CASE("a log that was given says why it has no step times") {
  const foreshard::test::TemporaryFolder folder;
  std::vector<ImportStat> stats;
  const auto of = [&](const char* name, const char* text, const LogUnits& units) {
    return error_of(logged_times({{folder.write(name, text)}, true}, units, stats));
  };
  CHECK(of("a.log", "nothing\n", {.tokens = 5}).find("no line") != std::string::npos);
  CHECK(of("b.log", "step: 1 tps: 7\nstep: 2 tps: 7\n", {}).find("tokens of a step are not known") !=
        std::string::npos);
  CHECK(of("c.log", "step: 1 tps: 7\n", {.tokens = 5}).find("one line") != std::string::npos);
  CHECK_FALSE(logged_times({{"/nonexistent.log"}, true}, {}, stats));
}

TEST_CASE("tokens of a step are shared by tensor-parallel ranks") {
  Settings settings;
  CHECK(log_units(settings, true, {}).tokens == 0);
  settings.batch = 2;
  settings.seq = 8;
  settings.accumulate = 3;
  settings.tensor_parallel = 2;
  CHECK(log_units(settings, true, {}).tokens == 24);
  TitanConfig config;
  config.batch_ranks = 4;
  config.profile_freq = 10;
  CHECK(log_units(settings, true, config).tokens == 12);
  CHECK(log_units(settings, true, config).profile_freq == 10);
  CHECK(log_units(settings, false, config).tokens == 12);
  config.accumulates = true;  // a global batch: of how many microbatches only a recording says
  CHECK(log_units(settings, false, config).tokens == 0);
  CHECK(log_units(settings, true, config).tokens == 12);
}

TEST_CASE("a config.json is torchtitan's, or a stat says that it is not") {
  const foreshard::test::TemporaryFolder folder;
  std::vector<ImportStat> stats;
  CHECK(found_config(folder.write("t.json", R"({"training": {"seq_len": 16}, "parallelism": {}})"), stats));
  CHECK(stats.back().text.ends_with("t.json: seq"));
  CHECK_FALSE(found_config(folder.write("h.json", R"({"model_type": "llama"})"), stats));
  CHECK(stats.back().name == "config_not_read");
  CHECK_FALSE(found_config(folder.write("b.json", "{"), stats));
  CHECK(stats.size() == 3);
}
