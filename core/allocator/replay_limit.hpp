// Which memory limits explain what a recorded malloc gave back. Internal to core/allocator's replay.
//
// No snapshot names the limit of set_per_process_memory_fraction, or the memory that the driver had. But each miss
// bounds it: a segment that was made lay within it, what garbage collection left says which passes it made, and a
// release or an out of memory that nothing else explains was a refusal (caching allocator 3.5 to 3.8, 10.2).
#pragma once

#include <span>
#include <vector>

#include "core/allocator/address_intervals.hpp"
#include "core/allocator/replay_plan.hpp"

namespace foreshard::allocator_detail {

/// Sets of limits in bytes, up to and with kNoLimit.
using LimitSet = AddressIntervals;

[[nodiscard]] bool contains(const LimitSet& set, Bytes limit);
[[nodiscard]] LimitSet both(const LimitSet& a, const LimitSet& b);
[[nodiscard]] LimitSet either(const LimitSet& a, const LimitSet& b);
[[nodiscard]] LimitSet every_limit();

/// The limits under which the entries of a miss come out as recorded, by what the program and the driver did.
struct Explanations {
  LimitSet by_limit;               ///< the limit alone decided
  LimitSet by_empty_cache;         ///< empty_cache came first
  LimitSet by_driver;              ///< the driver refused what the limit did not
  Bytes asked = 0;                 ///< reserved memory, had the first attempt succeeded with nothing given back
  bool refused_by_driver = false;  ///< the recording shows that it did, or had too little
};

/// A recorded malloc that found no block.
struct RecordedMiss {
  std::span<const ReplayEntry> entries;  ///< behind its polled completions, up to and with its alloc or oom
  LimitOutcomes outcomes;                ///< the allocator's
  std::vector<Address> cached;           ///< segments that empty_cache would give back now, in its order
  std::size_t pending = 0;               ///< freed blocks that wait for events, behind the poll
};

[[nodiscard]] Explanations explain(const RecordedMiss& miss);

}  // namespace foreshard::allocator_detail
