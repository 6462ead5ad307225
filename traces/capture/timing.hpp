// The time side of a capture: one training step as the profiler trace shows it, cut at FSDP2's hook
// places, with the user's device ops and host intervals in between and the cost of each FSDP section
// set aside (docs/model.md, "From a trace to a workload").
//
// Who: traces/capture/capture.hpp joins it with the memory side, which has the same hook places.
// Pure: from an imported Run to plain data. Deterministic.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/base/error.hpp"
#include "core/base/labels.hpp"
#include "core/run/run.hpp"
#include "core/workload/workload.hpp"
#include "sim/machine/profile.hpp"

namespace foreshard::traces {

/// One op that the user's program put on a stream, or a synchronisation it made.
struct TimedItem {
  OpKind kind = OpKind::kernel;  ///< kernel, copy, synchronize, collective or wait_stream
  std::uint8_t user_stream = 0;  ///< 0: the compute stream; n: the n-th further stream of the user's program
  Nanoseconds host_before;       ///< host work since the previous item (or the section's end, or the hook)
  KernelWork kernel;             ///< `work` freed of the contention of the capture
  CopyWork copy;
  UserCollective collective;
  std::uint32_t collectives_behind = 0;  ///< of wait_stream, as Op's
  LabelId label;                         ///< of collectives
  std::uint64_t blocks = 0;              ///< of a kernel's grid; 0: not known
  double position = 0;  ///< place of the call within its segment's host time (sections included), 0 to 1
};

/// What lies between one hook place and the next.
struct TimedSegment {
  Hook hook = Hook::zero_grad;   ///< the hook that opens the segment
  UnitId unit;                   ///< of pre/post-forward and pre/post-backward
  Nanoseconds sections_host;     ///< host work of the FSDP sections inside
  Nanoseconds hook_host_before;  ///< host work from the previous item to the hook
  std::vector<TimedItem> items;
};

/// What the grid of an attention kernel says of a step: samples, and tiles of a sample's tokens.
struct AttentionShape {
  std::uint32_t batch = 0;
  std::uint32_t tiles = 0;                ///< the most over all kernels
  std::vector<std::uint32_t> tile_sizes;  ///< that they may have
};

struct StepTiming {
  std::vector<TimedSegment> segments;  ///< in host order; the first opens at the step's begin (zero_grad)
  std::vector<SectionCost> sections;   ///< by first appearance; labels are ids of `labels`
  Labels labels;
  std::vector<ProcessGroup> process_groups;  ///< of the program's own collectives
  Nanoseconds host_total;                    ///< sum of all host intervals of the step, sections included
  std::vector<ImportStat> stats;             ///< what was odd: steps that differ, ops without a call, …
  std::vector<StreamId> streams;             ///< the program's own, by TimedItem::user_stream from 1 on
  std::vector<std::int32_t> indices;         ///< of the steps that it was read from, as the trace numbers them
  std::optional<AttentionShape> attention;   ///< of those; none: not known, or not given
  /// Where profiled steps pass other hook places or issue other ops, or on other grids: one of each kind, in the order
  /// in which they come, this one's steps among them. Labels, process groups and streams are this one's, with
  /// more behind.
  std::vector<StepTiming> sizes;
};

/// Reads the step out of a Run that holds a profiler trace; its `units` and `settings` are those of the
/// about file. With several recorded steps of the same device ops: host intervals and the durations of
/// FSDP's own ops are the least of them, durations of the user's and the optimizer's ops their mean.
/// Steps that differ from most are left out and counted; of two that differ, the later is taken. For a recording whose
/// steps differ in size each kind is kept as well (StepTiming::sizes).
///
/// `groups`: what the trace's process groups are, by DeviceOpRecord::communicator. A collective that the program issued
/// itself, of a group and a kind that are known, is priced as FSDP2's are; where the compute stream waits for it is
/// read off the recorded starts (step_merge.cpp). Others are left out and counted.
///
/// Fails with ErrorKind::mismatch when the trace has no full step or its annotations name unknown units.
[[nodiscard]] Result<StepTiming> read_timing(const Run& run, const sim::MachineProfile& machine,
                                             std::span<const ProcessGroup> groups = {});

}  // namespace foreshard::traces
