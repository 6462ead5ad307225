// Everything about one moment of a run's memory: who holds what, and what waits for what.
//
// Internal to core/explain. `run` must outlive it.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/explain/memory_walk.hpp"
#include "core/explain/waits.hpp"
#include "core/run/block_units.hpp"

namespace foreshard::explain_detail {

class Moments {
 public:
  Moments(const Run& run, std::size_t largest)
      : run_(run), lives_(block_lives(run)), units_(block_units(run)), waits_(run), largest_(largest) {
    name_streams();
    find_older_stacks();
  }

  /// The moment after the last event that `walk` has applied.
  [[nodiscard]] Moment describe(const MemoryWalk& walk) const;

  /// "compute", "all-gather copy-in", …: an imported stream goes by what it holds, since its handle says nothing.
  [[nodiscard]] std::string stream_name(StreamId stream) const;

 private:
  void name_streams();
  void find_older_stacks();
  [[nodiscard]] HeldBlock held_block(const MemoryState& state, Address address, const Held& held) const;
  void add_shares(const MemoryState& state, Moment& moment) const;
  void add_holdings(const MemoryState& state, Moment& moment) const;
  void add_blocks(const MemoryState& state, Moment& moment) const;

  const Run& run_;
  std::vector<BlockLife> lives_;
  std::vector<UnitId> units_;  // by block
  Waits waits_;
  std::size_t largest_;
  std::vector<std::pair<StreamId, std::string>> names_;  ///< by stream
  std::map<Address, StackId> older_stacks_;              ///< of blocks older than the recording that outlive it
};

/// Which step of the allocator's recording a time lies in; −1 before the first. For many times.
class StepsByTime {
 public:
  explicit StepsByTime(const Run& run);
  [[nodiscard]] std::int32_t at(Nanoseconds time) const;

 private:
  std::vector<std::pair<Nanoseconds, std::int32_t>> begins_;  // ascending, with the step that a request ended
};

/// The step of the allocator's recording that a time lies in, and the phase; −1 and "" outside.
[[nodiscard]] std::int32_t step_at(const Run& run, Nanoseconds time);

/// The step behind the last whole one, which a request that found no memory ended; none: no request failed in it.
[[nodiscard]] std::optional<StepRecord> failed_step(const Run& run);
[[nodiscard]] std::string phase_at(const Run& run, Nanoseconds time);

/// Every free block of the default pool, as `visit(segment's address, segment, from, to)`, by address.
template <class Visit>
void for_each_free(const MemoryState& state, Visit&& visit) {
  for (const auto& [address, segment] : state.segments()) {
    if (segment.pool != kDefaultPool) continue;
    Address from = address;
    auto held = state.held().lower_bound(address);
    for (; held != state.held().end() && held->first < segment.end; ++held) {
      if (from < held->first) visit(address, segment, from, held->first);
      from = held->first + held->second.size;
    }
    if (from < segment.end) visit(address, segment, from, segment.end);
  }
}

}  // namespace foreshard::explain_detail
