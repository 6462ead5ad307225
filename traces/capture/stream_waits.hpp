// Where the compute stream waits for a collective that the program issued itself. Inner part of step_merge.cpp.
//
// A profiler trace has no cudaStreamWaitEvent (Kineto records it only when asked), so the place is read off the times:
// work behind the wait starts after the collective's end in every step, and the compute stream keeps its order. The
// wait is put as early as that allows: before the first op on the compute stream, issued after the collective, that
// started after its end in all steps. It is exact where the program waits before it uses the result (DTensor,
// Work.wait()).
#pragma once

#include <compare>
#include <cstddef>
#include <map>
#include <set>
#include <span>

#include "core/run/run.hpp"
#include "traces/capture/step_calls.hpp"

namespace foreshard::traces {

/// An item of a step; `item` equal to the segment's number of items is the segment's end.
struct ItemPlace {
  std::size_t segment = 0;
  std::size_t item = 0;
  auto operator<=>(const ItemPlace&) const = default;
};

/// The streams that the compute stream waits for before each place, for the collectives of the segments
/// [first, last) of `steps`, which have the same items there.
[[nodiscard]] std::map<ItemPlace, std::set<StreamId>> find_stream_waits(const Run& run,
                                                                        std::span<const StepCalls* const> steps,
                                                                        std::size_t first, std::size_t last,
                                                                        StreamId compute);

}  // namespace foreshard::traces
