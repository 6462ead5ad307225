// The Chrome export: valid JSON in Kineto's dialect, read back by our own profiler-trace reader.

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "tests/traces/export/random_run.hpp"
#include "tests/traces/export/written.hpp"
#include "traces/export/chrome_trace.hpp"
#include "traces/export/tracks.hpp"
#include "traces/pytorch/profiler_trace.hpp"

using namespace foreshard;
using namespace foreshard::test;
using namespace foreshard::traces;
using nlohmann::json;

namespace {

std::string exported_chrome(const Run& run, std::optional<std::int32_t> step = {}) {
  const ExportSelection selection = selected(run, step);
  return written([&](ByteSink& sink) { write_chrome_trace(run, selection, sink); });
}

ProfilerTrace read_chrome(const Run& run) {
  auto source = ByteSource::from_memory("exported.json", exported_chrome(run));
  REQUIRE(source);
  auto trace = read_profiler_trace(*source);
  if (!trace) FAIL(trace.error().text());
  return std::move(*trace);
}

Nanoseconds first_start(const Run& run) {
  Nanoseconds first = run.device_ops.front().start;
  for (const DeviceOpRecord& op : run.device_ops) first = std::min(first, op.start);
  return first;
}

using OpFacts = std::tuple<std::uint64_t, std::int64_t, std::int64_t, std::int64_t, DeviceOpRecord::Kind, Bytes,
                           std::uint64_t, int, std::array<std::uint32_t, 3>, std::string>;

/// All that a trace can say of each op, in order, times from the first op's start. A collective's name may be made up.
std::vector<OpFacts> facts(const Run& run) {
  std::vector<OpFacts> out;
  const Nanoseconds first = first_start(run);
  for (const DeviceOpRecord& op : run.device_ops) {
    const bool collective = op.kind == DeviceOpRecord::Kind::collective;
    const int what = collective ? static_cast<int>(op.collective) * 10 + static_cast<int>(op.transport) : -1;
    out.emplace_back(stream_number(run, op.stream), (op.issue - first).count, (op.start - first).count,
                     (op.end - first).count, op.kind, op.bytes, op.correlation, what, op.grid,
                     collective ? "" : run.labels.text(op.label));
  }
  std::sort(out.begin(), out.end());
  return out;
}

using HostFacts = std::tuple<HostOpRecord::Kind, std::uint32_t, std::string, std::int64_t, std::int64_t, std::uint64_t>;

std::vector<HostFacts> host_facts(const Run& run) {
  std::vector<HostFacts> out;
  const Nanoseconds first = first_start(run);
  for (const HostOpRecord& op : run.host_ops)
    out.emplace_back(op.kind, op.thread, run.labels.text(op.label), (op.start - first).count, (op.end - first).count,
                     op.correlation);
  std::sort(out.begin(), out.end());
  return out;
}

}  // namespace

TEST_CASE("Chrome: our reader finds the same device ops at the same times") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    INFO("seed " << seed);
    const Run run = RandomRun(seed, seed % 2 == 0 ? RunKind::imported : RunKind::planned).make();
    if (run.device_ops.empty()) continue;
    const ProfilerTrace back = read_chrome(run);
    CHECK(facts(back.run) == facts(run));
    for (const ImportStat& stat : back.run.import_stats) CHECK(stat.name == "no odd input");
    CHECK(back.world_size == 4u);
    CHECK(back.run.info.gpu == run.info.gpu);
  }
}

TEST_CASE("Chrome: the host ops of an import come back, and the events of a plan") {
  for (std::uint64_t seed = 2; seed <= 40; seed += 2) {
    INFO("seed " << seed);
    const Run import = RandomRun(seed, RunKind::imported).make();
    if (import.device_ops.empty()) continue;
    CHECK(host_facts(read_chrome(import).run) == host_facts(import));
    const Run plan = RandomRun(seed, RunKind::planned).make();
    if (plan.device_ops.empty()) continue;
    const Run back = read_chrome(plan).run;
    const auto kinds = [](const Run& run) {
      std::map<EventRecord::Kind, std::size_t> counts;
      for (const EventRecord& event : run.events) ++counts[event.kind];
      return counts;
    };
    CHECK(kinds(back) == kinds(plan));
    for (std::size_t i = 0; i < back.events.size() && i < plan.events.size(); ++i)
      CHECK(back.events[i].event == plan.events[i].event);
  }
}

TEST_CASE("Chrome: valid JSON with Kineto's members, rows that nest, and ends for every flow") {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    INFO("seed " << seed);
    const Run run = RandomRun(seed, seed % 2 == 0 ? RunKind::imported : RunKind::planned).make();
    const std::string text = exported_chrome(run);
    const json trace = json::parse(text);
    CHECK(trace["schemaVersion"] == 1);
    CHECK(trace["deviceProperties"][0]["numSms"] == 132);
    CHECK(trace["distributedInfo"]["world_size"] == 4);
    CHECK(trace["distributedInfo"]["nccl_version"] == "2.28.9");
    CHECK(text.find("\n    \"rank\": 0,") != std::string::npos);  // as HTA looks for it
    CHECK(trace.contains("baseTimeNanoseconds"));
    std::map<std::pair<json, json>, std::vector<std::pair<double, double>>> rows;
    std::multiset<json> started, ended;
    for (const json& event : trace["traceEvents"]) {
      if (event["ph"] == "X") rows[{event["pid"], event["tid"]}].emplace_back(event["ts"], event["dur"]);
      if (event["ph"] == "s") started.insert(event["id"]);
      if (event["ph"] == "f") ended.insert(event["id"]);
    }
    CHECK(started == ended);
    CHECK(started.size() == run.device_ops.size());
    for (auto& [row, slices] : rows) {
      std::sort(slices.begin(), slices.end(), [](const auto& a, const auto& b) {
        return a.first != b.first ? a.first < b.first : a.second > b.second;
      });
      std::vector<double> open;
      for (const auto& [start, length] : slices) {
        while (!open.empty() && open.back() <= start + 1e-9) open.pop_back();
        if (!open.empty()) CHECK(start + length <= open.back() + 1e-6);
        open.push_back(start + length);
      }
    }
  }
}

TEST_CASE("Chrome: names that are no UTF-8 leave the JSON valid") {
  Run run = RandomRun(2, RunKind::planned).make();
  run.info.name =
      "a\xff\xc3(\xed\xa0\x80"
      "b\x01";
  for (DeviceOpRecord& op : run.device_ops) op.label = run.labels.intern("kernel \xf0\x28\x8c\x28 \"\\");
  CHECK_NOTHROW(json::parse(exported_chrome(run)));
}
