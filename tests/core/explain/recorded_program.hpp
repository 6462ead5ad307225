// A random allocation program as a Run, with what the allocator itself says after each operation.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "core/allocator/replay.hpp"
#include "core/run/run.hpp"
#include "tests/core/allocator/random_program.hpp"

namespace foreshard::test {

/// The allocator after one operation.
struct Truth {
  std::size_t events = 0;  ///< made until then
  std::vector<SnapshotSegment> segments;
  Bytes requested = 0;
  Bytes allocated = 0;
  Bytes active = 0;
  Bytes reserved = 0;
};

struct RecordedProgram {
  Run run;
  std::vector<Truth> truths;
};

inline PoolId pool_in(const std::vector<SnapshotSegment>& segments, Address address) {
  for (const SnapshotSegment& segment : segments)
    if (address >= segment.address && address < segment.address + segment.total_size)
      return PoolId{static_cast<std::uint32_t>(segment.pool_id.second)};
  return kDefaultPool;
}

/// The program's events with blocks, as core/step records a plan.
inline RecordedProgram record(const ProgramOptions& options) {
  RecordedProgram out;
  std::vector<PoolId> pools;  // of the k-th alloc
  std::size_t seen = 0;
  RandomProgram program(options);
  program.run([&](Bench& bench) {
    const StatisticGroup& all = bench.all();
    Truth truth{bench.list.events.size(),
                bench.allocator.snapshot(),
                static_cast<Bytes>(all.requested_bytes.current),
                static_cast<Bytes>(all.allocated_bytes.current),
                static_cast<Bytes>(all.active_bytes.current),
                static_cast<Bytes>(all.reserved_bytes.current)};
    for (; seen < truth.events; ++seen)
      if (bench.list.events[seen].action == AllocatorAction::alloc)
        pools.push_back(pool_in(truth.segments, bench.list.events[seen].address));
    out.truths.push_back(std::move(truth));
  });
  const Snapshot snapshot = program.snapshot();
  out.run.info.kind = RunKind::planned;
  out.run.settings.alloc_conf = options.config;
  for (std::uint32_t stream = 0; stream < 3; ++stream)
    out.run.streams.push_back({StreamId{stream}, "stream " + std::to_string(stream), 0, 0});
  std::map<Address, BlockId> held;
  for (const AllocatorEvent& event : snapshot.events) {
    AllocatorRecord record{event.action,
                           event.address,
                           event.size,
                           StreamId{static_cast<std::uint32_t>(event.stream)},
                           Nanoseconds::from_us(event.time_us),
                           {}};
    if (event.action == AllocatorAction::alloc) {
      record.block = BlockId{static_cast<std::uint32_t>(out.run.blocks.size())};
      held[event.address] = record.block;
      BlockRecord block;
      block.address = event.address;
      block.requested = event.size;
      block.stream = record.stream;
      block.pool = pools[out.run.blocks.size()];
      out.run.blocks.push_back(block);
    } else if (const auto at = held.find(event.address); at != held.end()) {
      const bool free =
          event.action == AllocatorAction::free_requested || event.action == AllocatorAction::free_completed;
      if (free) record.block = at->second;
    }
    out.run.allocator.push_back(record);
  }
  // Sizes of blocks: where a block is in a later state of the allocator, that one says; all are, since a state follows
  // every operation and an operation makes at most one block.
  for (std::size_t i = 0, alloc = 0, event = 0; i < out.truths.size(); ++i) {
    for (; event < out.truths[i].events; ++event) {
      if (out.run.allocator[event].action != AllocatorAction::alloc) continue;
      BlockRecord& block = out.run.blocks[alloc++];
      for (const SnapshotSegment& segment : out.truths[i].segments)
        for (const SnapshotBlock& candidate : segment.blocks)
          if (candidate.address == block.address) block.size = candidate.size;
    }
  }
  out.run.segments = snapshot.segments;
  return out;
}

}  // namespace foreshard::test
