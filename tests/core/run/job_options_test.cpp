// What a stored plan says of its job beside the settings.
#include "core/run/job_options.hpp"

#include "tests/catch.hpp"

using namespace foreshard;

namespace {

std::string left(const JobOptions& stored, const JobOptions& given) {
  return text_of(not_given(stored, given));
}

}  // namespace

TEST_CASE("a stored plan's options are those that it was given", "[job_options]") {
  const JobOptions given{
      {"--slow-gpu", {"5=1.2", "7=1.1"}}, {"--lengths", {"of day.txt"}, "xxh3:0123"}, {"--trials", {"20"}}};
  std::string json;
  for (const JobOption& option : given)
    json += (json.empty() ? "{\"" : ",\"") + key_of(option) + "\":" + json_of(option);
  CHECK(json + "}" ==
        R"({"slow_gpu":["5=1.2","7=1.1"],"lengths":{"file":"of day.txt","digest":"xxh3:0123"},"trials":"20"})");
  CHECK(job_options({{"job_options", json + "}"}}) == given);
  CHECK(text_of(given) == "--slow-gpu 5=1.2 --slow-gpu 7=1.1 --lengths 'of day.txt' --trials 20");
  CHECK(job_options({{"job_options", "null"}, {"flapping", "{}"}}).empty());
}

TEST_CASE("an option that is given anew is not left out", "[job_options]") {
  const JobOptions stored{
      {"--slow-gpu", {"5=1.2"}}, {"--lengths", {"512:1"}}, {"--pad", {"64"}}, {"--trials", {"20"}}, {"--seed", {"0"}}};
  CHECK(left(stored, {}) == "--slow-gpu 5=1.2 --lengths 512:1 --pad 64 --trials 20 --seed 0");
  CHECK(left(stored, {{"--slow-gpu", {"3=1.1"}}}) == "--lengths 512:1 --pad 64 --trials 20 --seed 0");
  // Padding, trials and seed are of what is drawn.
  CHECK(left(stored, {{"--lengths", {"1024:1"}}}) == "--slow-gpu 5=1.2");
  const JobOptions jitter{{"--jitter", {"gpus=normal:1%"}}, {"--trials", {"20"}}, {"--seed", {"7"}}};
  CHECK(left(jitter, {{"--lengths", {"512:1"}}, {"--seed", {"0"}}}) == "--jitter gpus=normal:1% --trials 20");
}

TEST_CASE("a store without options tells them in words", "[job_options]") {
  const JobOptions stored =
      job_options({{"ranks", R"({"differ":"rank 5: kernels × 1.2"})"},
                   {"hang", R"({"dead":[{"rank":1}],"skips":[]})"},
                   {"trials", R"({"jitter":"gpus=normal:1%","lengths":{"lengths":"512:1"},"trials":20})"},
                   {"background_load", "null"},
                   {"flapping", R"({"link":"adapter 1.3"})"}});
  CHECK(text_of(stored) ==
        "ranks that differ (rank 5: kernels × 1.2), a rank that dies, a link that flaps, --jitter gpus=normal:1% "
        "--lengths 512:1 --trials 20");
  // Words of ranks do not say which options they are of.
  CHECK(left(stored, {{"--slow-gpu", {"5=1.2"}}, {"--dead-rank", {"1"}}, {"--jitter", {"gpus=normal:1%"}}}) ==
        "ranks that differ (rank 5: kernels × 1.2), a link that flaps, --lengths 512:1 --trials 20");
}

TEST_CASE("a plan's run is without what is drawn, and of ranks that differ", "[job_options]") {
  Run run;
  run.info.kind = RunKind::planned;
  run.settings.seq = 2048;
  run.results["job_options"] = R"({"slow_gpu":"5=1.2","jitter":"gpus=normal:1%","lengths":"512:1,2048:1","pad":"64"})";
  const std::vector<NotInRun> parts = not_in_run(run);
  REQUIRE(parts.size() == 2);
  CHECK(parts[0].plan == "has each rank draw lengths (--lengths 512:1,2048:1 --pad 64)");
  CHECK(parts[0].run == "of samples of 2048 tokens alone");
  CHECK(parts[1].plan == "has jitter (--jitter gpus=normal:1%)");
  CHECK(parts[1].run == "without jitter");
  run.info.kind = RunKind::executed;
  CHECK(not_in_run(run).empty());
}
