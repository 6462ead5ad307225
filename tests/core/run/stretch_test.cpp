#include "core/run/stretch.hpp"

#include "tests/catch.hpp"

namespace foreshard {
namespace {

TEST_CASE("a stretched run has every time of host and device times the factor") {
  Run run;
  HostOpRecord& host = run.host_ops.emplace_back();
  host.start = {100};
  host.end = {200};
  DeviceOpRecord& device = run.device_ops.emplace_back();
  device.issue = {100};
  device.start = {150};
  device.end = {1001};
  run.events.emplace_back().time = {300};
  run.allocator.emplace_back().time = {400};
  run.steps.resize(2);
  run.steps[0].end = {500};
  run.steps[0].device_end = Nanoseconds{1001};
  run.phases.emplace_back().start = {1};
  run.annotations.emplace_back().end = {8};
  run.rank_ops.emplace_back().op.end = {30};
  run.ranks.emplace_back().clock_offset = {5};
  stretch(run, 1.5);
  CHECK(run.host_ops[0].start == Nanoseconds{150});
  CHECK(run.host_ops[0].end == Nanoseconds{300});
  CHECK(run.device_ops[0].issue == Nanoseconds{150});
  CHECK(run.device_ops[0].start == Nanoseconds{225});
  CHECK(run.device_ops[0].end == Nanoseconds{1502});
  CHECK(run.events[0].time == Nanoseconds{450});
  CHECK(run.allocator[0].time == Nanoseconds{600});
  CHECK(run.steps[0].end == Nanoseconds{750});
  CHECK(run.steps[0].device_end == Nanoseconds{1502});
  CHECK_FALSE(run.steps[1].device_end);
  CHECK(run.phases[0].start == Nanoseconds{2});
  CHECK(run.annotations[0].end == Nanoseconds{12});
  CHECK(run.rank_ops[0].op.end == Nanoseconds{45});
  CHECK(run.ranks[0].clock_offset == Nanoseconds{5});
}

}  // namespace
}  // namespace foreshard
