#include "traces/store/schema.hpp"

#include <cstdlib>
#include <set>

#include "tests/catch.hpp"
#include "tests/temporary_folder.hpp"
#include "tests/traces/store/run_sample.hpp"
#include "traces/store/rows.hpp"

namespace foreshard::traces {
namespace {

/// An Io (rows.hpp) that only collects the columns' names.
struct NameCollector {
  template <class T>
  using Record = const T;
  std::vector<std::string> names;

  template <class T>
  void value(std::string_view name, const T&) {
    names.emplace_back(name);
  }
  void span(Nanoseconds, Nanoseconds) {
    names.emplace_back("ts");
    names.emplace_back("dur");
  }
  template <class T>
  void unless(std::string_view name, const T&, const T&, bool = false) {
    names.emplace_back(name);
  }
};

template <class Record>
void check_columns(std::string_view name) {
  NameCollector collector;
  columns(collector, Record());
  std::vector<std::string> expected;
  for (const Column& column : table(name).columns) expected.emplace_back(column.name);
  INFO(name);
  CHECK(collector.names == expected);
}

TEST_CASE("records and schema name the same columns in the same order", "[store]") {
  check_columns<TextRow>("label");
  check_columns<SettingRow>("settings");
  check_columns<TextRow>("warning");
  check_columns<InputFile>("input");
  check_columns<UnitRow>("unit");
  check_columns<ParameterRow>("parameter");
  check_columns<StreamRecord>("stream");
  check_columns<HostOpRecord>("host_op");
  check_columns<DeviceOpRecord>("device_op");
  check_columns<RankRecord>("rank");
  check_columns<RankOpRecord>("rank_op");
  check_columns<RankFold>("rank_fold");
  check_columns<EventRecord>("event");
  check_columns<FrameRow>("frame");
  check_columns<StackRow>("stack");
  check_columns<BlockRecord>("block");
  check_columns<AllocatorRecord>("allocator_event");
  check_columns<SnapshotSegment>("segment");
  check_columns<SegmentBlockRow>("segment_block");
  check_columns<StepRecord>("step");
  check_columns<PhaseRecord>("phase");
  check_columns<AnnotationRecord>("annotation");
  check_columns<ImportStat>("import_stat");
  check_columns<MeasuredRow>("measured");
  check_columns<SettingRow>("result");
  check_columns<WorkloadRow>("workload");
  check_columns<MemoryPartsRow>("memory_parts");
  check_columns<RunRow>("run");
  CHECK(tables().size() == 28);
  CHECK(tables().back().name == "run");
}

TEST_CASE("every table, view and column has a name of its own and a sentence", "[store]") {
  std::set<std::string_view> names;
  const auto check = [&](std::string_view name, std::string_view doc, std::span<const Column> columns) {
    INFO(name);
    CHECK(names.insert(name).second);
    CHECK(doc.ends_with('.'));
    std::set<std::string_view> own;
    for (const Column& column : columns) {
      CHECK(own.insert(column.name).second);
      CHECK((column.doc.ends_with('.') || column.doc.ends_with("…")));
    }
  };
  for (const Table& table : tables()) check(table.name, table.doc, table.columns);
  for (const View& view : views()) check(view.name, view.doc, view.columns);
}

TEST_CASE("docs/trace_schema.md is the one that the schema generates", "[store][docs]") {
  const std::string path = "docs/trace_schema.md";
  if (std::getenv("FORESHARD_UPDATE_DOCS") != nullptr) foreshard::test::write_file(path, schema_document());
  INFO("to update it: FORESHARD_UPDATE_DOCS=1 ctest -R traces_store");
  CHECK(foreshard::test::file_bytes(path) == schema_document());
}

}  // namespace
}  // namespace foreshard::traces
