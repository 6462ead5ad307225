// The Perfetto export, read with a decoder of its schema: every packet well formed, every track described, every slice
// closed and nested.

#include "traces/export/perfetto.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "core/compare/memory_totals.hpp"
#include "tests/traces/export/protobuf_reader.hpp"
#include "tests/traces/export/random_run.hpp"
#include "tests/traces/export/written.hpp"
#include "traces/export/tracks.hpp"

using namespace foreshard;
using namespace foreshard::test;
using namespace foreshard::traces;

namespace {

struct Track {
  std::string name;
  std::uint64_t parent = 0;
  bool is_counter = false;
  bool is_thread = false;
  std::uint64_t unit = 0;
};

struct Event {
  std::uint64_t time = 0;
  std::uint64_t type = 0;
  std::uint64_t track = 0;
  std::string name;
  std::string category;
  std::int64_t value = 0;
  std::map<std::string, std::string> facts;
  std::vector<std::uint64_t> flows;
  std::vector<std::uint64_t> ended_flows;
};

/// What a file says, its numbers resolved. Field numbers: protos/perfetto/trace.
struct Decoded {
  std::map<std::uint64_t, Track> tracks;
  std::vector<Event> events;
  std::map<std::uint64_t, std::string> names, categories, annotations;

  explicit Decoded(const std::string& file) {
    for (const ProtoField& packet : fields(file)) {
      REQUIRE(packet.number == 1);
      read_packet(packet.bytes);
    }
  }

  void read_packet(std::string_view bytes) {
    const std::vector<ProtoField> all = fields(bytes);
    std::uint64_t time = 0, sequence = 0, flags = 0;
    for (const ProtoField& field : all) {
      if (field.number == 8) time = field.value;
      if (field.number == 10) sequence = field.value;
      if (field.number == 13) flags = field.value;
      if (field.number == 12) intern(field.bytes);
    }
    CHECK(sequence == 1);
    CHECK(flags == (first_ ? 1 : 2));
    first_ = false;
    for (const ProtoField& field : all) {
      if (field.number == 60) describe(field.bytes);
      if (field.number == 11) read_event(time, field.bytes);
    }
  }

  void intern(std::string_view bytes) {
    for (const ProtoField& entry : fields(bytes)) {
      const std::vector<ProtoField> parts = fields(entry.bytes);
      REQUIRE(parts.size() == 2);
      auto& table = entry.number == 1 ? categories : entry.number == 2 ? names : annotations;
      CHECK(table.emplace(parts[0].value, std::string(parts[1].bytes)).second);
    }
  }

  void describe(std::string_view bytes) {
    std::uint64_t uuid = 0;
    Track track;
    for (const ProtoField& field : fields(bytes)) {
      if (field.number == 1) uuid = field.value;
      if (field.number == 2) track.name = field.bytes;
      if (field.number == 5) track.parent = field.value;
      if (field.number == 4) {
        track.is_thread = true;
        for (const ProtoField& part : fields(field.bytes))
          if (part.number == 5) track.name = part.bytes;
      }
      if (field.number == 8) {
        track.is_counter = true;
        for (const ProtoField& part : fields(field.bytes))
          if (part.number == 3) track.unit = part.value;
      }
    }
    CHECK(tracks.emplace(uuid, track).second);
  }

  void read_event(std::uint64_t time, std::string_view bytes) {
    Event event;
    event.time = time;
    for (const ProtoField& field : fields(bytes)) {
      if (field.number == 9) event.type = field.value;
      if (field.number == 11) event.track = field.value;
      if (field.number == 10) event.name = names.at(field.value);
      if (field.number == 3) event.category = categories.at(field.value);
      if (field.number == 30) event.value = static_cast<std::int64_t>(field.value);
      if (field.number == 47) event.flows.push_back(field.value);
      if (field.number == 48) event.ended_flows.push_back(field.value);
      if (field.number == 4) read_fact(field.bytes, event);
    }
    REQUIRE(tracks.count(event.track) == 1);
    events.push_back(event);
  }

  void read_fact(std::string_view bytes, Event& event) const {
    std::string name, text;
    for (const ProtoField& field : fields(bytes)) {
      if (field.number == 1) name = annotations.at(field.value);
      if (field.number == 6) text = field.bytes;
      if (field.number == 3 || field.number == 4) text = std::to_string(field.value);
    }
    event.facts[name] = text;
  }

  /// A track's begins, ends and instants as trace_processor orders them.
  [[nodiscard]] std::map<std::uint64_t, std::vector<Event>> by_track() const {
    std::map<std::uint64_t, std::vector<Event>> out;
    for (const Event& event : events) out[event.track].push_back(event);
    for (auto& [track, list] : out)
      std::stable_sort(list.begin(), list.end(), [](const Event& a, const Event& b) { return a.time < b.time; });
    return out;
  }

 private:
  bool first_ = true;
};

Decoded exported_perfetto(const Run& run, std::optional<std::int32_t> step = {}) {
  const ExportSelection selection = selected(run, step);
  return Decoded(written([&](ByteSink& sink) { write_perfetto(run, selection, sink); }));
}

/// Every slice is closed, and ends of nested slices come in the right order; answers the deepest nesting.
std::size_t check_nesting(const std::vector<Event>& events) {
  std::size_t open = 0, deepest = 0;
  for (const Event& event : events) {
    if (event.type == 1) deepest = std::max(deepest, ++open);
    if (event.type == 2) {
      REQUIRE(open > 0);
      --open;
    }
  }
  CHECK(open == 0);
  return deepest;
}

}  // namespace

TEST_CASE("Perfetto: all tracks are described and nest, and every op is there") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    INFO("seed " << seed);
    const Run run = RandomRun(seed, seed % 2 == 0 ? RunKind::imported : RunKind::planned).make();
    const Decoded file = exported_perfetto(run);
    std::size_t device = 0, host = 0;
    for (const auto& [track, events] : file.by_track()) {
      const Track& what = file.tracks.at(track);
      const std::size_t depth = check_nesting(events);
      if (what.name.starts_with("stream ")) CHECK(depth <= 1);
      for (const Event& event : events) {
        device += event.type == 1 && what.name.starts_with("stream ") ? 1 : 0;
        host += event.type == 1 && what.name.starts_with("thread ") ? 1 : 0;
      }
    }
    CHECK(device == run.device_ops.size());
    CHECK(host == run.host_ops.size());
  }
}

TEST_CASE("Perfetto: a flow leads from each host call to its device op") {
  for (const RunKind kind : {RunKind::imported, RunKind::planned}) {
    const Run run = RandomRun(7, kind).make();
    const Decoded file = exported_perfetto(run);
    std::map<std::uint64_t, std::uint64_t> begins;
    for (const Event& event : file.events)
      for (const std::uint64_t flow : event.flows) {
        CHECK(begins.emplace(flow, event.time).second);
        CHECK(file.tracks.at(event.track).is_thread);
      }
    std::size_t ended = 0;
    for (const Event& event : file.events)
      for (const std::uint64_t flow : event.ended_flows) {
        ++ended;
        REQUIRE(begins.count(flow) == 1);
        CHECK(begins.at(flow) <= event.time);
      }
    CHECK(ended == run.device_ops.size());
    CHECK(begins.size() == run.device_ops.size());
  }
}

TEST_CASE("Perfetto: counters are the four totals, in bytes") {
  const Run run = RandomRun(3, RunKind::planned).make();
  const Decoded file = exported_perfetto(run);
  std::map<std::string, std::int64_t> last, most;
  for (const Event& event : file.events) {
    const Track& track = file.tracks.at(event.track);
    if (event.type != 4) continue;
    CHECK(track.is_counter);
    CHECK(track.unit == 3);
    last[track.name] = event.value;
    most[track.name] = std::max(most[track.name], event.value);
  }
  MemoryTotals totals = totals_before(run);
  MemoryTotals peaks = totals;
  for (const AllocatorRecord& record : run.allocator) {
    apply(run, record, totals);
    peaks.allocated = std::max(peaks.allocated, totals.allocated);
    peaks.requested = std::max(peaks.requested, totals.requested);
    peaks.active = std::max(peaks.active, totals.active);
  }
  CHECK(last == std::map<std::string, std::int64_t>{{"allocated", totals.allocated},
                                                    {"active", totals.active},
                                                    {"requested", totals.requested},
                                                    {"reserved", totals.reserved}});
  CHECK(most["allocated"] == peaks.allocated);
  CHECK(most["requested"] == peaks.requested);
  CHECK(most["active"] == peaks.active);
}

TEST_CASE("Perfetto: slices say what the store knows") {
  Run run;
  run.info.kind = RunKind::planned;
  run.units = {{"", {}}, {"layers.3", {}}};
  run.streams = {{kComputeStream, "compute", 0, 0}, {StreamId{2}, "all-gather", 0, -1}};
  DeviceOpRecord op;
  op.kind = DeviceOpRecord::Kind::collective;
  op.stream = StreamId{2};
  op.unit = UnitId{1};
  op.bytes = 4096;
  op.transport = Transport::symmetric;
  op.correlation = 17;
  op.issue = {100};
  op.start = {250};
  op.end = {400};
  run.device_ops.push_back(op);
  const Decoded file = exported_perfetto(run);
  const auto found = std::find_if(file.events.begin(), file.events.end(), [](const Event& e) { return e.type == 1; });
  REQUIRE(found != file.events.end());
  CHECK(found->name == "all_gather");
  CHECK(found->time == 250);
  CHECK(found->category == "all_gather");
  CHECK(file.tracks.at(found->track).name == "stream 9 (all-gather)");
  CHECK(found->facts == std::map<std::string, std::string>{{"unit", "layers.3"},
                                                           {"stream", "9"},
                                                           {"bytes", "4096"},
                                                           {"correlation", "17"},
                                                           {"queued ns", "150"},
                                                           {"transport", "symmetric"}});
}

TEST_CASE("Perfetto: what overlaps on a stream goes to overflow rows") {
  Run run;
  run.info.kind = RunKind::planned;
  run.streams = {{kComputeStream, "compute", 0, 0}};
  const std::pair<std::int64_t, std::int64_t> spans[] = {{0, 10}, {5, 15}, {6, 7}, {10, 20}, {12, 13}};
  for (const auto& [start, end] : spans) {
    DeviceOpRecord op;
    op.stream = kComputeStream;
    op.issue = op.start = {start};
    op.end = {end};
    run.device_ops.push_back(op);
  }
  const Decoded file = exported_perfetto(run);
  std::map<std::string, std::size_t> slices;
  for (const auto& [track, events] : file.by_track()) {
    CHECK(check_nesting(events) <= 1);
    for (const Event& event : events) slices[file.tracks.at(track).name] += event.type == 1 ? 1 : 0;
  }
  CHECK(slices == std::map<std::string, std::size_t>{{"stream 7 (compute)", 2},
                                                     {"stream 7 (compute), overlapping 1", 1},
                                                     {"stream 7 (compute), overlapping 2", 2}});
}

TEST_CASE("Perfetto: one step holds what the host issued in it, and equal runs give equal bytes") {
  const Run run = RandomRun(5, RunKind::planned).make();
  const Decoded file = exported_perfetto(run, 1);
  std::size_t expected = 0, found = 0;
  for (const DeviceOpRecord& op : run.device_ops)
    expected += op.issue >= run.steps[1].start && op.issue < run.steps[1].end ? 1 : 0;
  for (const Event& event : file.events)
    found += event.type == 1 && file.tracks.at(event.track).name.starts_with("stream ") ? 1 : 0;
  CHECK(found == expected);
  CHECK_FALSE(select_export(run, 9));
  const auto bytes = [&] {
    const ExportSelection selection = selected(run);
    return written([&](ByteSink& sink) { write_perfetto(run, selection, sink); });
  };
  CHECK(bytes() == bytes());
}
