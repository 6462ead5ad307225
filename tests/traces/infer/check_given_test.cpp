// What a file says against what a recording settles.
#include "traces/infer/check_given.hpp"

#include <fmt/format.h>

#include "tests/catch.hpp"

namespace foreshard::traces {
namespace {

/// A recording of 4 ranks: bfloat16 gathers, float32 sums, the default schedule, one parameter of 64 elements a unit.
Inference recorded_run() {
  Inference run;
  run.settings.gpus = 4;
  run.settings.param_dtype = DType::bfloat16;
  run.settings.reduce_dtype = DType::float32;
  for (const char* name : {"", "a", "b"}) {
    run.units.push_back({name, {{std::string(name) + ".p0", {64}}}});
    RecordedUnit unit;
    unit.name = name;
    unit.gather.block = 128;
    unit.gather.unsharded = {128};
    run.recorded.push_back(unit);
  }
  for (const char* key : {"gpus", "replicate", "param_dtype", "reduce_dtype", "reshard_after_forward",
                          "forward_prefetch", "backward_prefetch", "unshard_async", "release", "all_gather"})
    run.set({key, "RECORDED", "BUFFERS"});
  return run;
}

Result<About> with(const std::string& keys, const Inference& run = recorded_run()) {
  const auto given = parse_about(R"({"schema": 1, )" + keys + "}", "a.json", AboutParts::some);
  REQUIRE(given);
  return completed(*given, run, "a.json", "s.pickle");
}

std::string error_of(const std::string& keys, const Inference& run = recorded_run()) {
  const auto done = with(keys, run);
  if (done) return {};
  CHECK(done.error().kind == ErrorKind::mismatch);
  return done.error().where + " " + done.error().what;
}

TEST_CASE("what a file does not say is the recording's") {
  const auto about = with(R"("torch": "2.10.0", "batch": 4, "settings": {"optimizer": "sgd"})");
  REQUIRE(about);
  CHECK(about->settings.gpus == 4);
  CHECK(about->settings.param_dtype == DType::bfloat16);
  CHECK(about->settings.batch == 4U);
  CHECK(about->settings.optimizer == Optimizer::sgd);
  CHECK(about->settings.pytorch == "2.10");
  CHECK(about->units.size() == 3);
}

TEST_CASE("a contradiction names both sides") {
  CHECK(error_of(R"("settings": {"reduce_dtype": "bfloat16"})") ==
        R"(a.json says reduce_dtype "bfloat16", but s.pickle has RECORDED (BUFFERS))");
  CHECK(error_of(R"("settings": {"reshard_after_forward": false})").find("reshard_after_forward false") !=
        std::string::npos);
  CHECK(error_of(R"("settings": {"forward_prefetch": 1})").find("forward_prefetch 1") != std::string::npos);
  CHECK(error_of(R"("settings": {"unshard_async": true})").find("unshard_async true") != std::string::npos);
  CHECK(error_of(R"("settings": {"release": "record-stream"})").find("release") != std::string::npos);
  CHECK(error_of(R"("replicate": 2)").find("replicate 2") != std::string::npos);
  CHECK(error_of(R"("gpus": 8)") == "a.json says 1 nodes of 8 GPUs and replicate 1, but s.pickle shards over 4 ranks");
  CHECK(error_of(R"("gpus": 2, "nodes": 2)").empty());
  // Without a trace an all-reduce of gradients leaves no request behind.
  Inference alone = recorded_run();
  alone.set({"replicate", "1", "BUFFERS", false});
  CHECK(error_of(R"("gpus": 8, "replicate": 2)", alone).empty());
  CHECK(with(R"("replicate": 2)", alone)->settings.gpus == 8);
}

TEST_CASE("other words for the same requests are no contradiction") {
  CHECK(error_of(R"("settings": {"release": "stash"})").empty());
  CHECK(error_of(R"("settings": {"reshard_after_forward": 4})").empty());
  CHECK(error_of(R"("settings": {"prefetch_lists": {}})").empty());
  Inference plain = recorded_run();
  plain.settings.param_dtype.reset();
  plain.settings.reduce_dtype.reset();
  CHECK(error_of(R"("settings": {"param_dtype": "float32", "reduce_dtype": "float32"})", plain).empty());
  CHECK_FALSE(error_of(R"("settings": {"param_dtype": "bfloat16"})", plain).empty());
}

TEST_CASE("what is only assumed does not contradict") {
  Inference run = recorded_run();
  run.set({"reduce_dtype", "RECORDED", "BUFFERS", false});
  CHECK(error_of(R"("settings": {"reduce_dtype": "bfloat16"})", run).empty());
}

TEST_CASE("what is assumed is said, where no file says it") {
  Inference run = recorded_run();
  run.set({"pytorch", "\"2.11\"", "neither says", false});
  run.set({"nodes", "1", "hosts of up to 8 GPUs", false});
  run.closed.emplace_back("names");
  const auto stats = assumptions({}, run);
  REQUIRE(stats.size() == 3);
  CHECK(stats[0].name == "assumed_pytorch");
  CHECK(stats[0].text == "pytorch \"2.11\" is assumed: neither says");
  CHECK(stats[2].text == "names");
  const auto given = parse_about(R"({"schema": 1, "torch": "2.11", "gpus": 4})", "a.json", AboutParts::some);
  CHECK(assumptions(*given, run).size() == 1);
}

TEST_CASE("units are held against the copy-outs") {
  const auto units = [](const char* a) {
    return fmt::format(R"("units": [{{"unit": "", "parameters": [{{"name": "w", "shape": [64], "dtype": "float32"}}]}},
        {{"unit": "a", "parameters": [{}]}}])",
                       a);
  };
  CHECK(error_of(units(R"({"name": "a.w", "shape": [8, 8], "dtype": "float32"})")).empty());
  CHECK(error_of(units(R"({"name": "a.w", "shape": [8, 9], "dtype": "float32"})")) ==
        R"(a.json, unit "a" 'a.w' has 144 bytes unsharded, but s.pickle copies out 128)");
  CHECK(error_of(units(R"({"name": "a.w", "shape": [32], "dtype": "float32"},
                          {"name": "a.b", "shape": [32], "dtype": "float32"})")) ==
        R"(a.json, unit "a" gives the unit 2 parameters, but s.pickle copies out 1)");
}

TEST_CASE("a batch that the inputs cannot hold contradicts them") {
  Inference run = recorded_run();
  run.inputs = {65536};
  CHECK(error_of(R"("batch": 4, "seq": 2048)", run).empty());
  CHECK(error_of(R"("batch": 3, "seq": 2048)", run) ==
        "a.json says batch 3 and seq 2048, but the inputs in s.pickle have 65536 bytes");
  run.set({"batch", "4", "a grid"});
  run.settings.batch = 4;
  CHECK(error_of(R"("batch": 8)", run) == "a.json says batch 8, but s.pickle has 4 (a grid)");
}

TEST_CASE("the optimizer contradicts once it is settled") {
  Inference run = recorded_run();
  CHECK(check_given_optimizer(Optimizer::sgd, run, "a.json", "s.pickle"));
  run.set({"optimizer", "\"adam\"", "ranges"});
  CHECK(check_given_optimizer(Optimizer::adam, run, "a.json", "s.pickle"));
  const auto done = check_given_optimizer(Optimizer::sgd, run, "a.json", "s.pickle");
  REQUIRE_FALSE(done);
  CHECK(done.error().what == R"(says optimizer "sgd", but s.pickle has "adam" (ranges))");
}

}  // namespace
}  // namespace foreshard::traces
