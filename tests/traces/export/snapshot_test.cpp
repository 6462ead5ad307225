// The snapshot export: read back with identical events, replayed with the same peaks, and within what PyTorch's viewer
// reads.

#include <cstdlib>
#include <map>
#include <set>

#include "core/allocator/replay.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/traces/export/random_run.hpp"
#include "tests/traces/export/written.hpp"
#include "traces/export/snapshot_pickle.hpp"
#include "traces/import/import.hpp"
#include "traces/pytorch/snapshot_file.hpp"

using namespace foreshard;
using namespace foreshard::test;
using namespace foreshard::traces;

namespace {

std::string exported_snapshot(const Run& run) {
  return written([&](ByteSink& sink) { REQUIRE(write_snapshot(run, sink)); });
}

SnapshotFile read_exported_snapshot(const Run& run) {
  auto source = ByteSource::from_memory("exported.pickle", exported_snapshot(run));
  REQUIRE(source);
  auto file = read_snapshot(*source);
  if (!file) FAIL(file.error().text());
  return std::move(*file);
}

void check_events(const Run& run, const Snapshot& snapshot) {
  REQUIRE(snapshot.events.size() == run.allocator.size());
  for (std::size_t i = 0; i < run.allocator.size(); ++i) {
    const AllocatorEvent& event = snapshot.events[i];
    const AllocatorRecord& record = run.allocator[i];
    INFO("event " << i);
    CHECK(event.action == record.action);
    CHECK(event.address == record.address);
    CHECK(event.size == record.size);
    CHECK(event.time_us == record.time.count / 1000);
  }
  REQUIRE(snapshot.segments.size() == run.segments.size());
  for (std::size_t i = 0; i < run.segments.size(); ++i) {
    CHECK(snapshot.segments[i].address == run.segments[i].address);
    CHECK(snapshot.segments[i].total_size == run.segments[i].total_size);
    CHECK(snapshot.segments[i].stream == run.segments[i].stream);
    CHECK(snapshot.segments[i].pool_id == run.segments[i].pool_id);
    CHECK(snapshot.segments[i].blocks == run.segments[i].blocks);
  }
}

/// The opcodes that memory_viz knows (MemoryViz.js, unpickle), with the bytes that follow each; its largest batch.
struct Opcodes {
  std::set<int> used;
  std::size_t longest_batch = 0;

  explicit Opcodes(const std::string& pickle) {
    const std::map<int, std::size_t> sizes{{0x80, 1}, {'(', 0}, {'.', 0},  {'}', 0},  {']', 0},  {'e', 0},
                                           {'u', 0},  {'J', 4}, {'K', 1},  {'M', 2},  {0x94, 0}, {'h', 1},
                                           {'j', 4},  {'G', 8}, {0x86, 0}, {0x88, 0}, {0x89, 0}};
    std::vector<std::size_t> marks;  // values since each open mark
    const auto value = [&marks] {
      if (!marks.empty()) ++marks.back();
    };
    for (std::size_t at = 0; at < pickle.size();) {
      const int op = static_cast<unsigned char>(pickle[at++]);
      used.insert(op);
      const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(pickle.at(at + i)); };
      if (op == 0x8c || op == 0x8a) {
        at += std::size_t{1} + byte(0);
      } else if (op == 'X') {
        at += std::size_t{4} + byte(0) + 256 * byte(1) + 65536 * byte(2);
      } else {
        const auto known = sizes.find(op);
        REQUIRE(known != sizes.end());
        at += known->second;
      }
      if (op == '(') {
        marks.push_back(0);
      } else if (op == 'e' || op == 'u') {
        REQUIRE_FALSE(marks.empty());
        if (op == 'e') longest_batch = std::max(longest_batch, marks.back());
        marks.pop_back();
      } else if (op == 0x86) {
        if (!marks.empty()) --marks.back();  // two values become one
      } else if (op != 0x80 && op != '.' && op != 0x94) {
        value();
      }
    }
    CHECK(marks.empty());
  }
};

Run sample(const std::string& name) {
  const std::string base = "traces/samples/" + name;
  auto run = import_run({.snapshot = base + ".pickle.xz", .about = base + ".about.json", .workload = false});
  if (!run) FAIL(run.error().text());
  return std::move(*run);
}

}  // namespace

TEST_CASE("Snapshot: our reader finds identical events and segments") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    const Run run = RandomRun(seed, seed % 2 == 0 ? RunKind::imported : RunKind::planned).make();
    const SnapshotFile back = read_exported_snapshot(run);
    check_events(run, back.snapshot);
    CHECK(back.pickle_protocol == 4);
    CHECK(back.stats.empty());
    CHECK(back.has_frames);
  }
}

TEST_CASE("Snapshot: every kind of entry, state and number comes back") {
  Run run;
  run.streams = {{kComputeStream, "compute", 0, 0}, {StreamId{1}, "s", 0xfffffffffffffff0, 0}};
  run.settings.alloc_conf = "expandable_segments:True,max_split_size_mb:200";
  for (int action = 0; action <= static_cast<int>(AllocatorAction::oom); ++action)
    run.allocator.push_back({static_cast<AllocatorAction>(action),
                             Address{1} << (7 * action),
                             Bytes{200} << action,
                             StreamId{static_cast<std::uint32_t>(action % 2)},
                             {action * 1'000'000'000'000},
                             {}});
  for (const Bytes size : {Bytes{255}, Bytes{256}, Bytes{65535}, Bytes{65536}, Bytes{1} << 31, Bytes{1} << 62})
    run.allocator.push_back(
        {AllocatorAction::segment_alloc, ~Address{0} - size, size, kComputeStream, run.allocator.back().time, {}});
  SnapshotSegment segment;
  segment.address = 4096;
  segment.total_size = 3 * 512;
  segment.stream = 0xfffffffffffffff0;
  segment.pool_id = {0, 3};
  segment.is_expandable = true;
  segment.small_pool = true;
  segment.blocks = {{4096, 512, 500, BlockState::live},
                    {4608, 512, 7, BlockState::pending_free},
                    {5120, 512, 0, BlockState::inactive}};
  run.segments.push_back(segment);
  const SnapshotFile back = read_exported_snapshot(run);
  check_events(run, back.snapshot);
  CHECK(back.snapshot.events[1].stream == 0xfffffffffffffff0);
  CHECK(back.snapshot.segments[0].is_expandable);
  CHECK(back.snapshot.segments[0].small_pool);
  CHECK(back.snapshot.settings.alloc_conf == run.settings.alloc_conf);
  CHECK(back.snapshot.settings.max_split_size == static_cast<std::int64_t>(200 * kMiB));
  CHECK(back.snapshot.settings.expandable_segments);
  std::ostringstream out;
  ByteSink sink = ByteSink::to_stream(out);
  CHECK_FALSE(write_snapshot(Run{}, sink));
}

TEST_CASE("Snapshot: only opcodes that memory_viz knows, batches of at most 1,000, and the category it needs") {
  Run run = RandomRun(4, RunKind::planned).make();
  for (int i = 0; i < 3500; ++i)
    run.allocator.push_back({AllocatorAction::segment_alloc, Address{1} << 40, 512, kComputeStream, {i}, {}});
  for (BlockRecord& block : run.blocks) block.category = MemoryCategory::activations;
  const std::string pickle = exported_snapshot(run);
  const Opcodes opcodes(pickle);
  CHECK(opcodes.longest_batch == 1000);
  CHECK(pickle.find("activations") != std::string::npos);
  CHECK(pickle.find("unknown") != std::string::npos);
  CHECK(exported_snapshot(run) == pickle);
}

TEST_CASE("Snapshot: names that are no UTF-8 are made so") {
  Run run = RandomRun(4, RunKind::imported).make();
  run.annotations[0].label = run.labels.intern("a\xff\xc3(\xed\xa0\x80 é");
  const SnapshotFile back = read_exported_snapshot(run);
  REQUIRE_FALSE(back.snapshot.annotations.empty());
  CHECK(back.snapshot.annotations[0].name == "a\xef\xbf\xbd\xef\xbf\xbd(\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd é");
}

TEST_CASE("Snapshot: a recording's export replays to the recording's peaks") {
  const Run run = sample("mlp_record1");
  const SnapshotFile back = read_exported_snapshot(run);
  check_events(run, back.snapshot);
  const auto original = read_snapshot("traces/samples/mlp_record1.pickle.xz");
  REQUIRE(original);
  for (std::size_t i = 0; i < back.snapshot.events.size(); ++i)
    REQUIRE(back.snapshot.events[i].stream == original->snapshot.events[i].stream);
  REQUIRE(back.snapshot.annotations.size() == original->snapshot.annotations.size());
  const auto replayed = verify(back.snapshot, {});
  const auto expected = verify(original->snapshot, {});
  REQUIRE(replayed);
  REQUIRE(expected);
  CHECK(replayed->mismatches == 0);
  CHECK(replayed->peaks == expected->peaks);
}

TEST_CASE("Snapshot: PyTorch's viewer's arithmetic under Node gives the recorded peak") {
  if (std::system("node --version > /dev/null 2>&1") != 0) FORESHARD_SKIP("node is not installed");
  const Run run = sample("mlp_record1");
  const TemporaryFolder folder;
  const std::string path = folder.write("snapshot.pickle", exported_snapshot(run));
  // memory_viz adds requested sizes of blocks from alloc to free_completed, those from before the recording included.
  Bytes peak = 0;
  for (const StepRecord& step : run.steps) peak = std::max(peak, step.peaks.requested);
  const std::string command =
      "node tests/traces/export/viewer_peak.js " + path + " " + std::to_string(peak) + " > /dev/null";
  CHECK(std::system(command.c_str()) == 0);
}
