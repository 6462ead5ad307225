#include "tests/traces/store/run_sample.hpp"

#include <filesystem>
#include <tuple>

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"
#include "traces/store/schema.hpp"
#include "traces/store/seal.hpp"

namespace foreshard::traces::test {
namespace {

// One tuple of references per record. A structured binding names every member, so that a member added to a
// record does not compile until it is compared here.
auto fields(const InputFile& r) {
  const auto& [a, b, c, d] = r;
  return std::tie(a, b, c, d);
}
auto fields(const StreamRecord& r) {
  const auto& [a, b, c, d] = r;
  return std::tie(a, b, c, d);
}
auto fields(const HostOpRecord& r) {
  const auto& [a, b, c, d, e, f] = r;
  return std::tie(a, b, c, d, e, f);
}
auto fields(const DeviceOpRecord& r) {
  const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m, n, o] = r;
  return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m, n, o);
}
auto fields(const EventRecord& r) {
  const auto& [a, b, c, d] = r;
  return std::tie(a, b, c, d);
}
auto fields(const BlockRecord& r) {
  const auto& [a, b, c, d, e, f, g, h, i, j, k, l, m] = r;
  return std::tie(a, b, c, d, e, f, g, h, i, j, k, l, m);
}
auto fields(const AllocatorRecord& r) {
  const auto& [a, b, c, d, e, f, g] = r;
  return std::tie(a, b, c, d, e, f, g);
}
auto fields(const StackFrame& r) {
  const auto& [a, b, c] = r;
  return std::tie(a, b, c);
}
auto fields(const CallStack& r) {
  const auto& [a, b] = r;
  return std::tie(a, b);
}
auto fields(const SnapshotSegment& r) {
  const auto& [a, b, c, d, e, f, g, h, i, j, k] = r;
  return std::tie(a, b, c, d, e, f, g, h, i, j, k);
}
auto fields(const StepRecord& r) {
  const auto& [a, b, c, d, e, f, g, h] = r;
  return std::tie(a, b, c, d, e, f, g, h);
}
auto fields(const PhaseRecord& r) {
  const auto& [a, b, c, d, e] = r;
  return std::tie(a, b, c, d, e);
}
auto fields(const AnnotationRecord& r) {
  const auto& [a, b, c] = r;
  return std::tie(a, b, c);
}
auto fields(const RankRecord& r) {
  const auto& [a, b, c] = r;
  return std::tie(a, b, c);
}
auto fields(const RankOpRecord& r) {
  const auto& [a, b, c, d, op] = r;
  return std::tuple_cat(std::tie(a, b, c, d), fields(op));
}
auto fields(const ImportStat& r) {
  const auto& [a, b, c, d] = r;
  return std::tie(a, b, c, d);
}

template <class Record>
std::string list_difference(const char* name, const std::vector<Record>& a, const std::vector<Record>& b) {
  if (a.size() != b.size()) return std::string(name) + ": sizes differ";
  for (std::size_t i = 0; i < a.size(); ++i)
    if (fields(a[i]) != fields(b[i])) return std::string(name) + " " + std::to_string(i);
  return {};
}

std::string info_difference(const RunInfo& x, const RunInfo& y) {
  const auto& [kind, name, version, torch, nccl, gpu, sms, machine, inputs, valid, warnings] = x;
  if (std::tie(kind, name, version, torch, nccl, gpu, sms, machine, valid, warnings) !=
      std::tie(y.kind, y.name, y.foreshard_version, y.torch, y.nccl, y.gpu, y.sm_count, y.machine, y.valid, y.warnings))
    return "info";
  return list_difference("inputs", inputs, y.inputs);
}

void add_info(Run& run) {
  run.info = {RunKind::executed,
              "a run",
              "0.1.0",
              "2.11.0+cu130",
              "2.28.9",
              "NVIDIA H200",
              132,
              "h200",
              {{"snapshot", "a/b.pickle", 123, "xxh3:0123456789abcdef"}, {"trace", "ä \"b\".json", 0, ""}},
              false,
              {"one warning", ""}};
  run.settings.gpus = 4;
  run.settings.param_dtype = DType::bfloat16;
  run.settings.forward_prefetch = 2;
  run.settings.prefetch_lists.forward["layers.0"] = {"layers.1", "layers.2"};
  run.settings.reduce_scatter_release = Release::record_stream;
  run.settings.reshard_after_forward = {Reshard::Kind::group, 2};
  run.settings.reshard_of_unit["layers.1"] = {Reshard::Kind::never, 0};
  run.settings.all_gather = Transport::copy_engine;
  run.settings.alloc_conf = "expandable_segments:True";
  run.measured = Measured{{1.5, 0.1}, {2.25}, 3, 5, true};
  run.units = {{"", {{"embed.weight", {128, 64}, DType::float32}}},
               {"layers.0", {}},
               {"layers.1, head", {{"layers.1.w", {}, DType::bfloat16}, {"head.w", {-1, 7, 9}, DType::float16}}}};
  for (const char* text : {"kernel a", "kernel b", "", "ncclDevKernel"}) run.labels.intern(text);
  run.results = {{"step_ms", "12.5"}, {"warnings", "[]"}};
  run.workload_json = "{\"schema\": 1}";
}

void add_time(Run& run) {
  run.streams = {{StreamId{0}, "compute", 0, 0}, {StreamId{7}, "all-gather", 0xffff'ffff'ffff'fff0u, -1}};
  run.host_ops = {{HostOpRecord::Kind::cpu_op, 1, LabelId{2}, {10}, {30}, 99}, {}};
  DeviceOpRecord op;
  op.kind = DeviceOpRecord::Kind::collective;
  op.stream = StreamId{7};
  op.label = LabelId{3};
  op.issue = {5};
  op.start = {11};
  op.end = {47};
  op.bytes = 1u << 20;
  op.correlation = 98;
  op.unit = UnitId{1};
  op.kernel_class = KernelClass::gather_copy;
  op.collective = CollectiveKind::reduce_scatter;
  op.transport = Transport::symmetric;
  op.communicator = CommunicatorId{2};
  op.grid = {1, 2, 3};
  op.block = {4, 5, 6};
  DeviceOpRecord kernel = op;  // a kernel with a collective's fields keeps them
  kernel.kind = DeviceOpRecord::Kind::kernel;
  kernel.start = {-(std::int64_t{1} << 53)};  // the farthest that check_times() lets through
  kernel.end = {std::int64_t{1} << 53};
  DeviceOpRecord default_collective;
  default_collective.kind = DeviceOpRecord::Kind::collective;
  run.device_ops = {op, kernel, default_collective, {}};
  run.events = {{EventRecord::Kind::wait, EventId{4}, StreamId{7}, {12}}, {EventRecord::Kind::host_wait, {}, {}, {13}}};
  run.steps = {{Recording::trace, 3, {1}, {20}, Nanoseconds{25}, {1, 2, 3, 4}, 5, 6}, {}};
  run.phases = {{3, Recording::snapshot, "backward", {7}, {9}}, {}};
  run.annotations = {{LabelId{1}, {3}, {8}}, {}};
  run.ranks = {{0, {}, {}}, {5, {-1500}, {340'000}}};
  run.rank_ops = {{0, 1, LabelId{1}, 3, run.device_ops.front()}, {5, -1, {}, -1, {}}};
}

void add_memory(Run& run) {
  BlockRecord block;
  block.address = 0xffff'0000'0000'0001u;
  block.requested = 1000;
  block.size = 1024;
  block.stream = StreamId{7};
  block.pool = PoolId{3};
  block.category = MemoryCategory::gather_buffers;
  block.unit = UnitId{2};
  block.parameter = ParameterId{1};
  block.label = LabelId{0};
  block.step = 5;
  const FrameId main = run.stacks.frame("/home/user/train.py", 12, "main");
  const FrameId forward = run.stacks.frame("/home/user/\xff model.py", 0, "operator()<int>(…)");
  const StackId outer = run.stacks.stack(main, {});
  block.op = LabelId{2};
  block.module = LabelId{3};
  block.stack = run.stacks.stack(forward, outer);
  run.blocks = {block, {}};
  run.allocator = {{AllocatorAction::segment_map, 77, 88, StreamId{7}, {99}, BlockId{1}, outer}, {}};
  run.allocator[1].time = {99};
  SnapshotSegment segment;
  segment.device = 1;
  segment.address = 0x7f00'0000'0000u;
  segment.total_size = 20;
  segment.allocated_size = 10;
  segment.active_size = 11;
  segment.requested_size = 9;
  segment.stream = 0xabcdef0123u;
  segment.small_pool = true;
  segment.pool_id = {6, 7};
  segment.is_expandable = true;
  segment.blocks = {{1, 2, 3, BlockState::live}, {4, 5, 6, BlockState::pending_free, block.stack}};
  run.segments = {segment, {}};
  run.import_stats = {{"odd thing", ImportStat::Severity::data_loss, 12, "One sentence."}, {}};
}

}  // namespace

Run full_run() {
  Run run;
  add_info(run);
  add_time(run);
  add_memory(run);
  return run;
}

std::string difference(const Run& x, const Run& y) {
  const auto& [info, settings, measured, units, labels, stacks, streams, host_ops, device_ops, events, blocks,
               allocator, segments, steps, phases, annotations, ranks, rank_ops, import_stats, results, workload_json] =
      x;
  if (auto text = info_difference(info, y.info); !text.empty()) return text;
  if (settings != y.settings) return "settings";
  if (measured.has_value() != y.measured.has_value()) return "measured";
  if (measured &&
      std::tie(measured->step_ms, measured->host_issue_ms, measured->cycle, measured->late_rank,
               measured->late_itself) != std::tie(y.measured->step_ms, y.measured->host_issue_ms, y.measured->cycle,
                                                  y.measured->late_rank, y.measured->late_itself))
    return "measured";
  if (units != y.units) return "units";
  if (labels.texts() != y.labels.texts()) return "labels";
  if (results != y.results) return "results";
  if (workload_json != y.workload_json) return "workload_json";
  for (const std::string& text :
       {list_difference("frames", stacks.frames(), y.stacks.frames()),
        list_difference("stacks", stacks.stacks(), y.stacks.stacks()), list_difference("streams", streams, y.streams),
        list_difference("host_ops", host_ops, y.host_ops), list_difference("device_ops", device_ops, y.device_ops),
        list_difference("events", events, y.events), list_difference("blocks", blocks, y.blocks),
        list_difference("allocator", allocator, y.allocator), list_difference("segments", segments, y.segments),
        list_difference("steps", steps, y.steps), list_difference("phases", phases, y.phases),
        list_difference("annotations", annotations, y.annotations), list_difference("ranks", ranks, y.ranks),
        list_difference("rank_ops", rank_ops, y.rank_ops),
        list_difference("import_stats", import_stats, y.import_stats)})
    if (!text.empty()) return text;
  return {};
}

std::string path_of(const std::string& name) {
  static const foreshard::test::TemporaryFolder kFolder;
  return kFolder.file(name);
}

void seal_again(const std::string& path) {
  // What is behind SQLite's pages is shorter than one.
  std::filesystem::resize_file(path, std::filesystem::file_size(path) / kPageSize * kPageSize);
  REQUIRE(seal(path));
}

}  // namespace foreshard::traces::test
