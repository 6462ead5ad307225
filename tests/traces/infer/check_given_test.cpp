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
  CHECK(error_of(R"("gpus": 2, "nodes": 2)") == "a.json says gpus 2, but s.pickle has RECORDED (BUFFERS)");
  // Without a trace an all-reduce of gradients leaves no request behind.
  Inference alone = recorded_run();
  alone.set({"replicate", "1", "BUFFERS", false});
  CHECK(error_of(R"("gpus": 8, "replicate": 2)", alone).empty());
  CHECK(with(R"("replicate": 2)", alone)->settings.gpus == 8);
}

TEST_CASE("what contradicts is named by the key that says it") {
  CHECK(error_of(R"("settings": {"reshard_after_forward": false}, "root_reshard_explicit": true)")
            .starts_with("a.json says reshard_after_forward false"));
  Inference run = recorded_run();
  run.set({"root_reshard_explicit", "true", "THE ROOT"});
  CHECK(error_of(R"("settings": {"reshard_after_forward": true}, "root_reshard_explicit": false)", run) ==
        "a.json says root_reshard_explicit false, but s.pickle has true (THE ROOT)");
  CHECK(error_of(R"("settings": {"reshard_of_unit": {"a": false}})")
            .starts_with(R"(a.json says reshard_of_unit {"a":false}, but s.pickle has reshard_after_forward)"));
  CHECK(error_of(R"("settings": {"prefetch_lists": {"forward": {"a": ["b"]}}})")
            .find("but s.pickle has forward_prefetch RECORDED (BUFFERS)") != std::string::npos);
}

TEST_CASE("the rest of the schedule, the buffers and the program are held against the recording") {
  Inference run = recorded_run();
  for (const char* key : {"units_per_group", "checkpoint", "nodes"}) run.set({key, "RECORDED", "SHOWN"});
  run.checkpointed = {false, false};
  CHECK(error_of(R"("settings": {"units_per_group": 2})", run) ==
        "a.json says units_per_group 2, but s.pickle has RECORDED (SHOWN)");
  CHECK(error_of(R"("settings": {"checkpoint": "blocks"})", run) ==
        R"(a.json says checkpoint "blocks", but s.pickle has RECORDED (SHOWN))");
  CHECK(error_of(R"("gpus": 2, "nodes": 2)", run) == "a.json says nodes 2, but s.pickle has RECORDED (SHOWN)");
  CHECK(error_of(R"("settings": {"gather_alloc": "compute"})", run) ==
        R"(a.json says gather_alloc "compute", but s.pickle has unshard_async RECORDED (BUFFERS))");
  CHECK(error_of(R"("settings": {"release": "reduce-scatter=record-stream"})", run).find("release") !=
        std::string::npos);
  run.settings.reduce_scatter_release = Release::record_stream;
  CHECK(error_of(R"("settings": {"release": "auto"})", run).find("release") != std::string::npos);
  run.settings.checkpoint = Checkpoint::selective_layer;
  run.checkpointed = {true, false, true, false};
  CHECK(error_of(R"("settings": {"checkpoint": "selective-layer", "checkpoint_share": 50})", run).empty());
  CHECK(error_of(R"("settings": {"checkpoint": "selective-layer", "checkpoint_share": 25})", run)
            .starts_with(R"(a.json says checkpoint "selective-layer")"));
}

TEST_CASE("buffers that only taking the step apart tells apart") {
  const auto given = parse_about(R"({"schema": 1, "settings": {"offload": true}})", "a.json", AboutParts::some);
  REQUIRE(given);
  const auto done = check_given_buffers(*given, given->settings, Settings{}, "a.json", "s.pickle");
  REQUIRE_FALSE(done);
  CHECK(done.error().what == "says offload true, but the requests in s.pickle are those of offload false");
  CHECK(check_given_buffers(*given, given->settings, given->settings, "a.json", "s.pickle"));
}

TEST_CASE("tensor parallelism is that of the trace, or divides its world") {
  const auto given = parse_about(R"({"schema": 1, "tensor_parallel": 2})", "a.json", AboutParts::some);
  REQUIRE(given);
  Inference run = recorded_run();
  const auto mesh = given_mesh(*given, run, 8, "a.json", "s.pickle");
  REQUIRE(mesh);
  CHECK(mesh->world() == 8);
  CHECK(mesh->shard_ranks() == 4);
  CHECK(completed(*given, run, "a.json", "s.pickle")->settings.world() == 8);
  CHECK(given_mesh(*given, run, 16, "a.json", "s.pickle"));  // beside pipeline parallelism, say
  const auto world = given_mesh(*given, run, 4, "a.json", "s.pickle");
  REQUIRE_FALSE(world);
  CHECK(world.error().what == "says tensor_parallel 2, but s.pickle shards over 4 ranks of 4");
  CHECK(given_mesh(*given, run, {}, "a.json", "s.pickle"));
  run.neighbours_apart = 1;
  const auto apart = given_mesh(*given, run, 8, "a.json", "s.pickle");
  REQUIRE_FALSE(apart);
  CHECK(apart.error().what ==
        "says tensor_parallel 2, but the ranks over which s.pickle shards lie 1 apart in its trace");
}

TEST_CASE("what the file says and the recording does not settle is said") {
  Inference run = recorded_run();
  run.set({"nodes", "1", "hosts of up to 8 GPUs", false});
  const auto given = parse_about(R"({"schema": 1, "gpus": 2, "nodes": 2, "batch": 3})", "a.json", AboutParts::some);
  REQUIRE(given);
  const auto stats = assumptions(*given, run);
  REQUIRE(stats.size() == 2);
  CHECK(stats[0].name == "given_nodes");
  CHECK(stats[1].name == "given_batch");
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
  run.unsettled.emplace_back("names");
  const auto stats = assumptions({}, run);
  REQUIRE(stats.size() == 3);
  CHECK(stats[0].name == "assumed_pytorch");
  CHECK(stats[0].text == "pytorch \"2.11\" is assumed: neither says");
  CHECK(stats[2].text == "names");
  const auto given = parse_about(R"({"schema": 1, "torch": "2.11", "gpus": 4})", "a.json", AboutParts::some);
  CHECK(assumptions(*given, run).size() == 1);  // names
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
