#include "tests/catch.hpp"
#include "tests/traces/pytorch/packing.hpp"
#include "traces/pytorch/snapshot_file.hpp"

namespace foreshard::traces {
namespace {

using namespace testing;
using namespace std::string_literals;

SnapshotFile snapshot_of_bytes(const std::string& bytes, const SnapshotOptions& options = {}) {
  auto source = source_of(bytes);
  auto file = read_snapshot(source, options);
  INFO((file ? "" : file.error().text()));
  REQUIRE(file);
  return std::move(*file);
}

std::uint64_t count_of(const SnapshotFile& file, const std::string& name) {
  for (const ImportStat& stat : file.stats)
    if (stat.name == name) return stat.count;
  return 0;
}

constexpr const char* kJson = R"({
 "segments": [
  {"device": 0, "address": 4194304, "total_size": 2097152, "allocated_size": 512, "active_size": 1024,
   "requested_size": 700, "stream": 77, "segment_type": "small", "segment_pool_id": [0, 3], "is_expandable": true,
   "frames": [], "blocks": [
    {"address": 4194304, "size": 512, "requested_size": 500, "state": "active_allocated", "frames": []},
    {"size": 512, "requested_size": 200, "state": "active_awaiting_free"},
    {"address": 4195328, "size": 2096128, "requested_size": 0, "state": "inactive", "colour": 1}]},
  {"device": 0, "address": 2097152, "total_size": 2097152, "stream": 0, "segment_type": "large", "blocks": [
    {"address": 2097152, "size": 2097152, "state": "active_pending_free"}]}],
 "device_traces": [[
  {"action": "segment_alloc", "addr": 4194304, "size": 2097152, "stream": 77, "time_us": 10},
  {"action": "alloc", "addr": 4194304, "size": 500, "stream": 77, "time_us": 12, "frames": [{"name": "f"}]},
  {"action": "annotate", "size": 0, "time_us": 11, "novel": 3},
  {"action": "oom", "device_free": 99, "size": 1000, "stream": 0, "time_us": 13},
  {"action": "free_requested", "addr": 4194304, "size": 500, "stream": 77}], []],
 "allocator_settings": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "max_split_size": 209715200,
  "garbage_collection_threshold": 0.6, "expandable_segments": true},
 "external_annotations": [{"stage": "START", "name": "FSDP::pre_forward", "device": 0, "time_us": 11},
  {"stage": "END", "name": "other", "device": 1, "time_us": 12}]
})";

/// A snapshot of two entries with these further keys, and these of the allocator's settings.
std::string with_keys(const std::string& keys, const std::string& settings = {}) {
  return R"({"segments": [], "device_traces": [[
    {"action": "alloc", "addr": 4096, "size": 512, "stream": 0, "time_us": 100},
    {"action": "free_requested", "addr": 4096, "size": 512, "stream": 0, "time_us": 110}]],
    "external_annotations": [
    {"stage": "START", "name": "FSDP::all_gather", "device": 0, "time_us": 10},
    {"stage": "END", "name": "FSDP::all_gather", "device": 0, "time_us": )" +
         std::string(keys.find("early") == std::string::npos ? "105" : "20") + R"(}],
    "allocator_settings": {)" +
         settings + "}" + keys + "}";
}

TEST_CASE("pinned host memory and keys of later versions are counted") {
  const SnapshotFile file = snapshot_of_bytes(
      with_keys(R"(, "host_segments": [{}, {}], "host_traces": [[{}, {}, {}]], "novel": 1, "newer": [])"));
  CHECK(count_of(file, "host_segments") == 2);
  CHECK(count_of(file, "host_trace_entries") == 3);
  CHECK(count_of(file, "unknown_snapshot_key") == 2);
  CHECK(count_of(snapshot_of_bytes(with_keys("")), "unknown_snapshot_key") == 0);
  auto host = source_of(R"({"segments": [], "device_traces": [[]], "host_segments": [{}]})");
  const auto none = read_snapshot(host);
  REQUIRE_FALSE(none);
  CHECK(none.error().what.find("pinned host memory alone") != std::string::npos);
}

TEST_CASE("a history that lost its beginning says so, and lacks the annotations of it") {
  const SnapshotFile whole = snapshot_of_bytes(with_keys(""));
  CHECK(whole.stats.empty());
  CHECK(whole.snapshot.annotations.size() == 2);
  const SnapshotFile overflowed =
      snapshot_of_bytes(with_keys("", R"("trace_alloc_max_entries": 2, "trace_alloc_overflowed": true)"));
  CHECK(count_of(overflowed, "history_overflowed") == 1);
  CHECK(count_of(overflowed, "annotations_without_history") == 1);
  CHECK(overflowed.snapshot.annotations.size() == 1);
  CHECK(overflowed.snapshot.settings.history_entries == 2);
  CHECK(count_of(snapshot_of_bytes(with_keys("", R"("trace_alloc_max_entries": 2)")), "history_full") == 1);
  CHECK(count_of(snapshot_of_bytes(with_keys("", R"("trace_alloc_max_entries": 3)")), "history_full") == 0);
  // A gather that made no request was recorded without the history.
  const SnapshotFile early = snapshot_of_bytes(with_keys(R"(, "early": 0)"));
  CHECK(count_of(early, "annotations_without_history") == 2);
}

TEST_CASE("a snapshot's events, segments, annotations and settings") {
  const SnapshotFile file = snapshot_of_bytes(kJson);
  const Snapshot& s = file.snapshot;
  REQUIRE(s.events.size() == 5);
  CHECK(s.events[1].action == AllocatorAction::alloc);
  CHECK(s.events[1].address == 4194304);
  CHECK(s.events[1].size == 500);
  CHECK(s.events[1].stream == 77);
  CHECK(s.events[1].time_us == 12);
  CHECK(s.events[2].action == AllocatorAction::unknown);
  CHECK(s.events[3].action == AllocatorAction::oom);
  CHECK(s.events[3].address == 99);
  CHECK(s.events[2].time_us == 12);  // it says 11: a clock that was set back
  CHECK(s.events[4].time_us == 13);
  REQUIRE(s.segments.size() == 2);
  CHECK(s.segments[0].address == 2097152);
  CHECK(s.segments[1].pool_id == std::pair<std::uint64_t, std::uint64_t>{0, 3});
  CHECK(s.segments[1].is_expandable);
  CHECK(s.segments[1].small_pool);
  CHECK(!s.segments[0].small_pool);
  REQUIRE(s.segments[1].blocks.size() == 3);
  CHECK(s.segments[1].blocks[1] == SnapshotBlock{4194816, 512, 200, BlockState::pending_free});
  CHECK(s.segments[0].blocks[0] == SnapshotBlock{2097152, 2097152, 2097152, BlockState::pending_free});
  REQUIRE(s.annotations.size() == 1);
  CHECK(s.annotations[0].start);
  CHECK(s.annotations[0].name == "FSDP::pre_forward");
  CHECK(s.settings.alloc_conf == "expandable_segments:True");
  CHECK(s.settings.max_split_size == 209715200);
  CHECK(s.settings.garbage_collection_threshold == 0.6);
  CHECK(s.settings.expandable_segments);
  CHECK(file.has_frames);
  CHECK(file.pickle_protocol == 0);
  CHECK(file.devices == std::vector<std::uint32_t>{0});
}

TEST_CASE("what is odd in a snapshot is counted") {
  const SnapshotFile file = snapshot_of_bytes(kJson);
  CHECK(count_of(file, "unknown_action") == 1);
  CHECK(count_of(file, "unknown_entry_key") == 1);
  CHECK(count_of(file, "unknown_block_key") == 1);
  CHECK(count_of(file, "time_decreased") == 1);
  CHECK(count_of(file, "missing_time") == 1);
  CHECK(count_of(file, "block_without_address") == 1);
  CHECK(count_of(file, "segments_out_of_order") == 1);
  CHECK(count_of(file, "annotation_of_other_device") == 1);
  CHECK(count_of(file, "odd_frame") == 1);
  for (const ImportStat& stat : file.stats) CHECK(!stat.text.empty());
}

std::vector<std::int64_t> times_of(const std::vector<std::int64_t>& recorded, std::uint64_t changed) {
  std::string entries;
  for (const std::int64_t time : recorded)
    entries += std::string(entries.empty() ? "" : ",") +
               R"({"action":"snapshot","addr":0,"size":0,"stream":0,"time_us":)" + std::to_string(time) + "}";
  const SnapshotFile file = snapshot_of_bytes(R"({"segments":[],"device_traces":[[)" + entries + "]]}");
  CHECK(count_of(file, "time_decreased") == changed);
  std::vector<std::int64_t> times;
  for (const AllocatorEvent& event : file.snapshot.events) times.push_back(event.time_us);
  return times;
}

TEST_CASE("a clock that was set changes as few entries as can be") {
  using Times = std::vector<std::int64_t>;
  CHECK(times_of({10, 20, 30, 15, 25, 40, 50}, 2) == Times{10, 20, 30, 30, 30, 40, 50});
  CHECK(times_of({10, 20, 3600, 30, 40, 50}, 1) == Times{10, 20, 30, 30, 40, 50});
  CHECK(times_of({10, 20, 20, 40}, 0) == Times{10, 20, 20, 40});
}

/// One device with one entry of each list of frames; a live block has the first list.
std::string with_frames(const std::string& lists) {
  std::string entries, first;
  for (std::size_t at = 0; at < lists.size();) {
    const std::size_t end = std::min(lists.find('\n', at), lists.size());
    const std::string list = lists.substr(at, end - at);
    if (first.empty()) first = list;
    entries += std::string(entries.empty() ? "" : ",") +
               R"({"action":"alloc","addr":4096,"size":500,"stream":0,"time_us":12,"frames":)" + list + "}";
    at = end + 1;
  }
  return R"({"segments":[{"device":0,"address":4096,"total_size":512,"stream":0,"segment_type":"small","blocks":[
    {"address":4096,"size":512,"state":"active_allocated","frames":)" +
         first + R"(}]}],"device_traces":[[)" + entries + "]]}";
}

std::vector<std::string> functions(const Snapshot& snapshot, StackId stack) {
  std::vector<std::string> out;
  for (const FrameId frame : snapshot.stacks.frames_of(stack))
    out.push_back(snapshot.stacks.frames()[frame.value].function);
  return out;
}

TEST_CASE("stacks are kept, their common callers once") {
  const std::string callers =
      R"(,{"filename":"m.py","line":4,"name":"forward"},{"filename":"t.py","line":9,"name":"main"}])";
  const SnapshotFile file =
      snapshot_of_bytes(with_frames(R"([{"filename":"??","line":0,"name":"malloc"})" + callers + "\n" +
                                    R"([{"filename":"??","line":0,"name":"free"})" + callers + "\n[]"));
  const Snapshot& s = file.snapshot;
  REQUIRE(s.events.size() == 3);
  CHECK(functions(s, s.events[0].stack) == std::vector<std::string>{"malloc", "forward", "main"});
  CHECK(functions(s, s.events[1].stack) == std::vector<std::string>{"free", "forward", "main"});
  CHECK_FALSE(s.events[2].stack.valid());
  CHECK(s.segments[0].blocks[0].stack == s.events[0].stack);
  CHECK(s.stacks.frames().size() == 4);
  CHECK(s.stacks.stacks().size() == 4);
  CHECK(s.stacks.frames()[0].file == "t.py");
  CHECK(s.stacks.frames()[0].line == 9);
  CHECK(file.stats.empty());
}

TEST_CASE("frames without their texts are left out, lines beyond any file's are not known") {
  const SnapshotFile file = snapshot_of_bytes(
      with_frames(R"([{"filename":"a.py","line":18446744073709551615,"name":"f","fx_node_op":"call"},)"
                  R"({"line":1},7,{"filename":1,"name":"g"},{"filename":"b.py","name":"h"}])"
                  "\n\"no list\"\n[[]]"));
  const Snapshot& s = file.snapshot;
  CHECK(functions(s, s.events[0].stack) == std::vector<std::string>{"f", "h"});
  CHECK(s.stacks.frames()[1].line == 0);
  CHECK_FALSE(s.events[1].stack.valid());
  CHECK_FALSE(s.events[2].stack.valid());
  CHECK(count_of(file, "odd_frame") == 3 + 3 + 1);  // the block has the first list too
}

TEST_CASE("deep stacks keep their innermost frames, long names their beginning") {
  std::string list = "[";
  for (int i = 0; i < 1500; ++i)
    list += (i > 0 ? "," : "") + std::string(R"({"filename":"a.py","line":)") + std::to_string(i) + R"(,"name":"f"})";
  const SnapshotFile deep = snapshot_of_bytes(with_frames(list + "]"));
  const std::vector<FrameId> kept = deep.snapshot.stacks.frames_of(deep.snapshot.events[0].stack);
  REQUIRE(kept.size() == 1024);
  CHECK(deep.snapshot.stacks.frames()[kept.front().value].line == 0);
  CHECK(deep.snapshot.stacks.frames()[kept.back().value].line == 1023);
  CHECK(count_of(deep, "stack_cut") == 2);
  const SnapshotFile wide =
      snapshot_of_bytes(with_frames(R"([{"filename":"a.py","line":1,"name":")" + std::string(5000, 'x') + R"("}])"));
  CHECK(wide.snapshot.stacks.frames()[0].function.size() == 4096);
  CHECK(count_of(wide, "frame_name_cut") == 2);
}

/// {"segments": [], "device_traces": [[<entries on device 0>], [<on device 1>]]} with one entry for each count, an
/// alloc on device 0.
std::string two_devices(int first, int second, const std::string& action = "alloc") {
  PickleBytes bytes;
  bytes.dict().text("segments").op("]").text("device_traces").list();
  for (int device = 0; device < 2; ++device) {
    const int count = device == 0 ? first : second;
    bytes.list();
    for (int i = 0; i < count; ++i)
      bytes.dict()
          .text("action")
          .text(device == 0 ? "alloc" : action)
          .text("addr")
          .number(4096)
          .text("size")
          .op("K\x10")
          .text("stream")
          .op("K\x00"s)
          .text("time_us")
          .number(1795258503942625)
          .end_dict();
    bytes.end_list();
  }
  return bytes.end_list().end_dict().stop();
}

TEST_CASE("the device is the one that recorded, or is chosen") {
  CHECK(snapshot_of_bytes(two_devices(0, 3)).snapshot.device == 1);
  CHECK(snapshot_of_bytes(two_devices(0, 3)).snapshot.events.size() == 3);
  auto source = source_of(two_devices(2, 3));
  const auto both = read_snapshot(source);
  REQUIRE(!both);
  CHECK(both.error().kind == ErrorKind::usage);
  CHECK(both.error().what == "the snapshot holds several devices: 0, 1");
  CHECK(both.error().hint == "choose one with --device N");
  const SnapshotFile chosen = snapshot_of_bytes(two_devices(2, 3), {.device = 0});
  CHECK(chosen.snapshot.events.size() == 2);
  CHECK(count_of(chosen, "entry_of_other_device") == 3);
  auto again = source_of(two_devices(2, 3));
  const auto absent = read_snapshot(again, {.device = 7});
  REQUIRE(!absent);
  CHECK(absent.error().what == "the snapshot has no events of device 7");
  CHECK(absent.error().hint == "it has device 0, 1");
  // torch.cuda.memory_snapshot() leaves a mark on every device.
  CHECK(snapshot_of_bytes(two_devices(3, 2, "snapshot")).snapshot.device == 0);
  CHECK(snapshot_of_bytes(two_devices(3, 2, "snapshot")).snapshot.events.size() == 3);
  auto none = source_of(two_devices(0, 0));
  CHECK(read_snapshot(none).error().what == "the snapshot is empty: no segments and no recorded allocations");
}

TEST_CASE("a snapshot is the same however it is packed") {
  for (const std::string& bytes : {gzip(two_devices(0, 3)), xz(two_devices(0, 3)), two_devices(0, 3) + "\0\0"s}) {
    const SnapshotFile file = snapshot_of_bytes(bytes);
    CHECK(file.snapshot.events.size() == 3);
    CHECK(file.snapshot.events[2].time_us == 1795258503942625);
    CHECK(file.pickle_protocol == 4);
    CHECK(count_of(file, "trailing_bytes") == 0);
  }
  CHECK(count_of(snapshot_of_bytes(two_devices(0, 3) + "xyz"), "trailing_bytes") == 3);
}

TEST_CASE("a snapshot of PyTorch 1's form: no device, no addresses, sizes in the history") {
  const SnapshotFile file = snapshot_of_bytes(R"({"segments": [{"address": 4096, "total_size": 1024, "stream": 0,
    "segment_type": "large", "blocks": [{"size": 512, "state": "active_allocated",
    "history": [{"real_size": 400, "frames": []}]}, {"size": 512, "state": "inactive"}]}]})");
  REQUIRE(file.snapshot.segments.size() == 1);
  CHECK(file.snapshot.segments[0].blocks[0].requested_size == 400);
  CHECK(file.snapshot.segments[0].blocks[1].address == 4608);
  CHECK(count_of(file, "no_recorded_events") == 1);
}

}  // namespace
}  // namespace foreshard::traces
