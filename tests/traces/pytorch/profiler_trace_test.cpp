#include "traces/pytorch/profiler_trace.hpp"

#include <fmt/format.h>

#include "tests/catch.hpp"
#include "tests/traces/pytorch/packing.hpp"

namespace foreshard::traces {
namespace {

using namespace testing;

constexpr const char* kHeader = R"("schemaVersion": 1,
 "deviceProperties": [{"id": 0, "name": "NVIDIA H200", "totalGlobalMem": 150109880320, "numSms": 132}],
 "distributedInfo": {"backend": "nccl", "rank": 2, "world_size": 4, "nccl_version": "2.28.9"},
 "baseTimeNanoseconds": 1790857026000000000, )";

std::string host(const char* category, const char* name, double ts, double dur, int thread, const std::string& args) {
  return fmt::format(
      R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": 10, "tid": {}, "ts": {:.3f}, "dur": {:.3f}, "args": {{{}}}}})",
      category, name, thread, ts, dur, args);
}
std::string device(const char* category, const char* name, double ts, double dur, int stream, int correlation,
                   const std::string& more = {}) {
  return fmt::format(
      R"({{"ph": "X", "cat": "{}", "name": "{}", "pid": 0, "tid": {}, "ts": {:.3f}, "dur": {:.3f}, "args": {{"correlation": {}, "stream": {}{}}}}})",
      category, name, stream, ts, dur, correlation, stream, more);
}
std::string trace_of(const std::vector<std::string>& events) {
  return fmt::format("{{{} \"traceEvents\": [{}]}}", kHeader, fmt::join(events, ",\n"));
}

constexpr const char* kGather =
    R"(, "Collective name": "_allgather_base", "In msg nelems": 10, "Out msg nelems": 40, "Group size": 4, "dtype": "BFloat16", "Process Group Name": "0", "Process Group Description": "default_pg", "Process Group Ranks": "[0, 1, 2, 3]")";

Result<ProfilerTrace> try_read(const std::string& text, const TraceOptions& options = {}) {
  auto source = ByteSource::from_memory("input", text);
  FORESHARD_TRY(source);
  return read_profiler_trace(*source, options);
}
ProfilerTrace read(const std::vector<std::string>& events, const TraceOptions& options = {}) {
  auto trace = try_read(trace_of(events), options);
  INFO((trace ? "" : trace.error().text()));
  REQUIRE(trace);
  return std::move(*trace);
}
std::uint64_t count_of(const ProfilerTrace& trace, const std::string& name) {
  for (const ImportStat& stat : trace.run.import_stats)
    if (stat.name == name) return stat.count;
  return 0;
}
std::string trace_error(const std::string& text, const TraceOptions& options = {}) {
  const auto trace = try_read(text, options);
  REQUIRE(!trace);
  return trace.error().where + ": " + trace.error().what;
}

const std::vector<std::string> kStep{
    host("cpu_op", "aten::mm", 99, 9, 11, ""),
    host("cuda_runtime", "cudaEventQuery", 100, 1, 77, R"("correlation": 1)"),
    host("cuda_driver", "cuLaunchKernelEx", 120.5, 2, 11, R"("correlation": 3)"),
    host("user_annotation", "FSDP::pre_backward", 119, 9, 11, ""),
    host("cuda_runtime", "cudaLaunchKernel", 110, 2, 10, R"("correlation": 2)"),
    host("cuda_runtime", "INVALID", 130, 2, 10, R"("correlation": 4)"),
    device("kernel", "ncclDevKernel_AllGather_RING_LL(x)", 125, 50, 24, 3, kGather),
    device("kernel", "gemm", 112.001, 4.002, 7, 2, R"(, "grid": [9, 2, 1], "block": [128, 1, 1])"),
    device("kernel", "add", 118, 1, 7, 99),
    device("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 131, 3, 7, 4, R"(, "bytes": 4096)"),
    device("gpu_memset", "Memset (Device)", 140, 1, 7, 5, R"(, "bytes": 4)"),
};

TEST_CASE("a step's calls and GPU work") {
  const ProfilerTrace trace = read(kStep);
  const Run& run = trace.run;
  REQUIRE(run.host_ops.size() == 5);
  CHECK(run.labels.text(run.host_ops[0].label) == "cudaEventQuery");
  CHECK(run.labels.text(run.host_ops[2].label) == "FSDP::pre_backward");
  CHECK(run.host_ops[2].kind == HostOpRecord::Kind::annotation);
  CHECK(run.host_ops[1].start.count == 10000);
  CHECK(run.host_ops[3].correlation == 3);
  CHECK(run.labels.text(run.host_ops[4].label) == "INVALID");
  REQUIRE(run.device_ops.size() == 5);
  const DeviceOpRecord& gemm = run.device_ops[0];
  CHECK(run.labels.text(gemm.label) == "gemm");
  CHECK(gemm.issue.count == 10000);
  CHECK(gemm.start.count == 12001);
  CHECK(gemm.end.count == 16003);
  CHECK(gemm.grid == std::array<std::uint32_t, 3>{9, 2, 1});
  CHECK(gemm.block == std::array<std::uint32_t, 3>{128, 1, 1});
  CHECK(run.device_ops[3].kind == DeviceOpRecord::Kind::copy);
  CHECK(run.device_ops[3].bytes == 4096);
  CHECK(run.device_ops[4].kind == DeviceOpRecord::Kind::memset);
  CHECK(count_of(trace, "device_op_without_call") == 2);
  CHECK(trace.events_by_category.at("cpu_op") == 1);
}

TEST_CASE("threads, streams and what the header says") {
  const ProfilerTrace trace = read(kStep);
  CHECK(trace.threads == std::vector<std::int64_t>{10, 11, 77});
  CHECK(trace.run.host_ops[0].thread == 2);
  CHECK(trace.run.host_ops[1].thread == 0);
  CHECK(trace.run.host_ops[2].thread == 1);
  REQUIRE(trace.run.streams.size() == 2);
  CHECK(trace.run.streams[0].handle == 7);
  CHECK(trace.run.streams[0].name == "stream 7");
  CHECK(trace.run.streams[1].handle == 24);
  CHECK(trace.rank == 2);
  CHECK(trace.world_size == 4);
  CHECK(trace.run.info.nccl == "2.28.9");
  CHECK(trace.run.info.gpu == "NVIDIA H200");
  CHECK(trace.run.info.sm_count == 132);
  CHECK(trace.devices.at(0).memory == 150109880320);
  CHECK(trace.origin_ns == 1790857026000100000);
}

TEST_CASE("collectives, by kernel and by copy engines") {
  auto events = kStep;
  events.push_back(host("cpu_op", "record_param_comms", 129, 5, 10, R"("External id": 8)" + std::string(kGather)));
  events.push_back(
      device("gpu_memcpy", "Memcpy PtoP (Device -> Device)", 132, 5, 24, 4, R"(, "bytes": 60, "External id": 8)"));
  events.push_back(device("kernel", "ncclSymkDevKernel_ReduceScatter_x", 150, 5, 28, 6));
  events.push_back(device("kernel", "ncclDevKernel_Gather(x)", 160, 5, 28, 7));
  const ProfilerTrace trace = read(events);
  std::vector<DeviceOpRecord> found;
  for (const DeviceOpRecord& op : trace.run.device_ops)
    if (op.kind == DeviceOpRecord::Kind::collective) found.push_back(op);
  REQUIRE(found.size() == 3);
  CHECK(found[0].transport == Transport::nccl);
  CHECK(found[0].collective == CollectiveKind::all_gather);
  CHECK(found[0].bytes == 80);
  CHECK(found[0].communicator.value == 0);
  CHECK(found[1].transport == Transport::copy_engine);
  CHECK(found[1].bytes == 80);
  CHECK(found[1].communicator.value == 0);
  CHECK(found[2].transport == Transport::symmetric);
  CHECK(found[2].collective == CollectiveKind::reduce_scatter);
  CHECK(!found[2].communicator.valid());
  REQUIRE(trace.communicators.size() == 1);
  CHECK(trace.communicators[0].description == "default_pg");
  CHECK(trace.communicators[0].size == 4);
  CHECK(count_of(trace, "collective_without_size") == 1);
  CHECK(count_of(trace, "other_collective") == 1);
}

std::vector<DeviceOpRecord> collectives_in(const ProfilerTrace& trace) {
  std::vector<DeviceOpRecord> out;
  for (const DeviceOpRecord& op : trace.run.device_ops)
    if (op.kind == DeviceOpRecord::Kind::collective) out.push_back(op);
  return out;
}

std::string said(const char* name, int in, int out, const char* more = "") {
  return fmt::format(
      R"(, "Collective name": "{}", "In msg nelems": {}, "Out msg nelems": {}, "Group size": 4, "dtype": "BFloat16", "Process Group Name": "3", "Process Group Description": "cp", "Process Group Ranks": "[0, 1, 2, 3]"{})",
      name, in, out, more);
}

TEST_CASE("all-to-all, broadcast and reduce by their names, unequal parts by what this rank moves") {
  const char* kSend = "ncclDevKernel_SendRecv(x)";
  auto events = kStep;
  const auto add = [&](int at, const char* kernel, const std::string& more) {
    events.push_back(device("kernel", kernel, at, 5, 28, at, more));
  };
  add(200, kSend, said("all_to_all", 80, 80));
  add(210, "ncclDevKernel_Broadcast_RING_LL(x)", said("broadcast", 80, 80));
  add(220, "ncclDevKernel_Reduce_Sum_bf16_RING_LL(x)", said("_reduce_oop", 80, 80));
  // Of rank 2: 20 of 80 elements stay, or 30 leave and 50 come.
  add(230, kSend,
      said("all_to_allv", 80, 80, R"(, "In split size": "[20,20,20,20]", "Out split size": "[20,20,20,20]")"));
  add(240, kSend,
      said("all_to_allv", 50, 70, R"(, "In split size": "[10, 20, 20, 0]", "Out split size": "[50, 0, 20, 0]")"));
  add(250, kSend,
      said("all_to_allv", 70, 60, R"(, "In split size": "[0, 0, 0, 70]", "Out split size": "[0, 60, 0, 0]")"));
  add(260, kSend,
      said("all_to_allv", 70, 70, R"(, "In split size": "[0, 70, 0, 0]", "Out split size": "[0, 70, 0, 0]")"));
  add(270, kSend, said("all_to_allv", 70, 60, R"(, "In split size": "[1, ..., 70]", "Out split size": "[]")"));
  const ProfilerTrace trace = read(events);
  std::vector<std::pair<CollectiveKind, Bytes>> found;
  for (const DeviceOpRecord& op : collectives_in(trace)) found.emplace_back(op.collective, op.bytes);
  using enum CollectiveKind;
  for (const auto& [kind, bytes] : found) UNSCOPED_INFO(static_cast<int>(kind) << ' ' << bytes);
  CHECK(found == std::vector<std::pair<CollectiveKind, Bytes>>{{all_gather, 80},
                                                               {all_to_all, 160},
                                                               {broadcast, 160},
                                                               {reduce, 160},
                                                               {all_to_all, 160},
                                                               {all_to_all, 2 * 50 * 4 / 3},
                                                               {all_to_all, 2 * 70 * 4 / 3},
                                                               {send_recv, 140},
                                                               {all_to_all, 140}});
  CHECK(count_of(trace, "other_collective") == 0);
}

TEST_CASE("a batch of sends and receives is the kernel behind them, which says nothing itself") {
  const char* kSend = "ncclDevKernel_SendRecv(x)";
  auto events = kStep;
  const auto ask = [&](const char* what, int at, int elements, int thread = 10) {
    events.push_back(host("cpu_op", "record_param_comms", at, 2, thread,
                          fmt::format(R"("External id": {})", at) + said(what, elements, elements)));
  };
  const auto launch = [&](int at, int thread = 10, const std::string& more = {}) {
    events.push_back(host("cuda_driver", "cuLaunchKernelEx", at, 1, thread, fmt::format(R"("correlation": {})", at)));
    events.push_back(device("kernel", kSend, at + 4, 3, 21, at, more));
  };
  ask("send", 200, 100);
  ask("recv", 203, 100);
  ask("recv", 204, 40, 11);  // of another thread
  launch(206);
  ask("send", 210, 50);
  ask("send", 212, 60);
  ask("recv", 214, 70);
  launch(216);
  launch(219, 11);
  ask("send", 230, 30);
  launch(231, 10, R"(, "External id": 230)" + said("send", 30, 30));  // one by itself, which says what it is
  launch(240);                                                        // nobody asked for it
  const ProfilerTrace trace = read(events);
  std::vector<Bytes> found;
  for (const DeviceOpRecord& op : collectives_in(trace))
    if (op.collective == CollectiveKind::send_recv) {
      found.push_back(op.bytes);
      CHECK(op.communicator.valid() == (op.bytes > 0));
    }
  CHECK(found == std::vector<Bytes>{200, 220, 80, 60, 0});
  CHECK(count_of(trace, "collective_without_size") == 1);
}

TEST_CASE("event records and waits where the profiler wrote them") {
  auto events = kStep;
  events.push_back(host("cuda_runtime", "cudaEventRecord", 113, 1, 10, R"("correlation": 20)"));
  events.push_back(host("cuda_runtime", "cudaStreamWaitEvent", 114, 1, 10, R"("correlation": 21)"));
  events.push_back(host("cuda_runtime", "cudaEventSynchronize", 115, 1, 10, R"("correlation": 22)"));
  events.push_back(device(
      "cuda_sync", "Stream Wait Event", 114.2, 1, 24, 21,
      R"(, "cuda_sync_kind": "Stream Wait Event", "wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 20)"));
  events.push_back(
      device("cuda_sync", "Event Sync", 115.2, 1, 7, 22,
             R"(, "cuda_sync_kind": "Event Sync", "wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 20)"));
  events.push_back(device("cuda_sync", "Stream Sync", 116, 1, 7, 23, R"(, "cuda_sync_kind": "Stream Sync")"));
  events.push_back(
      device("cuda_sync", "Stream Wait Event", 117, 1, 24, 24, R"(, "cuda_sync_kind": "Stream Wait Event")"));
  const ProfilerTrace trace = read(events);
  REQUIRE(trace.run.events.size() == 3);
  const EventRecord& record = trace.run.events[0];
  CHECK(record.kind == EventRecord::Kind::record);
  CHECK(record.time.count == 13000);
  CHECK(trace.run.streams[record.stream.value].handle == 7);
  CHECK(trace.run.events[1].kind == EventRecord::Kind::wait);
  CHECK(trace.run.events[1].event == record.event);
  CHECK(trace.run.events[1].time.count == 14000);
  CHECK(trace.run.streams[trace.run.events[1].stream.value].handle == 24);
  CHECK(trace.run.events[2].kind == EventRecord::Kind::host_wait);
  CHECK(!trace.run.events[2].stream.valid());
  CHECK(count_of(trace, "wait_for_unknown_event") == 1);
}

TEST_CASE("odd events are counted and do no harm") {
  auto events = kStep;
  events.push_back(events.back());
  events.push_back(host("novel_category", "x", 1, 1, 10, ""));
  events.push_back(host("cuda_runtime", "backwards", 150, -5, 10, R"("correlation": 30)"));
  events.push_back(R"({"ph": "X", "cat": "cuda_runtime", "name": "endless", "pid": 10, "tid": 10, "ts": 151})");
  events.push_back(R"({"ph": "X", "cat": "kernel", "name": "timeless", "pid": 0, "tid": 7})");
  events.push_back(R"({"ph": "X", "cat": "kernel", "name": "nowhere", "pid": "GPU 0", "tid": 7, "ts": 152, "dur": 1})");
  events.push_back(R"({"ph": "X", "cat": "kernel", "name": "other", "pid": 3, "tid": 7, "ts": 152, "dur": 1})");
  events.push_back(host("cuda_runtime", "again", 155, 1, 10, R"("correlation": 2)"));
  events.push_back(device("kernel", "early", 105, 1, 7, 31));
  events.push_back(host("cuda_runtime", "late", 106, 1, 10, R"("correlation": 31)"));
  const ProfilerTrace trace = read(events);
  for (const char* name :
       {"duplicate_device_op", "unknown_category", "negative_duration", "missing_duration", "event_without_time",
        "device_op_without_stream", "device_op_of_other_device", "duplicate_call", "device_op_before_call"}) {
    INFO(name);
    CHECK(count_of(trace, name) == 1);
  }
  CHECK(trace.run.device_ops.size() == 6);
  for (const DeviceOpRecord& op : trace.run.device_ops) CHECK((op.issue <= op.start && op.start <= op.end));
}

TEST_CASE("options: operators, another device") {
  CHECK(read(kStep, {.keep_cpu_ops = true, .device = std::nullopt}).run.host_ops.size() == 6);
  CHECK(trace_error(trace_of(kStep), {.keep_cpu_ops = false, .device = 5}) ==
        "input: the trace holds no GPU events of device 5");
}

TEST_CASE("what is not a profiler trace says so") {
  CHECK(trace_error(R"({"a": 1})") == "input: this JSON is not a profiler trace: it has no list 'traceEvents'");
  CHECK(trace_error(R"({"segments": [], "device_traces": []})") ==
        "input: this is a memory snapshot, not a profiler trace");
  CHECK(trace_error(trace_of({kStep[0]})) == "input: the trace holds no GPU events: no kernels, copies or memsets");
  CHECK(trace_error("\x80\x04}.") == "input, byte 0: this is not JSON");
  const std::string whole = trace_of(kStep);
  CHECK(trace_error(whole.substr(0, 900)) == "input, byte 900: the JSON is cut short");
  CHECK(trace_error(xz(whole).substr(0, 300)) == "input, byte 300: the xz data is cut short");
  CHECK(trace_error(R"({"deviceProperties": [1 2], "traceEvents": []})") ==
        "input, byte 21: the value of 'deviceProperties' is not valid JSON");
  CHECK(trace_error(R"({"traceEvents": [{"ph": "X" "cat"}]})")
            .starts_with("input, byte 17: this event is not valid JSON"));
}

TEST_CASE("a trace is the same however it is packed, and as a bare array") {
  const std::string whole = trace_of(kStep);
  const auto plain = try_read(whole);
  for (const std::string& packed : {gzip(whole), xz(whole)}) {
    const auto trace = try_read(packed);
    REQUIRE(trace);
    CHECK(trace->run.device_ops.size() == plain->run.device_ops.size());
    CHECK(trace->run.device_ops[2].end == plain->run.device_ops[2].end);
  }
  const auto bare = try_read(fmt::format("[{}]", fmt::join(kStep, ",")));
  REQUIRE(bare);
  CHECK(bare->run.device_ops.size() == 5);
  CHECK(bare->origin_ns == 100000);
}

}  // namespace
}  // namespace foreshard::traces
