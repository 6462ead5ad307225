// The Chakra export, decoded by its schema; and the dependencies that it and the graph draw.

#include "traces/export/chakra.hpp"

#include <map>
#include <set>

#include "tests/traces/export/protobuf_reader.hpp"
#include "tests/traces/export/random_run.hpp"
#include "tests/traces/export/written.hpp"
#include "traces/export/dependencies.hpp"

using namespace foreshard;
using namespace foreshard::test;
using namespace foreshard::traces;

namespace {

DeviceOpRecord op(std::uint32_t stream, std::int64_t issue, std::int64_t start, std::int64_t end) {
  DeviceOpRecord out;
  out.stream = StreamId{stream};
  out.issue = {issue};
  out.start = {start};
  out.end = {end};
  return out;
}

EventRecord event(EventRecord::Kind kind, std::uint32_t id, std::uint32_t stream, std::int64_t time) {
  return {kind, EventId{id}, StreamId{stream}, {time}};
}

constexpr auto kRecord = EventRecord::Kind::record;
constexpr auto kWait = EventRecord::Kind::wait;

/// A copy-in, its all-gather, and compute before and after it.
Run gather_run() {
  Run run;
  run.info.kind = RunKind::planned;
  run.streams = {{kComputeStream, "compute", 0, 0}, {StreamId{1}, "copy-in", 0, 0}, {StreamId{2}, "gather", 0, 0}};
  run.device_ops = {op(0, 10, 20, 1'000), op(1, 30, 40, 900), op(2, 60, 950, 5'600), op(0, 90, 6'000, 7'400),
                    op(0, 95, 7'400, 7'401)};
  run.device_ops[2].kind = DeviceOpRecord::Kind::collective;
  run.device_ops[2].bytes = 1 << 20;
  run.events = {event(kRecord, 0, 1, 40), event(kWait, 0, 2, 50), event(kRecord, 1, 2, 70), event(kWait, 1, 0, 80),
                event(kWait, 0, 0, 80)};
  return run;
}

}  // namespace

TEST_CASE("Dependencies: event waits lead to the ops that were recorded") {
  const Run run = gather_run();
  const auto found = op_dependencies(run, selected(run));
  REQUIRE(found.size() == 5);
  CHECK(found[0].events.empty());
  CHECK(found[0].before == OpDependencies::kNoOp);
  CHECK(found[2].events == std::vector<std::size_t>{1});
  CHECK(found[3].events == std::vector<std::size_t>{1, 2});
  CHECK(found[3].before == 0);
  CHECK(found[4].events.empty());  // the wait was the op's before it
  CHECK(found[4].before == 3);
}

TEST_CASE("Dependencies: an event recorded behind a wait stands for what was waited for") {
  Run run = gather_run();
  run.device_ops.erase(run.device_ops.begin() + 2);  // the all-gather stream only passes the event on
  const auto found = op_dependencies(run, selected(run));
  CHECK(found[2].events == std::vector<std::size_t>{1});
}

TEST_CASE("Dependencies: only work that ended before can hold an op up, and every one is known") {
  for (std::uint64_t seed = 1; seed <= 30; ++seed) {
    INFO("seed " << seed);
    const Run run = RandomRun(seed, RunKind::planned).make();
    std::set<std::size_t> known;
    for (const OpDependencies& d : op_dependencies(run, selected(run, 1))) {
      for (const std::size_t source : d.events) {
        CHECK(known.count(source) == 1);
        CHECK(run.device_ops[source].end <= run.device_ops[d.op].start);
        CHECK(run.device_ops[source].stream != run.device_ops[d.op].stream);
      }
      known.insert(d.op);
    }
  }
}

TEST_CASE("Chakra: nodes as the feeder reads them") {
  const Run run = gather_run();
  const ExportSelection selection = selected(run);
  const std::string file = written([&](ByteSink& sink) { REQUIRE(write_chakra(run, selection, sink)); });
  ProtoReader reader(file);
  const auto header = fields(reader.take(reader.varint()));
  CHECK(header[0].bytes == "0.0.4");
  std::vector<std::map<std::uint32_t, std::uint64_t>> nodes;
  std::vector<std::vector<std::uint64_t>> waits;
  std::vector<std::map<std::string, std::pair<std::uint32_t, std::uint64_t>>> attributes;
  while (!reader.done()) {
    nodes.emplace_back();
    waits.emplace_back();
    attributes.emplace_back();
    for (const ProtoField& field : fields(reader.take(reader.varint()))) {
      if (field.wire_type == 0) nodes.back()[field.number] = field.value;
      if (field.number == 5)
        for (ProtoReader ids(field.bytes); !ids.done();) waits.back().push_back(ids.varint());
      if (field.number == 10) {
        const auto parts = fields(field.bytes);
        REQUIRE(parts.size() == 2);
        attributes.back()[std::string(parts[0].bytes)] = {parts[1].number, parts[1].value};
      }
    }
  }
  REQUIRE(nodes.size() == 5);
  CHECK(nodes[2] == std::map<std::uint32_t, std::uint64_t>{{1, 3}, {3, 7}, {6, 1}, {7, 5}});
  CHECK(waits[2] == std::vector<std::uint64_t>{2});
  CHECK(waits[3] == std::vector<std::uint64_t>{1, 2, 3});
  CHECK(nodes[4].at(7) == 1);  // a nanosecond, but never 0
  CHECK(nodes[0].at(3) == 4);
  using Value = std::pair<std::uint32_t, std::uint64_t>;
  CHECK(attributes[2].at("comm_type") == Value{9, 2});
  CHECK(attributes[2].at("comm_size") == Value{9, 1 << 20});
  CHECK(attributes[2].at("is_cpu_op") == Value{27, 0});
}

TEST_CASE("Chakra: every kind of collective has its type, and sends are nodes of their own") {
  Run run = gather_run();
  const auto type_of = [&run](CollectiveKind kind) {
    run.device_ops[2].collective = kind;
    const ExportSelection selection = selected(run);
    const std::string file = written([&](ByteSink& sink) { REQUIRE(write_chakra(run, selection, sink)); });
    ProtoReader reader(file);
    for (int before = 0; before < 3; ++before) reader.take(reader.varint());
    std::pair<std::uint64_t, std::int64_t> found{0, -1};
    for (const ProtoField& field : fields(reader.take(reader.varint()))) {
      if (field.number == 3) found.first = field.value;
      if (field.number != 10) continue;
      const auto parts = fields(field.bytes);
      if (parts[0].bytes == "comm_type") found.second = static_cast<std::int64_t>(parts[1].value);
    }
    return found;
  };
  using Type = std::pair<std::uint64_t, std::int64_t>;
  CHECK(type_of(CollectiveKind::all_to_all) == Type{7, 6});
  CHECK(type_of(CollectiveKind::broadcast) == Type{7, 5});
  CHECK(type_of(CollectiveKind::reduce) == Type{7, 1});
  CHECK(type_of(CollectiveKind::send_recv) == Type{5, -1});
}

TEST_CASE("Chakra: a run without device ops is refused") {
  Run run = RandomRun(2, RunKind::imported).make();
  run.device_ops.clear();
  run.host_ops.clear();
  const ExportSelection selection = selected(run);
  std::ostringstream out;
  ByteSink sink = ByteSink::to_stream(out);
  CHECK_FALSE(write_chakra(run, selection, sink));
}
