#include <fmt/core.h>

#include <cmath>

#include "core/run/stack_meaning.hpp"
#include "core/settings/settings_table.hpp"
#include "core/timeline/check_times.hpp"
#include "traces/store/atomic_file.hpp"
#include "traces/store/references.hpp"
#include "traces/store/row_writer.hpp"
#include "traces/store/rows.hpp"
#include "traces/store/schema.hpp"
#include "traces/store/seal.hpp"
#include "traces/store/sqlite.hpp"
#include "traces/store/store.hpp"

namespace foreshard::traces {
namespace {

/// Fills one table after the other, in one transaction. The first error ends it.
class Filler {
 public:
  explicit Filler(Connection& connection) : connection_(connection) {}

  template <class Records>
  void fill(std::string_view name, const Records& records) {
    if (!result_) return;
    Result<Statement> insert = connection_.prepare(insert_statement(table(name)));
    if (!insert) {
      result_ = tl::unexpected(insert.error());
      return;
    }
    RowWriter row(*insert);
    std::int64_t id = 0;
    for (const auto& record : records) {
      row.begin(id++);
      columns(row, record);
      if (result_ = insert->run(); !result_) return;
    }
  }

  [[nodiscard]] Result<void> result() const { return result_; }

 private:
  Connection& connection_;
  Result<void> result_;
};

std::vector<SettingRow> pairs(const std::vector<std::pair<std::string, std::string>>& from) {
  std::vector<SettingRow> out;
  for (const auto& [key, value] : from) out.push_back({key, value});
  return out;
}

std::vector<TextRow> texts(const std::vector<std::string>& from) {
  std::vector<TextRow> out;
  for (const std::string& text : from) out.push_back({text});
  return out;
}

std::vector<UnitRow> unit_rows(const std::vector<Unit>& units) {
  std::vector<UnitRow> out;
  for (const Unit& unit : units) out.push_back({unit.name});
  return out;
}

std::vector<ParameterRow> parameter_rows(const std::vector<Unit>& units) {
  std::vector<ParameterRow> out;
  for (std::size_t i = 0; i < units.size(); ++i)
    for (const Parameter& parameter : units[i].parameters) {
      std::string shape;
      for (const std::int64_t size : parameter.shape) shape += fmt::format("{}{}", shape.empty() ? "" : ",", size);
      out.push_back({UnitId{static_cast<std::uint32_t>(i)}, parameter.name, "[" + shape + "]", parameter.dtype});
    }
  return out;
}

std::vector<SegmentBlockRow> segment_block_rows(const std::vector<SnapshotSegment>& segments) {
  std::vector<SegmentBlockRow> out;
  for (std::size_t i = 0; i < segments.size(); ++i)
    for (const SnapshotBlock& block : segments[i].blocks) out.push_back({static_cast<std::uint32_t>(i), block});
  return out;
}

std::vector<FrameRow> frame_rows(const CallStacks& stacks) {
  std::vector<FrameRow> out;
  for (const StackFrame& frame : stacks.frames()) out.push_back({frame});
  return out;
}

std::vector<StackRow> stack_rows(const CallStacks& stacks) {
  const StackMeanings meanings(stacks);
  std::vector<StackRow> out;
  for (std::uint32_t i = 0; i < stacks.stacks().size(); ++i)
    out.push_back({stacks.stacks()[i], meanings.user_frame(StackId{i})});
  return out;
}

std::vector<MeasuredRow> measured_rows(const std::optional<Measured>& measured) {
  std::vector<MeasuredRow> out;
  if (!measured) return out;
  for (const double value : measured->step_ms) out.push_back({"step_ms", value});
  for (const double value : measured->host_issue_ms) out.push_back({"host_issue_ms", value});
  if (measured->cycle > 1) out.push_back({"cycle", static_cast<double>(measured->cycle)});
  if (measured->late_rank >= 0) out.push_back({"late_rank", static_cast<double>(measured->late_rank)});
  if (measured->late_itself) out.push_back({"late_itself", 1});
  return out;
}

/// Empty where the run's events contradict each other: the store holds them all the same.
std::vector<MemoryPartsRow> memory_parts_rows(const Run& run) {
  std::vector<MemoryPartsRow> out;
  const auto series = gap_series(run);
  if (!series) return out;
  out.reserve(series->size());
  for (const MemoryParts& parts : *series) out.push_back({parts});
  return out;
}

Result<void> fill_tables(Connection& connection, const Run& run) {
  Filler filler(connection);
  filler.fill("label", texts(run.labels.texts()));
  filler.fill("settings", pairs(setting_options(run.settings)));
  filler.fill("warning", texts(run.info.warnings));
  filler.fill("input", run.info.inputs);
  filler.fill("unit", unit_rows(run.units));
  filler.fill("parameter", parameter_rows(run.units));
  filler.fill("stream", run.streams);
  filler.fill("host_op", run.host_ops);
  filler.fill("device_op", run.device_ops);
  filler.fill("rank", run.ranks);
  const FoldedRanks folded = fold_ranks(run);
  filler.fill("rank_op", folded.rank_ops);
  filler.fill("rank_fold", folded.folds);
  filler.fill("event", run.events);
  filler.fill("frame", frame_rows(run.stacks));
  filler.fill("stack", stack_rows(run.stacks));
  filler.fill("block", run.blocks);
  filler.fill("allocator_event", run.allocator);
  filler.fill("segment", run.segments);
  filler.fill("segment_block", segment_block_rows(run.segments));
  filler.fill("step", run.steps);
  filler.fill("phase", run.phases);
  filler.fill("annotation", run.annotations);
  filler.fill("import_stat", run.import_stats);
  filler.fill("measured", measured_rows(run.measured));
  filler.fill("result", pairs({run.results.begin(), run.results.end()}));
  if (!run.workload_json.empty()) filler.fill("workload", std::vector<WorkloadRow>{{run.workload_json}});
  filler.fill("memory_parts", memory_parts_rows(run));
  filler.fill("run", std::vector<RunRow>{{run.info, run.measured.has_value(), true}});
  return filler.result();
}

/// The bytes of the file depend on nothing but the rows: page size and layout are fixed, and no journal,
/// clock or free page takes part. The file has a temporary name, so nothing needs to be undone.
Result<void> fill_file(const Run& run, const std::string& path) {
  Result<Connection> connection = Connection::open(path, OpenMode::create);
  FORESHARD_TRY(connection);
  const std::string begin = fmt::format(
      "PRAGMA page_size={}; PRAGMA auto_vacuum=0; PRAGMA encoding='UTF-8'; PRAGMA journal_mode=OFF;"
      "PRAGMA synchronous=OFF; PRAGMA locking_mode=EXCLUSIVE; PRAGMA secure_delete=0; PRAGMA cache_size=-65536;"
      "BEGIN; PRAGMA application_id={}; PRAGMA user_version={};",
      kPageSize, kApplicationId, kSchemaVersion);
  return connection->execute(begin)
      .and_then([&] { return connection->execute(create_statements()); })
      .and_then([&] { return fill_tables(*connection, run); })
      .and_then([&] { return connection->execute("COMMIT"); })
      .and_then([&] { return connection->close(); })
      .and_then([&] { return seal(path); });
}

/// What a store cannot hold so that it reads back equal.
Result<void> check_storable(const Run& run, const std::string& path) {
  if (auto references = check_references(run, ErrorKind::mismatch, path); !references) return references;
  if (auto times = check_times(run); !times)
    return fail(ErrorKind::mismatch, times.error().what, path, "the recording's clocks cannot be trusted");
  Settings restored;
  for (const auto& [key, value] : setting_options(run.settings))
    if (auto set = set_setting(restored, key, value); !set)
      return fail(ErrorKind::mismatch, "a setting cannot be stored: " + set.error().what, path, set.error().hint);
  if (restored != run.settings) return fail(ErrorKind::mismatch, "the settings cannot be stored", path);
  if (run.measured)
    for (const std::vector<double>* series : {&run.measured->step_ms, &run.measured->host_issue_ms})
      for (const double value : *series)
        if (std::isnan(value)) return fail(ErrorKind::mismatch, "a measured time is not a number", path);
  return {};
}

}  // namespace

Result<void> write_run(const Run& run, const std::string& path, WriteOptions options) {
  if (auto storable = check_storable(run, path); !storable) return storable;
  Result<AtomicFile> file = AtomicFile::create(path, options.force);
  FORESHARD_TRY(file);
  if (Result<void> filled = fill_file(run, file->temporary_path()); !filled) {
    Error error = filled.error();
    error.where = path;
    return tl::unexpected(error);
  }
  return file->commit();
}

}  // namespace foreshard::traces
