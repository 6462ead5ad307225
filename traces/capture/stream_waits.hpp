// Where the compute stream waits for a collective that the program issued itself. Inner part of step_merge.cpp.
//
// A profiler trace has no cudaStreamWaitEvent (Kineto records it only when asked), so the place is read off the times:
// work behind the wait starts after the collective's end in every step, and the compute stream keeps its order. The
// wait is put before the first op on the compute stream, issued after the collective, that started after its end in all
// steps: the earliest place that the recorded starts allow, and too early where the host was so slow that every
// collective had ended before the next op.
#pragma once

#include <compare>
#include <cstddef>
#include <map>
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

/// The streams whose collectives the compute stream waits for before each place, and how many collectives were issued
/// on the stream behind the one that is waited for.
using StreamWaits = std::map<ItemPlace, std::map<StreamId, std::uint32_t>>;

/// Of the collectives of the segments [first, last) of `steps`, which have the same items there.
[[nodiscard]] StreamWaits find_stream_waits(const Run& run, std::span<const StepCalls* const> steps, std::size_t first,
                                            std::size_t last, StreamId compute);

}  // namespace foreshard::traces
