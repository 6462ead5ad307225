// The calls of a trace that put something on a GPU or wait for it, and one step of them cut at its hook
// places and FSDP sections: what reads the host side of a capture (time model 1.1).
//
// Who: timing.cpp. Pure, deterministic. Plain data; indices point into the Run that was given.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "core/run/run.hpp"
#include "core/workload/workload.hpp"
#include "traces/capture/hooks.hpp"

namespace foreshard::traces {

/// A runtime or driver call, in host order over all threads: the main and autograd threads never issue
/// at the same time.
struct TraceCall {
  Nanoseconds start;
  Nanoseconds end;
  bool synchronize = false;
  bool ends_trace = false;  ///< a synchronisation behind the last launch: whoever stops the profiler waits for the GPU
  std::uint32_t first_op = 0;  ///< its device ops are op_order[first_op, first_op + op_count)
  std::uint32_t op_count = 0;  ///< 1 but for graph launches
};

struct TraceCalls {
  std::vector<TraceCall> calls;
  std::vector<std::uint32_t> op_order;  ///< indices of Run::device_ops
  std::uint64_t ops_without_call = 0;
};

/// Joins host and device side by correlation id. Calls of all names count, also those the profiler has
/// no name for: the batch copy of a copy-engine all-gather is one. Synchronisations are taken from
/// threads that launch.
[[nodiscard]] TraceCalls find_calls(const Run& run);

/// A stretch of FSDP's or the optimizer's own host code that issues device ops.
struct SectionSpan {
  Section section = Section::all_gather;
  UnitId unit;
  Nanoseconds start;
  Nanoseconds end;
};

/// The sections among `ranges`, in the order of their starts. Ranges that issue nothing are none: their
/// time is the hook's overhead and counts as the user's. Of ranges that only sometimes issue something
/// (accumulate, reshard, post-forward, whose clones under `reshard_after_forward=N` are a reshard, and pre-forward and
/// pre-backward, whose own copies of a shard group of one rank are a copy-out), the span begins one interval before its
/// first call and ends with its last. Fails when a unit is unknown.
[[nodiscard]] Result<std::vector<SectionSpan>> find_sections(std::span<const Range> ranges, std::span<const Unit> units,
                                                             const TraceCalls& calls);

struct StepItem {
  std::uint32_t op = kSynchronize;  ///< index of Run::device_ops
  Nanoseconds host_before;
  Nanoseconds at;  ///< host time since the segment's hook, sections included, waits left out
  static constexpr std::uint32_t kSynchronize = 0xffffffffu;
};

struct StepSection {
  Section section = Section::all_gather;
  UnitId unit;
  Pass pass = Pass::forward;
  std::vector<StepItem> items;
  Nanoseconds host_after;
};

struct StepSegment {
  Hook hook = Hook::zero_grad;
  UnitId unit;
  Nanoseconds hook_host_before;
  std::vector<StepItem> items;
  std::vector<StepSection> sections;  ///< their host time is in no item of the segment
  Nanoseconds length;                 ///< host time to the next hook, counted as StepItem::at
};

struct StepCalls {
  std::int32_t index = 0;
  std::vector<StepSegment> segments;   ///< one a hook place
  Nanoseconds host_after;              ///< from the last item or hook to the step's end
  std::uint64_t user_collectives = 0;  ///< left out: their price is not known
  std::uint64_t lost_waits = 0;        ///< synchronisations inside sections
};

/// Whether an op is a collective whose price the machine knows: its group (one of `groups`, by communicator), kind and
/// size are.
[[nodiscard]] bool is_priced_collective(const DeviceOpRecord& op, std::span<const ProcessGroup> groups);

/// Cuts one step. Host intervals run from call start to call start; the wait of a launch that the full
/// queue blocked (longer than 40 us; what exceeds 8 us) and of a synchronisation is no host work.
[[nodiscard]] StepCalls cut_step(const Run& run, const TraceCalls& calls, std::span<const SectionSpan> sections,
                                 const Hooks& hooks, const StepPlaces& step, std::span<const ProcessGroup> groups);

}  // namespace foreshard::traces
