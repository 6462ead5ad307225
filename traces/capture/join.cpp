#include "traces/capture/join.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/workload/workload_names.hpp"

namespace foreshard::traces {
namespace {

std::string hook_text(Hook hook, UnitId unit, const std::vector<Unit>& units) {
  if (!unit.valid()) return fmt::format("hook {}", name(hook));
  return fmt::format("hook {} of unit \"{}\"", name(hook), units[unit.value].name);
}

Op timed_op(const TimedItem& item) {
  Op op;
  op.kind = item.kind;
  op.user_stream = item.user_stream;
  op.host_before = item.host_before;
  op.kernel = item.kernel;
  op.copy = item.copy;
  op.collective = item.collective;
  op.collectives_behind = item.collectives_behind;
  op.label = item.kind == OpKind::copy ? item.copy.label : item.kind == OpKind::kernel ? item.kernel.label : item.label;
  return op;
}

Nanoseconds host_work(const TimedSegment& segment) {
  Nanoseconds total = segment.sections_host;
  for (const TimedItem& item : segment.items) total += item.host_before;
  return total;
}

}  // namespace

Program memory_program(const std::vector<PlacedOp>& memory) {
  Program program;
  for (const PlacedOp& placed : memory)
    if (!placed.no_effect) program.ops.push_back(placed.op);
  return program;
}

Result<Program> join_step(const std::vector<PlacedOp>& memory, const StepTiming& timing, const std::vector<Unit>& units,
                          bool first) {
  Program program;
  std::size_t segment = 0;    // the next segment to be opened
  std::size_t item = 0;       // next item of the open segment
  Nanoseconds carried;        // host work of a hook without effect, which the next op has
  std::uint8_t sends_on = 0;  // the stream of the last sends and receives
  const auto push_timed = [&](Op op) {
    op.host_before += std::exchange(carried, {});
    if (op.kind == OpKind::collective && op.collective.kind == CollectiveKind::send_recv) sends_on = op.user_stream;
    program.ops.push_back(op);
  };
  const auto flush_items = [&](double until) {
    if (segment == 0) return;
    const std::vector<TimedItem>& items = timing.segments[segment - 1].items;
    for (; item < items.size() && items[item].position < until; ++item) push_timed(timed_op(items[item]));
  };
  for (const PlacedOp& placed : memory) {
    if (placed.op.kind != OpKind::hook || placed.unmarked) {
      flush_items(placed.position);
      program.ops.push_back(placed.op);
      // ProcessGroupNCCL::pointToPoint (2.11) says record_stream of its tensors; collectives keep theirs until wait().
      if (placed.late) program.ops.back().user_stream = sends_on;
      continue;
    }
    flush_items(2);
    const bool fits = segment < timing.segments.size() && timing.segments[segment].hook == placed.op.hook &&
                      timing.segments[segment].unit == placed.op.unit;
    if (!fits) {
      const std::string other = segment < timing.segments.size()
                                    ? hook_text(timing.segments[segment].hook, timing.segments[segment].unit, units)
                                    : "the end of its step";
      return fail(
          ErrorKind::mismatch,
          fmt::format("the snapshot and the profiler trace are of different programs: where the snapshot has {}, "
                      "the trace has {}",
                      hook_text(placed.op.hook, placed.op.unit, units), other),
          fmt::format("hook place {} of a step", segment), "give the trace of the run that made the snapshot");
    }
    Op op = placed.op;
    op.host_before = timing.segments[segment].hook_host_before;
    if (first && segment > 0) {
      const Nanoseconds usual = host_work(timing.segments[segment - 1]) + op.host_before;
      op.host_before += std::max(Nanoseconds{}, placed.segment - usual);
    }
    if (placed.no_effect)
      carried += op.host_before;
    else
      push_timed(op);
    ++segment;
    item = 0;
  }
  flush_items(2);
  if (segment != timing.segments.size())
    return fail(
        ErrorKind::mismatch,
        fmt::format("the profiler trace has {} hook places a step, the snapshot {}", timing.segments.size(), segment),
        {}, "give the trace of the run that made the snapshot");
  return program;
}

}  // namespace foreshard::traces
