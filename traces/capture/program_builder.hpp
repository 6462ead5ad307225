// Turns recognised requests into a workload's programs: one for setup, one for each recorded step, equal
// neighbours kept once.
#pragma once

#include <vector>

#include "traces/capture/capture.hpp"
#include "traces/capture/capture_events.hpp"
#include "traces/capture/recogniser.hpp"

namespace foreshard::traces {

/// One op with the place of its request within its segment's host time, 0 to 1, for the join with the
/// time side.
struct PlacedOp {
  Op op;
  double position = 0;
  bool late = false;       ///< a free whose block came back later than at once, in some step
  bool unmarked = false;   ///< a hook that no range marks: within a segment, as other ops are
  bool no_effect = false;  ///< a hook of the time side alone: a zero_grad that frees nothing though there are gradients
  Nanoseconds segment;     ///< hooks: time since the hook before, as the snapshot's clock saw it
};

struct BuiltPrograms {
  std::vector<PlacedOp> setup;
  std::vector<std::vector<PlacedOp>> steps;
  std::vector<AllocationNote> allocations;  ///< by allocation, in order
  bool optimizer_known = false;
  bool optimizer_began_before = false;  ///< not known, as the recording began after its first step
  bool shards_known = false;
  std::vector<ParameterId> parameters_order;
  std::vector<std::uint32_t> optimizer_param_groups;
  std::vector<std::uint64_t> user_streams;  ///< handles of the program's own streams, by Op::user_stream from 1 on
};

/// Whether two steps do the same there; names and times aside.
[[nodiscard]] bool same_op(const Op& a, const Op& b);

/// What a workload calls the stream of a recorded handle (core/fsdp/recorded_streams.hpp): FSDP2's own, or the next of
/// `user_streams`, which it is added to.
[[nodiscard]] std::uint8_t stream_of(std::uint64_t handle, const Recognition& recognition,
                                     std::vector<std::uint64_t>& user_streams);

/// `ranges`: the recording's annotations, for the casts of forward inputs.
[[nodiscard]] BuiltPrograms build_programs(const CaptureInput& input, const std::vector<CaptureEvent>& events,
                                           std::span<const Range> ranges, const Hooks& hooks,
                                           const Recognition& recognition, std::span<const UnitPlan> plans);

}  // namespace foreshard::traces
