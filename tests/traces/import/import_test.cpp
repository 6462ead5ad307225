#include "traces/import/import.hpp"

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"
#include "traces/import/file_digest.hpp"
#include "traces/import/snapshot_ranges.hpp"

using namespace foreshard;
using namespace foreshard::traces;

TEST_CASE("an import needs a recording") {
  const auto nothing = import_run({});
  REQUIRE_FALSE(nothing);
  CHECK(nothing.error().kind == ErrorKind::usage);
  const auto missing = import_run({.snapshot = "/nonexistent.pickle", .trace = {}, .about = {}});
  REQUIRE_FALSE(missing);
  CHECK(missing.error().kind == ErrorKind::input);
  CHECK(missing.error().where.find("/nonexistent.pickle") != std::string::npos);
}

TEST_CASE("a digest is of the file as stored") {
  const foreshard::test::TemporaryFolder folder;
  const std::string path = folder.write("digest.txt", "foreshard");
  const auto digest = file_digest(path);
  std::remove(path.c_str());
  REQUIRE(digest);
  CHECK(digest->bytes == 9);
  CHECK(digest->text.size() == 21);
  CHECK(digest->text.starts_with("xxh3:"));
  CHECK_FALSE(file_digest(path));
}

TEST_CASE("annotations become ranges; one that is never closed ends after the recording") {
  Snapshot snapshot;
  snapshot.events.push_back({AllocatorAction::alloc, 0x1000, 512, 0, 100});
  snapshot.events.push_back({AllocatorAction::alloc, 0x2000, 512, 0, 130});
  snapshot.annotations = {{true, "outer", 0, 90}, {true, "inner", 0, 110}, {false, "inner", 0, 120}};
  CHECK(snapshot_origin_us(snapshot) == 90);
  CHECK(snapshot_end_us(snapshot) == 130);
  const auto ranges = snapshot_ranges(snapshot);
  REQUIRE(ranges.size() == 2);
  CHECK(ranges[0].end == Nanoseconds::from_us(41));
  CHECK(ranges[1].start == Nanoseconds::from_us(20));
  CHECK(ranges[1].end == Nanoseconds::from_us(30));
  CHECK(events_at(snapshot, {Nanoseconds::from_us(0), Nanoseconds::from_us(11), Nanoseconds::from_us(99)}) ==
        std::vector<std::size_t>{0, 1, 2});
}

TEST_CASE("an annotation that ends before it starts is refused at import, with the file's name") {
  const std::vector<Range> ranges{{"outer", {0}, {9}}, {"nccl:_all_gather_base", {5'000'000}, {2'000'000}}};
  const auto checked = check_ranges(ranges);
  REQUIRE_FALSE(checked);
  CHECK(checked.error().kind == ErrorKind::input);
  CHECK(checked.error().what == "the annotation 'nccl:_all_gather_base' ends 3.000 ms before it starts");
  CHECK(check_ranges(std::span(ranges).first(1)));
}

TEST_CASE("a further rank's trace that is no file is refused, not left out; so is a rank that cannot be") {
  const foreshard::test::TemporaryFolder folder;
  const std::string trace = folder.write("t.json", R"json({"schemaVersion": 1, "traceEvents": [
    {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 5, "dur": 1,
     "args": {"device": 0, "stream": 7, "correlation": 3}}]})json");
  for (const std::string& other : {folder.file("nothing.json"), folder.path().string()}) {
    const auto run = import_run({.snapshot = {}, .trace = trace, .about = {}, .rank_traces = {other}});
    REQUIRE_FALSE(run);
    CHECK(run.error().kind == ErrorKind::input);
    CHECK(run.error().where == other);
  }
  const std::string beyond = folder.write("b.json", R"json({"distributedInfo": {"rank": 8, "world_size": 8},
    "traceEvents": [{"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 5, "dur": 1,
     "args": {"device": 0, "stream": 7, "correlation": 3}}]})json");
  const auto first = import_run({.snapshot = {}, .trace = beyond});
  REQUIRE_FALSE(first);
  CHECK(first.error().kind == ErrorKind::mismatch);
  CHECK(first.error().what == "is of rank 8, and the world has 8 ranks, from 0");
  const std::string negative = folder.write("n.json", R"json({"distributedInfo": {"rank": -1, "world_size": 4},
    "traceEvents": []})json");
  const auto run = import_run({.snapshot = {}, .trace = negative});
  REQUIRE_FALSE(run);
  CHECK(run.error().what == "the rank is -1, and ranks count from 0");
}

TEST_CASE("units are named by FSDP's ranges, the root first") {
  const std::vector<Range> ranges{{"FSDP::pre_forward (layers.1)", {0}, {1}},
                                  {"FSDP::pre_forward (layers.0)", {2}, {3}},
                                  {"FSDP::post_forward (layers.1)", {4}, {5}},
                                  {"aten::add", {6}, {7}}};
  const auto units = units_named(ranges);
  REQUIRE(units.size() == 3);
  CHECK(units[0].name.empty());
  CHECK(units[1].name == "layers.1");
  CHECK(units[2].name == "layers.0");
}

TEST_CASE("an about file of measured steps alone goes with a recording that settles no workload") {
  const foreshard::test::TemporaryFolder folder;
  const std::string trace = folder.write("t.json", R"json({"schemaVersion": 1, "traceEvents": [
    {"ph": "X", "cat": "user_annotation", "name": "FSDP::root_pre_forward", "pid": 1, "tid": 1, "ts": 1, "dur": 2},
    {"ph": "X", "cat": "user_annotation", "name": "FSDP::pre_forward (layers.0)", "pid": 1, "tid": 1, "ts": 4,
     "dur": 2},
    {"ph": "X", "cat": "user_annotation", "name": "FSDP::root_post_backward_callback", "pid": 1, "tid": 1, "ts": 8,
     "dur": 2},
    {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 5, "dur": 1,
     "args": {"device": 0, "stream": 7, "correlation": 3}}]})json");
  const auto import_with = [&](const char* about) {
    return import_run({.snapshot = {}, .trace = trace, .about = folder.write("a.json", about)});
  };
  const char* measured = R"("measured": {"step_ms": [9, 8, 7, 7], "host_issue_ms": [6, 6, 6, 6]})";
  const auto times = import_with(fmt::format(R"({{"schema": 1, {}}})", measured).c_str());
  INFO((times ? std::string() : times.error().text()));
  REQUIRE(times);
  REQUIRE(times->measured);
  CHECK(times->measured->step_ms.back() == 7);
  const auto stat = [](const Run& run, std::string_view name) {
    return std::any_of(run.import_stats.begin(), run.import_stats.end(),
                       [&](const ImportStat& s) { return s.name == name; });
  };
  CHECK_FALSE(stat(*times, "about_not_used"));
  const auto settings = import_with(fmt::format(R"({{"schema": 1, "batch": 2, {}}})", measured).c_str());
  REQUIRE(settings);
  CHECK(settings->measured);
  CHECK(stat(*settings, "about_not_used"));
  const auto units = import_with(R"({"schema": 1, "units": [{"unit": "", "parameters":
    [{"name": "w", "shape": [2], "dtype": "float32"}]}]})");
  REQUIRE_FALSE(units);
  CHECK(units.error().what == "this key is missing");
}
