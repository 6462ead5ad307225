#include "core/timeline/allocator_waits.hpp"

#include "tests/catch.hpp"

namespace foreshard {
namespace {

void add(Run& run, HostOpRecord::Kind kind, const char* name, std::int64_t start, std::int64_t end) {
  run.host_ops.push_back({kind, 0, run.labels.intern(name), {start}, {end}, 0});
}

TEST_CASE("a plan's driver calls are when its allocator holds the host up") {
  Run run;
  run.info.kind = RunKind::planned;
  add(run, HostOpRecord::Kind::annotation, "FSDP::pre_forward", 0, 50);
  CHECK_FALSE(has_simulated_calls(run));
  CHECK(allocator_waits(run, Recording::run).empty());
  add(run, HostOpRecord::Kind::work, "cudaFree", 10, 30);  // with its wait
  add(run, HostOpRecord::Kind::work, "cudaFree", 30, 34);
  add(run, HostOpRecord::Kind::work, "something else", 36, 38);
  add(run, HostOpRecord::Kind::work, "cuMemMap", 40, 45);
  CHECK(has_simulated_calls(run));
  CHECK((allocator_waits(run, Recording::run) == TimeSpans{{{10}, {34}}, {{40}, {45}}}));
  CHECK(allocator_waits(run, Recording::trace).empty());
}

TEST_CASE("a recording's runtime calls are, and not what a plan would have") {
  Run run;
  add(run, HostOpRecord::Kind::runtime, "cudaMalloc", 5, 8);
  add(run, HostOpRecord::Kind::runtime, "cudaLaunchKernel", 8, 9);
  CHECK((allocator_waits(run, Recording::trace) == TimeSpans{{{5}, {8}}}));
}

}  // namespace
}  // namespace foreshard
