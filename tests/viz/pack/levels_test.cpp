// Levels of detail: what is coarse adds up to what is fine.

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "core/explain/explanation.hpp"
#include "tests/viz/pack/decode.hpp"
#include "tests/viz/svg/drawn_runs.hpp"
#include "viz/pack/block_levels.hpp"
#include "viz/pack/memory_levels.hpp"
#include "viz/pack/op_tables.hpp"
#include "viz/pack/track_levels.hpp"

using namespace foreshard;
using namespace foreshard::viz;

namespace {

const std::array<BlockGroups, 3> kNoGroups;

/// Some 48,000 events in bursts, with blocks of all lengths; every tenth waits before it is free.
Run busy_run() {
  Run run;
  run.units = {{"", {}}, {"layers.0", {}}, {"layers.1", {}}};
  run.streams = {{kComputeStream, "compute", 0, 0}, {StreamId{1}, "all-gather", 0, 0}};
  run.allocator.push_back({AllocatorAction::segment_alloc, 0x100000, 16 * kGiB, kComputeStream, us(0), {}});
  std::vector<Address> places;  // no two blocks in use lie over each other
  for (std::uint64_t i = 0; i < 16384; ++i) places.push_back(0x100000 + i * kMiB);
  std::set<std::pair<std::int64_t, std::uint32_t>> open;
  std::uint64_t state = 1;
  const auto below = [&state](std::uint64_t limit) {
    state = state * 6364136223846793005ULL + 1442695040888963407ULL;
    return (state >> 33) % limit;
  };
  std::int64_t time = 1000;
  for (std::uint32_t i = 0; i < 16000; ++i) {
    time += static_cast<std::int64_t>(i % 500 == 0 ? 5'000'000 : below(2000));
    while (!open.empty() && open.begin()->first <= time) {
      const BlockId id{open.begin()->second};
      const BlockRecord& of = run.blocks[id.value];
      run.allocator.push_back(
          {AllocatorAction::free_requested, of.address, of.requested, of.stream, Nanoseconds{time}, id});
      const std::int64_t later = id.value % 10 == 0 ? 700 : 0;
      run.allocator.push_back(
          {AllocatorAction::free_completed, of.address, of.requested, of.stream, Nanoseconds{time + later}, id});
      time += later;
      places.push_back(of.address);
      open.erase(open.begin());
    }
    BlockRecord block;
    REQUIRE_FALSE(places.empty());
    block.address = places.back();
    places.pop_back();
    block.requested = 1000 + below(100000);
    block.size = (block.requested + 511) / 512 * 512;
    block.stream = StreamId{static_cast<std::uint32_t>(below(2))};
    block.unit = UnitId{static_cast<std::uint32_t>(below(4))};  // 3: no such unit
    block.category = static_cast<MemoryCategory>(below(14));
    run.blocks.push_back(block);
    run.allocator.push_back(
        {AllocatorAction::alloc, block.address, block.requested, block.stream, Nanoseconds{time}, BlockId{i}});
    open.emplace(time + static_cast<std::int64_t>(below(3) == 0 ? below(40'000) : below(9'000'000)), i);
  }
  return run;
}

/// Of the columns of a list, in one row.
std::int64_t sum(std::span<const Column> list, std::size_t row) {
  std::int64_t out = 0;
  for (const Column& column : list) out += column[row];
  return out;
}

}  // namespace

TEST_CASE("each level of memory has the highest and the lowest value, and ends where the last does") {
  const Run run = busy_run();
  const MemoryLevels levels(run, us(7));
  REQUIRE(levels.levels().size() >= 2);
  CHECK(levels.levels().back().width.count == 0);
  std::array<std::int64_t, 4> most{}, last{};
  MemoryState state = before_first(run);
  for (const AllocatorRecord& record : run.allocator) {
    apply(run, record, state);
    last = {state.allocated, state.active, state.reserved, state.requested};
    for (std::size_t k = 0; k < 4; ++k) most[k] = std::max(most[k], last[k]);
  }
  for (std::size_t level = 0; level + 1 < levels.levels().size(); ++level) {
    std::array<std::int64_t, 4> seen{};
    ColumnTable table(kMemoryLines);
    for (std::size_t tile = 0; tile < levels.levels()[level].tiles.size(); ++tile) {
      table = levels.statistics(level, tile);
      const Column& time = table["time"];
      CHECK(time.size() == levels.levels()[level].tiles[tile].entries);
      CHECK(time.front() == levels.levels()[level].tiles[tile].start.count);
      CHECK(std::is_sorted(time.begin(), time.end()));
      for (std::size_t k = 0; k < 4; ++k) {
        const Column& of = table[std::string(kStatistics[k]) + "_most"];
        seen[k] = std::max(seen[k], *std::max_element(of.begin(), of.end()));
      }
    }
    for (std::size_t k = 0; k < 4; ++k) {
      CHECK(seen[k] == most[k]);
      CHECK(table[std::string(kStatistics[k]) + "_last"].back() == last[k]);
    }
  }
}

TEST_CASE("every stack adds up to allocated memory, at every level") {
  const Run run = busy_run();
  const MemoryLevels levels(run, {});
  for (const Stacking stacking : {Stacking::category, Stacking::unit, Stacking::stream}) {
    const std::size_t count = levels.components(stacking).size();
    REQUIRE(count > 0);
    for (std::size_t level = 0; level + 1 < levels.levels().size(); ++level)
      for (std::size_t tile = 0; tile < levels.levels()[level].tiles.size(); ++tile) {
        const ColumnTable lines = levels.statistics(level, tile), stack = levels.stack(stacking, level, tile);
        REQUIRE(stack.list("highest").size() == count);
        CHECK(stack["time"] == lines["time"]);
        bool equal = true;
        for (std::size_t row = 0; row < stack["time"].size(); ++row)
          equal = equal && sum(stack.list("highest"), row) == lines["allocated_most"][row] &&
                  sum(stack.list("last"), row) == lines["allocated_last"][row];
        CHECK(equal);
      }
  }
}

TEST_CASE("the gap's parts add up to reserved memory, and events hold what the page takes them apart for") {
  const Run run = busy_run();
  const MemoryLevels levels(run, {});
  const std::size_t count = levels.components(Stacking::gap).size();
  REQUIRE(count == 7);
  const ColumnTable lines = levels.statistics(0, 0), stack = levels.stack(Stacking::gap, 0, 0);
  for (std::size_t row = 1; row < stack["time"].size(); ++row)
    REQUIRE(sum(stack.list("highest"), row) == lines["reserved_most"][row]);
  const ColumnTable events = levels.events(levels.levels().back().tiles.size() - 1);
  const auto parts = gap_series(run);
  REQUIRE(parts);
  const std::size_t first = levels.levels().back().tiles.back().first_event;
  for (std::size_t row = 0; row < events["time"].size(); ++row) {
    const auto at = [&](std::string_view column) { return events[column][row]; };
    const std::int64_t allocated = at("allocated"), pending = at("pending");
    const std::int64_t free = at("hard_fragmentation") + at("soft_fragmentation") + at("private_pools");
    const MemoryParts& want = (*parts)[first + row];
    REQUIRE(allocated - at("rounding") + at("requested_left") == static_cast<std::int64_t>(want.requested));
    REQUIRE(pending + at("pending_left") == static_cast<std::int64_t>(want.pending_free));
    REQUIRE(at("reserved") - allocated - pending - free + at("stream_left") == static_cast<std::int64_t>(want.stream));
  }
  // Before the tile's first event the three stacks hold the same bytes.
  const auto total = [](const Column& column) {
    std::int64_t out = 0;
    for (const std::int64_t value : column) out += value;
    return out;
  };
  CHECK(total(events["category_before"]) == total(events["unit_before"]));
  CHECK(total(events["category_before"]) == total(events["stream_before"]));
}

TEST_CASE("a track's levels keep every op and all its time") {
  Run run = small_run();
  run.device_ops.clear();
  for (int i = 0; i < 20000; ++i)
    run.device_ops.push_back(kernel(kComputeStream, us(10 * i), us(10 * i), us(10 * i + (i % 7 == 0 ? 9 : 2)),
                                    i % 3 == 0 ? KernelClass::gemm : KernelClass::memory_bound));
  run.device_ops.push_back(kernel(kComputeStream, us(11), us(11), us(13), KernelClass::gemm));  // over another one
  const OpFacts facts(run);
  const TrackLevels tracks(run, facts, {});
  std::uint64_t of_lane = 0;
  for (std::size_t t = 0; t < tracks.tracks().size(); ++t) {
    const Track& track = tracks.tracks()[t];
    const auto& every = track.levels.back();
    CHECK(every.width.count == 0);
    if (tracks.lanes()[track.lane].name == "compute") of_lane += every.bars.size();
    std::int64_t busy = 0;
    for (const TrackBar& bar : every.bars) busy += bar.busy;
    for (const TrackLevel& level : track.levels) {
      std::uint64_t ops = 0;
      std::int64_t time = 0, end = INT64_MIN;
      for (const TrackBar& bar : level.bars) {
        ops += bar.count;
        time += bar.busy;
        CHECK_FALSE(bar.start < end);  // bars of a track follow one another
        end = bar.end;
      }
      CHECK(ops == every.bars.size());
      CHECK(time == busy);
    }
    const ColumnTable totals = tracks.totals(t);
    const std::size_t end = totals.list("busy").front().size() - 1;
    CHECK(sum(totals.list("busy"), end) == busy);
    CHECK(sum(totals.list("ops"), end) == static_cast<std::int64_t>(every.bars.size()));
  }
  CHECK(of_lane == 20001);
  CHECK(tracks.track_of_device_op()[20000] != tracks.track_of_device_op()[1]);
}

TEST_CASE("blocks are all there once, in the class of their life, and merged ones count all shorter lives") {
  const Run run = busy_run();
  Labels names = run.labels;
  const BlockLevels levels(run, us(3), kNoGroups, names);
  CHECK(levels.lives().size() == run.blocks.size());
  std::vector<int> seen(run.blocks.size());
  for (std::size_t c = 0; c < levels.classes().size(); ++c) {
    const Nanoseconds longest = c == 0 ? Nanoseconds{INT64_MAX} : levels.classes()[c - 1].shortest;
    for (const std::uint32_t i : levels.classes()[c].lives) {
      const BlockLife& life = levels.lives()[i];
      ++seen[life.id];
      if (life.back == kNever) {
        CHECK(c == 0);
        continue;
      }
      CHECK(life.back - life.made >= levels.classes()[c].shortest.count);
      CHECK(life.back - life.made < longest.count);
    }
  }
  CHECK(std::all_of(seen.begin(), seen.end(), [](int times) { return times == 1; }));
  REQUIRE_FALSE(levels.merged().empty());
  for (const MergedLevel& level : levels.merged()) {
    std::uint64_t count = 0, shorter = 0;
    for (const MergedBlocks& entry : level.entries) count += entry.count;
    for (const BlockLife& life : levels.lives())
      shorter += life.back != kNever && life.back - life.made < level.width.count ? 1U : 0U;
    CHECK(count == shorter);
  }
}

TEST_CASE("memory that the recording did not see made or given back is on the map") {
  Run run;
  run.streams = {{kComputeStream, "compute", 7, 0}};
  run.allocator.push_back({AllocatorAction::free_requested, 0x1000, 512, kComputeStream, us(1), {}});
  run.allocator.push_back({AllocatorAction::free_completed, 0x1000, 512, kComputeStream, us(2), {}});
  run.allocator.push_back({AllocatorAction::segment_free, 0x1000, 2 * kMiB, kComputeStream, us(3), {}});
  SnapshotSegment segment;
  segment.address = 0x900000;
  segment.total_size = 2 * kMiB;
  segment.stream = 7;
  segment.blocks = {{0x900000, 1024, 1000, BlockState::live}, {0x900400, 1024, 0, BlockState::inactive}};
  run.segments = {segment};
  Labels names;
  const BlockLevels levels(run, {}, kNoGroups, names);
  REQUIRE(levels.lives().size() == 2);
  CHECK(levels.lives()[0].made == kBefore);
  CHECK(levels.lives()[0].back == us(2).count);
  CHECK(levels.lives()[1].back == kNever);
  CHECK(levels.lives()[1].stream == kComputeStream);
  REQUIRE(levels.segments().size() == 2);
  CHECK(levels.axis().length() == 4 * kMiB);
}

TEST_CASE("pages of an expandable segment come and go in parts") {
  Run run;
  const auto event = [&run](AllocatorAction action, Address address, Bytes size, std::int64_t time) {
    run.allocator.push_back({action, address, size, kComputeStream, us(time), {}});
  };
  event(AllocatorAction::segment_map, 0x100000, 8 * kMiB, 1);
  event(AllocatorAction::segment_unmap, 0x300000, 2 * kMiB, 5);
  Labels names;
  const BlockLevels levels(run, {}, kNoGroups, names);
  REQUIRE(levels.segments().size() == 3);
  Bytes bytes = 0;
  for (const SegmentLife& life : levels.segments()) {
    bytes += life.size;
    CHECK(life.to == (life.address == 0x300000 ? us(5).count : kNever));
  }
  CHECK(bytes == 8 * kMiB);
}

TEST_CASE("an op waits for what its stream was told to wait for, and for the op before it") {
  Run run;
  run.device_ops = {kernel(StreamId{2}, us(1), us(1), us(5), KernelClass::gemm),
                    kernel(StreamId{0}, us(4), us(6), us(9), KernelClass::gemm),
                    kernel(StreamId{0}, us(8), us(9), us(12), KernelClass::gemm)};
  run.events = {{EventRecord::Kind::record, EventId{3}, StreamId{2}, us(2)},
                {EventRecord::Kind::wait, EventId{3}, StreamId{0}, us(3)},
                {EventRecord::Kind::wait, EventId{9}, StreamId{0}, us(3)},  // recorded nowhere
                {EventRecord::Kind::host_wait, EventId{3}, StreamId{}, us(7)}};
  const OpWaits waits(run);
  REQUIRE(waits.waits(1).size() == 1);
  CHECK(waits.waits(1)[0].op == 0);
  CHECK(waits.waits(1)[0].stream == StreamId{2});
  CHECK(waits.waits(2).empty());
  CHECK(waits.previous(2) == 1);
  CHECK(waits.previous(0) == UINT32_MAX);
}

TEST_CASE("a block that is freed before it is allocated has a class all the same") {
  Run run = busy_run();
  // Half of the recording is a second earlier: a clock that was set back.
  for (std::size_t i = run.allocator.size() / 2; i < run.allocator.size(); ++i)
    run.allocator[i].time = run.allocator[i].time - us(1'000'000);
  Labels names;
  const BlockLevels levels(run, us(0), kNoGroups, names);
  std::size_t rows = 0;
  for (std::size_t i = 0; i < levels.classes().size(); ++i) rows += levels.classes()[i].lives.size();
  CHECK(rows >= run.blocks.size());
}
