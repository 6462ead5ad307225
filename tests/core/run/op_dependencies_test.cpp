// What an op waits for, where the host's clock does not tell its calls apart.
#include "core/run/op_dependencies.hpp"

#include "tests/catch.hpp"

using namespace foreshard;

TEST_CASE(
    "calls at one moment: a wait comes before the launch on its stream, and behind the record that it waits for") {
  // HSDP's reduction: a reduce-scatter on stream 3, and an all-reduce of its result on stream 4 that waits for it.
  Run run;
  const Nanoseconds now{1000};
  for (const std::uint32_t stream : {3U, 4U}) {
    DeviceOpRecord op;
    op.kind = DeviceOpRecord::Kind::collective;
    op.stream = StreamId{stream};
    op.issue = now;
    op.start = {stream * 10'000};
    op.end = {stream * 10'000 + 5'000};
    run.device_ops.push_back(op);
  }
  run.events.push_back({EventRecord::Kind::record, EventId{0}, StreamId{3}, now});
  run.events.push_back({EventRecord::Kind::wait, EventId{0}, StreamId{4}, now});
  run.events.push_back({EventRecord::Kind::record, EventId{1}, StreamId{4}, now});
  const auto found = op_dependencies(run, {0, 1}, {0, 1, 2});
  REQUIRE(found.size() == 2);
  CHECK(found[0].events.empty());
  CHECK(found[1].events == std::vector<std::size_t>{0});
}
