// Compute, communication and what of it nothing hides.
#include "sim/predict/busy_time.hpp"

#include "tests/catch.hpp"

namespace foreshard::sim {
namespace {

void add(Run& run, DeviceOpRecord::Kind kind, std::uint32_t stream, std::int64_t start, std::int64_t end) {
  DeviceOpRecord op;
  op.kind = kind;
  op.stream = StreamId{stream};
  op.start = {start};
  op.end = {end};
  run.device_ops.push_back(op);
}

using Kind = DeviceOpRecord::Kind;

TEST_CASE("unions, not sums") {
  Run run;
  add(run, Kind::kernel, 0, 0, 100);
  add(run, Kind::collective, 2, 50, 150);
  add(run, Kind::collective, 3, 100, 200);  // overlaps the other collective
  add(run, Kind::kernel, 0, 180, 220);
  add(run, Kind::kernel, 1, 100, 180);  // a copy-in kernel hides nothing
  const BusyTime busy = busy_time(run, {0}, {1000});
  CHECK(busy.compute.count == 140);
  CHECK(busy.communication.count == 150);
  CHECK(busy.exposed_communication.count == 80);  // 100 to 180
}

TEST_CASE("only what lies in the span counts") {
  Run run;
  add(run, Kind::kernel, 0, 0, 100);
  add(run, Kind::collective, 2, 90, 300);
  const BusyTime busy = busy_time(run, {80}, {200});
  CHECK(busy.compute.count == 20);
  CHECK(busy.communication.count == 110);
  CHECK(busy.exposed_communication.count == 100);
  const BusyTime none = busy_time(run, {500}, {600});
  CHECK(none.compute.count == 0);
  CHECK(none.exposed_communication.count == 0);
  CHECK(busy_time({}, {0}, {100}).communication.count == 0);
}

TEST_CASE("a collective on the compute stream is communication, and exposed") {
  Run run;
  add(run, Kind::collective, 0, 0, 50);
  const BusyTime busy = busy_time(run, {0}, {100});
  CHECK(busy.compute.count == 0);
  CHECK(busy.exposed_communication.count == 50);
}

TEST_CASE("the step that is reported begins where the one before ends on the device") {
  Run run;
  add(run, Kind::kernel, 0, 0, 100);
  add(run, Kind::kernel, 0, 120, 150);
  run.steps.resize(2);
  run.steps[1].index = 1;
  run.steps[0].device_end = Nanoseconds{110};
  CHECK(timed_step_busy(run).compute.count == 0);  // nobody saw where it ended
  run.steps[1].device_end = Nanoseconds{150};
  CHECK(timed_step_busy(run).compute.count == 30);
}

}  // namespace
}  // namespace foreshard::sim
