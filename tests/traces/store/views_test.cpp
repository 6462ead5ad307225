// Each view on a run small enough to check by hand.
#include <fmt/core.h>

#include "core/base/check.hpp"
#include "tests/catch.hpp"
#include "tests/traces/store/run_sample.hpp"
#include "traces/store/query.hpp"
#include "traces/store/schema.hpp"
#include "traces/store/sqlite.hpp"
#include "traces/store/store.hpp"

namespace foreshard::traces {
namespace {

/// Rows as "a|b|c", NULL as "-".
std::vector<std::string> ask(const Run& run, const std::string& sql) {
  const std::string path = test::path_of("views.db");
  const auto written = write_run(run, path, {.force = true});
  INFO((written ? "" : written.error().text()));
  REQUIRE(written);
  const auto result = query(path, sql);
  INFO((result ? "" : result.error().text()));
  REQUIRE(result);
  std::vector<std::string> out;
  for (const auto& row : result->rows) {
    std::string& line = out.emplace_back();
    for (const QueryValue& value : row) {
      if (!line.empty()) line += "|";
      if (std::holds_alternative<std::int64_t>(value)) line += std::to_string(std::get<std::int64_t>(value));
      if (std::holds_alternative<std::string>(value)) line += std::get<std::string>(value);
      if (std::holds_alternative<std::monostate>(value)) line += "-";
    }
  }
  return out;
}

using Rows = std::vector<std::string>;
using Kind = DeviceOpRecord::Kind;

void add_op(Run& run, Kind kind, std::uint32_t stream, const char* label, std::int64_t issue, std::int64_t start,
            std::int64_t end) {
  DeviceOpRecord op;
  op.kind = kind;
  op.stream = StreamId{stream};
  op.label = run.labels.intern(label);
  op.issue = {issue};
  op.start = {start};
  op.end = {end};
  run.device_ops.push_back(op);
}

/// Two steps of host time 0-100 and 100-200.
/// compute:     gemm 10-40, gemm 60-90, gemm 120-150 (issued in step 0), memset 150-160
/// all-gather:  30-70 (20 hidden), 80-130 (20 hidden: 80-90 and 120-130)
/// reduce:      50-65 (5 hidden) overlaps the first all-gather; 170-180 (none hidden), issued in step 1
Run timed_run() {
  Run run;
  run.streams = {{StreamId{0}, "compute", 0, 0}, {StreamId{1}, "all-gather", 0, 0}, {StreamId{2}, "reduce", 0, 0}};
  add_op(run, Kind::kernel, 0, "gemm", 1, 10, 40);
  add_op(run, Kind::kernel, 0, "gemm", 2, 60, 90);
  add_op(run, Kind::collective, 1, "ag", 3, 30, 70);
  add_op(run, Kind::collective, 2, "rs", 4, 50, 65);
  add_op(run, Kind::collective, 1, "ag", 5, 80, 130);
  add_op(run, Kind::kernel, 0, "gemm", 99, 120, 150);
  add_op(run, Kind::memset, 0, "fill", 100, 150, 160);
  add_op(run, Kind::collective, 2, "rs", 101, 170, 180);
  run.device_ops[3].collective = CollectiveKind::reduce_scatter;
  run.device_ops[7].collective = CollectiveKind::reduce_scatter;
  run.host_ops = {{HostOpRecord::Kind::runtime, 1, run.labels.intern("cudaLaunchKernel"), {1}, {2}, 0}};
  run.steps.resize(2);
  run.steps[0] = {Recording::run, 0, {0}, {100}, {}, {}, 0, 0};
  run.steps[1] = {Recording::run, 1, {100}, {200}, {}, {}, 0, 0};
  return run;
}

TEST_CASE("slices: device and host ops with their tracks", "[store]") {
  CHECK(ask(timed_run(), "SELECT * FROM slices WHERE ts IN (1, 60, 50, 150) ORDER BY ts") ==
        Rows{"host_op|0|1|1|cudaLaunchKernel|thread 1|runtime", "device_op|3|50|15|rs|reduce|reduce_scatter",
             "device_op|1|60|30|gemm|compute|memory_bound", "device_op|6|150|10|fill|compute|memset"});
}

TEST_CASE("collective: only collectives", "[store]") {
  CHECK(ask(timed_run(), "SELECT id, collective, transport, name FROM collective") ==
        Rows{"2|all_gather|nccl|ag", "3|reduce_scatter|nccl|rs", "4|all_gather|nccl|ag", "7|reduce_scatter|nccl|rs"});
  CHECK(ask(timed_run(), "SELECT count(*) FROM device_op WHERE transport IS NOT NULL") == Rows{"4"});
}

TEST_CASE("exposed_communication: what the compute stream did not hide", "[store]") {
  CHECK(ask(timed_run(), "SELECT id, dur, exposed FROM exposed_communication ORDER BY id") ==
        Rows{"2|40|20", "3|15|10", "4|50|30", "7|10|10"});
}

TEST_CASE("step_summary: the GPU's steps, overlapping collectives once", "[store]") {
  Run run = timed_run();
  run.steps[0].device_end = Nanoseconds{150};
  run.steps[1].device_end = Nanoseconds{190};
  run.host_ops.push_back({HostOpRecord::Kind::annotation, 1, run.labels.intern("ProfilerStep#4"), {100}, {210}, 0});
  // Step 0: collectives run 30-70 and 80-130; hidden are 30-40, 60-70, 80-90, 120-130.
  CHECK(ask(run, "SELECT * FROM step_summary") ==
        Rows{"run|0|0|150|90|90|50|0|100|-", "run|1|150|40|10|10|10|100|100|ProfilerStep#4"});
  // Where the end on the GPU is not known, host time stands for it: 80-130 is cut at 100.
  run.steps[0].device_end.reset();
  CHECK(ask(run, "SELECT ts, dur, communication_busy FROM step_summary WHERE step = 0") == Rows{"0|100|60"});
}

TEST_CASE("a store that another foreshard wrote is asked through our views", "[store]") {
  const std::string path = test::path_of("older.db");
  REQUIRE(write_run(timed_run(), path, {.force = true}));
  {
    auto store = Connection::open(path, OpenMode::create);
    REQUIRE(store);
    REQUIRE(store->execute("DROP VIEW step_summary"));
    REQUIRE(store->execute("CREATE VIEW step_summary AS SELECT step, ts, dur FROM step"));
    REQUIRE(store->execute("DROP VIEW slices"));
  }
  test::seal_again(path);
  const auto columns = query(path, "SELECT name, host_dur FROM step_summary");
  REQUIRE(columns);
  CHECK(columns->rows.size() == 2);
  CHECK(query(path, "SELECT count(*) FROM slices"));
  CHECK(read_run(path));
}

/// Blocks: 0 parameters 1000 → 1024 (stays), 1 activations 2000 → 2048, 2 temporaries 500 of unknown size → 512.
Run memory_run() {
  Run run;
  run.blocks.resize(3);
  run.blocks[0].requested = 1000;
  run.blocks[0].size = 1024;
  run.blocks[0].category = MemoryCategory::parameters;
  run.blocks[1].requested = 2000;
  run.blocks[1].size = 2048;
  run.blocks[1].category = MemoryCategory::activations;
  run.blocks[2].requested = 500;
  run.blocks[2].category = MemoryCategory::temporaries;
  using A = AllocatorAction;
  const auto add = [&run](A action, Bytes size, std::int64_t time, BlockId block = {}) {
    run.allocator.push_back({action, 0, size, StreamId{0}, {time}, block});
  };
  add(A::segment_alloc, 4096, 1);
  add(A::alloc, 1000, 1, BlockId{0});
  add(A::alloc, 2000, 10, BlockId{1});
  add(A::free_requested, 2000, 20, BlockId{1});
  add(A::alloc, 500, 30, BlockId{2});
  add(A::free_completed, 2000, 40, BlockId{1});
  add(A::segment_map, 100, 50);
  add(A::segment_unmap, 100, 60);
  run.steps.resize(3);
  run.steps[0] = {Recording::run, 0, {5}, {25}, {}, {}, 0, 0};
  run.steps[1] = {Recording::run, 1, {25}, {70}, {}, {}, 0, 0};
  run.steps[2] = {Recording::trace, 0, {0}, {70}, {}, {}, 0, 0};
  return run;
}

TEST_CASE("memory_change: which statistic moves at which event", "[store]") {
  CHECK(ask(memory_run(), "SELECT action, category, requested, allocated, active, reserved FROM memory_change") ==
        Rows{"segment_alloc|-|0|0|0|4096", "alloc|parameters|1000|1024|1024|0", "alloc|activations|2000|2048|2048|0",
             "free_requested|activations|0|-2048|0|0", "alloc|temporaries|500|512|512|0",
             "free_completed|activations|-2000|0|-2048|0", "segment_map|-|0|0|0|100", "segment_unmap|-|0|0|0|-100"});
}

TEST_CASE("memory_timeline: running totals", "[store]") {
  const Rows from_empty{"1|0|0|0|4096",           "1|1000|1024|1024|4096",  "10|3000|3072|3072|4096",
                        "20|3000|1024|3072|4096", "30|3500|1536|3584|4096", "40|1500|1536|1536|4096",
                        "50|1500|1536|1536|4196", "60|1500|1536|1536|4096"};
  const std::string sql = "SELECT ts, requested, allocated, active, reserved FROM memory_timeline";
  Run run = memory_run();
  CHECK(ask(run, sql) == from_empty);

  // The final state agrees: nothing changes. With 8192 bytes more in it, so had the beginning.
  run.segments.resize(1);
  run.segments[0].total_size = 4096;
  run.segments[0].blocks = {
      {0, 1024, 1000, BlockState::live}, {1024, 512, 500, BlockState::live}, {1536, 2560, 77, BlockState::inactive}};
  CHECK(ask(run, sql) == from_empty);
  run.segments.push_back(run.segments[0]);
  run.segments[1].total_size = 8192;
  run.segments[1].blocks = {{0, 5120, 5000, BlockState::live}, {5120, 3072, 3000, BlockState::pending_free}};
  CHECK(ask(run, sql + " LIMIT 2") == Rows{"1|8000|5120|8192|12288", "1|9000|6144|9216|12288"});
}

TEST_CASE("memory_by_category: each category's running total", "[store]") {
  CHECK(ask(memory_run(), "SELECT category, ts, delta, bytes FROM memory_by_category ORDER BY category, id") ==
        Rows{"activations|10|2048|2048", "activations|20|-2048|0", "parameters|1|1024|1024", "temporaries|30|512|512"});
}

TEST_CASE("peak_by_category: what was there at each step's peak", "[store]") {
  CHECK(ask(memory_run(), "SELECT * FROM peak_by_category") ==
        Rows{"run|0|10|activations|2048", "run|0|10|parameters|1024", "run|1|30|parameters|1024",
             "run|1|30|temporaries|512"});
  Run run = memory_run();
  run.segments.resize(1);
  run.segments[0].blocks = {
      {0, 1024, 1000, BlockState::live}, {1024, 512, 500, BlockState::live}, {1536, 512, 512, BlockState::live}};
  CHECK(ask(run, "SELECT category, bytes FROM peak_by_category WHERE step = 1") ==
        Rows{"parameters|1024", "before_recording|512", "temporaries|512"});
}

TEST_CASE("every view has the columns that its documentation lists", "[store]") {
  const std::string path = test::path_of("columns.db");
  REQUIRE(write_run(test::full_run(), path, {.force = true}));
  for (const View& view : views()) {
    const auto result = query(path, fmt::format("SELECT * FROM {}", view.name));
    INFO(view.name << (result ? "" : result.error().text()));
    REQUIRE(result);
    std::vector<std::string> documented;
    for (const Column& column : view.columns) documented.emplace_back(column.name);
    CHECK(result->columns == documented);
  }
}

}  // namespace
}  // namespace foreshard::traces
