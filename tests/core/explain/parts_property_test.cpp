// The parts against the allocator itself: random programs on every configuration, after every operation.
#include <rapidcheck.h>

#include "core/allocator/sizes.hpp"
#include "core/explain/explanation.hpp"
#include "tests/catch.hpp"
#include "tests/core/explain/recorded_program.hpp"

namespace foreshard {
namespace {

using test::record;
using test::RecordedProgram;
using test::Truth;

test::ProgramOptions any_program(int operations) {
  test::ProgramOptions options;
  options.config = *rc::gen::elementOf(test::tested_configs());
  options.seed = *rc::gen::arbitrary<std::uint64_t>();
  options.operations = operations;
  options.private_pool = *rc::gen::arbitrary<bool>();
  return options;
}

/// The parts by their definitions, from the allocator's own blocks. Expandable: whole free pages are idle.
MemoryParts by_definition(const Truth& truth, StreamId asking, const AllocatorConfig& config) {
  MemoryParts parts;
  for (const SnapshotSegment& segment : truth.segments) {
    const Bytes page = segment.small_pool ? kSmallBuffer : config.large_segment_size;
    for (const SnapshotBlock& block : segment.blocks) {
      if (block.state == BlockState::live) {
        parts.requested += block.requested_size;
        parts.rounding += block.size - block.requested_size;
      }
      if (block.state == BlockState::pending_free) parts.pending_free += block.size;
      if (block.state != BlockState::inactive) continue;
      if (segment.pool_id.second != 0) {
        parts.private_pool += block.size;
        continue;
      }
      Bytes idle = segment.blocks.size() == 1 ? block.size : 0;
      if (segment.is_expandable) {
        const Address offset = block.address - segment.address;
        const Address first = round_up(offset, page);
        const Address last = (offset + block.size) / page * page;
        idle = last > first ? last - first : 0;
      }
      parts.hard += block.size - idle;
      (StreamId{static_cast<std::uint32_t>(segment.stream)} == asking ? parts.soft : parts.stream) += idle;
    }
  }
  return parts;
}

/// A free that waits and comes back at the very next event: the walk takes it for one that never waited.
bool comes_back_next(const Run& run, std::size_t events) {
  if (events == 0 || events >= run.allocator.size()) return false;
  const AllocatorRecord& last = run.allocator[events - 1];
  const AllocatorRecord& next = run.allocator[events];
  return last.action == AllocatorAction::free_requested && next.action == AllocatorAction::free_completed &&
         last.address == next.address;
}

TEST_CASE("after every operation the parts are what the allocator's blocks are", "[explain]") {
  CHECK(rc::check([] {
    const test::ProgramOptions options = any_program(300);
    const RecordedProgram program = record(options);
    const AllocatorConfig config = parse_alloc_conf(options.config).value();
    const auto series = gap_series(program.run);
    RC_ASSERT(series.has_value());
    RC_ASSERT(series->size() == program.run.allocator.size());
    StreamId asking = kComputeStream;
    std::size_t event = 0;
    for (const Truth& truth : program.truths) {
      for (; event < truth.events; ++event) {
        const AllocatorAction action = program.run.allocator[event].action;
        if (action == AllocatorAction::segment_alloc || action == AllocatorAction::segment_map)
          asking = program.run.allocator[event].stream;
      }
      if (truth.events == 0 || comes_back_next(program.run, truth.events)) continue;
      const MemoryParts& parts = (*series)[truth.events - 1];
      RC_ASSERT(parts.allocated() == truth.allocated);
      RC_ASSERT(parts.active() == truth.active);
      RC_ASSERT(parts.reserved() == truth.reserved);
      RC_ASSERT(parts.gap() == truth.reserved - truth.allocated);
      RC_ASSERT(parts == by_definition(truth, asking, config));
    }
  }));
}

TEST_CASE("the peaks of an explanation are the allocator's", "[explain]") {
  CHECK(rc::check([] {
    const RecordedProgram program = record(any_program(200));
    if (program.run.allocator.empty()) return;
    const auto e = explain(program.run, {});
    RC_ASSERT(e.has_value());
    RC_ASSERT(e->odd_events == 0u);
    MemoryPeaks peaks;
    for (const Truth& truth : program.truths) {
      peaks.requested = std::max(peaks.requested, truth.requested);
      peaks.allocated = std::max(peaks.allocated, truth.allocated);
      peaks.active = std::max(peaks.active, truth.active);
      peaks.reserved = std::max(peaks.reserved, truth.reserved);
    }
    RC_ASSERT(e->peaks.allocated == peaks.allocated);
    RC_ASSERT(e->peaks.requested == peaks.requested);
    RC_ASSERT(e->peaks.active == peaks.active);
    RC_ASSERT(e->peaks.reserved >= peaks.reserved);  // within one operation it may fall again
    RC_ASSERT(e->reserved_peak.at.parts.reserved() == e->peaks.reserved);
    Bytes streams = 0, pools = 0, categories = 0;
    for (const Holding& stream : e->reserved_peak.streams) streams += stream.reserved();
    for (const Holding& pool : e->reserved_peak.pools) pools += pool.reserved();
    for (const auto& share : e->reserved_peak.categories) categories += share.live + share.pending;
    RC_ASSERT(streams == e->peaks.reserved);
    RC_ASSERT(pools == e->peaks.reserved);
    RC_ASSERT(categories == e->reserved_peak.at.parts.active());
  }));
}

}  // namespace
}  // namespace foreshard
