#include "traces/import/belonging.hpp"

#include "tests/catch.hpp"
#include "traces/import/recorded_steps.hpp"

using namespace foreshard;
using namespace foreshard::traces;

namespace {

const FileNames kFiles{"step.pickle", "step.json", "about.json"};

About four_gpus() {
  About about;
  about.gpu = "NVIDIA H200";
  about.sm_count = 132;
  about.settings.gpus = 4;
  return about;
}

ProfilerTrace trace_of_four() {
  ProfilerTrace trace;
  trace.rank = 0;
  trace.world_size = 4;
  trace.devices.push_back({0, "NVIDIA H200", 0, 132});
  trace.communicators.push_back({"0", "default_pg", "[0, 1, 2, 3]", 4});
  DeviceOpRecord gather;
  gather.kind = DeviceOpRecord::Kind::collective;
  gather.communicator = CommunicatorId{0};
  trace.run.device_ops.push_back(gather);
  return trace;
}

Unit unit(std::string name) {
  return {std::move(name), {Parameter{"weight", {2, 2}, DType::float32}}};
}

void expect_mismatch(const Result<void>& result, const std::string& file, const std::string& words) {
  REQUIRE_FALSE(result);
  CHECK(result.error().kind == ErrorKind::mismatch);
  CHECK(result.error().where == file);
  INFO(result.error().what);
  CHECK(result.error().what.find(words) != std::string::npos);
}

/// One step: zero_grad, forward and backward of the root, optimizer; `extra` ranges in between.
std::vector<Range> one_step(std::vector<std::string_view> extra) {
  std::vector<Range> ranges{{"Optimizer.zero_grad#Adam.zero_grad", {0}, {10}},
                            {"FSDP::root_pre_forward", {20}, {30}},
                            {"FSDP::pre_forward", {31}, {40}}};
  std::int64_t at = 41;
  for (const std::string_view name : extra) ranges.push_back({name, {at}, {at + 1}}), at += 2;
  for (const std::string_view name : {"FSDP::post_forward", "FSDP::pre_backward", "FSDP::post_backward_accumulate",
                                      "FSDP::root_post_backward_callback", "Optimizer.step#Adam.step"})
    ranges.push_back({name, {at}, {at + 1}}), at += 2;
  return ranges;
}

}  // namespace

TEST_CASE("a trace of the same run belongs") {
  CHECK(check_trace(trace_of_four(), four_gpus(), 1, kFiles));
}

TEST_CASE("another rank's recording is as rank 0's where every parameter divides evenly") {
  ProfilerTrace trace = trace_of_four();
  Settings settings = four_gpus().settings;
  const auto unit = [](std::vector<std::int64_t> shape) {
    Parameter weight{.name = "weight", .shape = std::move(shape)};
    return std::vector<Unit>{Unit{"", {std::move(weight)}}};
  };
  trace.rank = 3;
  CHECK(uneven_shards(trace, settings, unit({8, 5})) == std::string());
  CHECK(uneven_shards(trace, settings, unit({5003, 16})).find("of rank 3, and 'weight' does not divide by 4") !=
        std::string::npos);
  settings.replicate = 4;
  CHECK(uneven_shards(trace, settings, unit({5003, 16})) == std::string());
  settings.replicate = 1;
  trace.rank = 0;
  CHECK(uneven_shards(trace, settings, unit({5003, 16})) == std::string());
  trace.rank.reset();
  CHECK(uneven_shards(trace, settings, unit({5003, 16})) == std::string());
}

TEST_CASE("a trace of another world or GPU does not") {
  ProfilerTrace trace = trace_of_four();
  trace.world_size = 8;
  expect_mismatch(check_trace(trace, four_gpus(), 1, kFiles), "step.json", "8 ranks");
  CHECK(check_trace(trace, four_gpus(), 2, kFiles));
  trace = trace_of_four();
  trace.devices[0].name = "NVIDIA A100";
  expect_mismatch(check_trace(trace, four_gpus(), 1, kFiles), "step.json", "'NVIDIA A100'");
  trace = trace_of_four();
  trace.devices[0].sm_count = 114;
  expect_mismatch(check_trace(trace, four_gpus(), 1, kFiles), "step.json", "114 SMs");
}

TEST_CASE("collectives show the groups and the transport") {
  ProfilerTrace trace = trace_of_four();
  About about = four_gpus();
  about.settings.replicate = 2;
  expect_mismatch(check_trace(trace, about, 1, kFiles), "step.json", "over 4 ranks");
  about = four_gpus();
  about.settings.all_gather = Transport::copy_engine;
  expect_mismatch(check_trace(trace, about, 1, kFiles), "step.json", "with kernels");
  trace.run.device_ops[0].transport = Transport::copy_engine;
  CHECK(check_trace(trace, about, 1, kFiles));
  expect_mismatch(check_trace(trace, four_gpus(), 1, kFiles), "step.json", "copy engines");
  about = four_gpus();
  about.settings.reshard_after_forward = {Reshard::Kind::group, 2};
  trace = trace_of_four();
  trace.communicators[0].size = 2;
  CHECK(check_trace(trace, about, 1, kFiles));
}

TEST_CASE("the allocator's options are compared as a set") {
  SnapshotFile snapshot;
  About about = four_gpus();
  snapshot.snapshot.settings.alloc_conf = "expandable_segments:True, max_split_size_mb:200";
  about.settings.alloc_conf = "max_split_size_mb:200,expandable_segments:True";
  CHECK(check_snapshot(snapshot, about, kFiles));
  about.settings.alloc_conf = "";
  expect_mismatch(check_snapshot(snapshot, about, kFiles), "step.pickle", "alloc_conf");
}

TEST_CASE("units of the recording and of the about file are the same") {
  const std::vector<Range> ranges{{"FSDP::pre_forward", {0}, {1}}, {"FSDP::pre_forward (layers.0)", {2}, {3}}};
  CHECK(check_units(ranges, std::vector{unit(""), unit("layers.0")}, "step.pickle", "about.json"));
  expect_mismatch(check_units(ranges, std::vector{unit("")}, "step.pickle", "about.json"), "step.pickle", "'layers.0'");
  expect_mismatch(
      check_units(ranges, std::vector{unit(""), unit("layers.0"), unit("layers.1")}, "step.pickle", "about.json"),
      "step.pickle", "'layers.1'");
  expect_mismatch(check_units({}, std::vector{unit("")}, "step.pickle", "about.json"), "step.pickle", "no FSDP range");
}

TEST_CASE("both recordings go through FSDP's ranges in the same order") {
  const std::vector<Unit> units{unit(""), unit("layers.0")};
  const std::vector<Range> plain = one_step({});
  const std::vector<Range> prefetching = one_step({"FSDP::all_gather (layers.0)"});
  const auto plain_hooks = find_hooks(plain, units);
  const auto prefetching_hooks = find_hooks(prefetching, units);
  REQUIRE(plain_hooks);
  REQUIRE(prefetching_hooks);
  REQUIRE(microbatches(*plain_hooks) == 1);
  CHECK(check_order({plain, *plain_hooks, kFiles.snapshot}, {plain, *plain_hooks, kFiles.trace}));
  expect_mismatch(check_order({plain, *plain_hooks, kFiles.snapshot}, {prefetching, *prefetching_hooks, kFiles.trace}),
                  "step.json", "all_gather (layers.0)");
}

TEST_CASE("microbatches are those of the about file") {
  const std::vector<Range> ranges = one_step({});
  const auto hooks = find_hooks(ranges, std::vector{unit("")});
  REQUIRE(hooks);
  About about = four_gpus();
  CHECK(check_microbatches(*hooks, about, kFiles.trace, kFiles));
  about.settings.accumulate = 2;
  expect_mismatch(check_microbatches(*hooks, about, kFiles.trace, kFiles), "step.json", "accumulate 2");
}

TEST_CASE("a profiled step is neither much shorter nor much busier than the measured ones") {
  const Measured measured{{100, 101, 99, 150}, {}};
  CHECK(check_time({100, 99}, measured, kFiles));
  CHECK(check_time({200, 99}, measured, kFiles));  // a profiler slows the host
  CHECK(check_time({0, 0}, measured, kFiles));
  expect_mismatch(check_time({50, 20}, measured, kFiles), "step.json", "50.0 ms");
  expect_mismatch(check_time({200, 150}, measured, kFiles), "step.json", "busy");
}
