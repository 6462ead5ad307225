#include "traces/capture/join.hpp"

#include "tests/catch.hpp"

namespace foreshard::traces {
namespace {

PlacedOp hook_place() {
  Op op;
  op.kind = OpKind::hook;
  op.hook = Hook::forward_begin;
  return {.op = op, .segment = {}};
}

PlacedOp freed(double position, bool late) {
  Op op;
  op.kind = OpKind::free;
  return {.op = op, .position = position, .late = late, .segment = {}};
}

TEST_CASE("a block that came back late waits for the stream of the last sends and receives") {
  StepTiming timing;
  TimedSegment& segment = timing.segments.emplace_back();
  segment.hook = Hook::forward_begin;
  const auto issue = [&](double position, CollectiveKind kind, std::uint8_t stream) {
    TimedItem item;
    item.kind = OpKind::collective;
    item.collective.kind = kind;
    item.user_stream = stream;
    item.position = position;
    segment.items.push_back(item);
  };
  issue(0.2, CollectiveKind::send_recv, 2);
  issue(0.4, CollectiveKind::all_to_all, 1);
  const auto program = join_step(
      {hook_place(), freed(0.1, true), freed(0.3, true), freed(0.5, true), freed(0.6, false)}, timing, {}, false);
  REQUIRE(program);
  std::vector<int> streams;
  for (const Op& op : program->ops)
    if (op.kind == OpKind::free) streams.push_back(op.user_stream);
  CHECK(streams == std::vector<int>{0, 2, 2, 0});  // before any send nothing can wait for one
}

}  // namespace
}  // namespace foreshard::traces
