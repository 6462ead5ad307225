#include <fmt/core.h>

#include <charconv>

#include "core/base/check_context.hpp"
#include "core/settings/settings_table.hpp"
#include "core/timeline/check_times.hpp"
#include "traces/store/open.hpp"
#include "traces/store/references.hpp"
#include "traces/store/row_reader.hpp"
#include "traces/store/rows.hpp"
#include "traces/store/schema.hpp"
#include "traces/store/store.hpp"

namespace foreshard::traces {
namespace {

/// Reads one table after the other. The first error ends it.
class Loader {
 public:
  explicit Loader(Connection& connection) : connection_(connection) {}

  template <class Record>
  std::vector<Record> load(std::string_view name) {
    std::vector<Record> out;
    if (!result_) return out;
    if (result_ = load_rows(name, out); !result_) out.clear();
    return out;
  }

  void refuse(std::string what) {
    if (result_) result_ = fail(ErrorKind::input, std::move(what), connection_.path(), "write the store again");
  }
  [[nodiscard]] const Result<void>& result() const { return result_; }

 private:
  template <class Record>
  Result<void> load_rows(std::string_view name, std::vector<Record>& out) {
    Result<Statement> select = connection_.prepare(select_statement(table(name)));
    FORESHARD_TRY(select);
    RowReader reader(*select);
    for (;;) {
      const Result<bool> row = select->step();
      FORESHARD_TRY(row);
      if (!*row) return {};
      reader.begin();
      columns(reader, out.emplace_back());
      if (reader.failure())
        return fail(ErrorKind::input, fmt::format("{} {}: {}", name, select->integer(0), *reader.failure()),
                    connection_.path(), "write the store again");
    }
  }

  Connection& connection_;
  Result<void> result_;
};

/// "[4096,1024]", as write.cpp makes it.
std::optional<std::vector<std::int64_t>> parse_shape(std::string_view text) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') return std::nullopt;
  std::vector<std::int64_t> out;
  const char* at = text.data() + 1;
  const char* const end = text.data() + text.size() - 1;
  while (at != end) {
    const auto [next, error] = std::from_chars(at, end, out.emplace_back());
    if (error != std::errc() || (next != end && (*next != ',' || next + 1 == end))) return std::nullopt;
    at = next == end ? end : next + 1;
  }
  return out;
}

std::vector<Unit> load_units(Loader& loader) {
  std::vector<Unit> units;
  for (UnitRow& row : loader.load<UnitRow>("unit")) units.push_back({std::move(row.name), {}});
  std::uint32_t last = 0;
  for (ParameterRow& row : loader.load<ParameterRow>("parameter")) {
    auto shape = parse_shape(row.shape);
    if (!shape) loader.refuse(fmt::format("parameter {}: '{}' is not a shape", row.name, row.shape));
    if (!row.unit.valid() || row.unit.value >= units.size() || row.unit.value < last)
      loader.refuse(fmt::format("parameter {} is not in the order of the units", row.name));
    if (!loader.result()) return units;
    last = row.unit.value;
    units[last].parameters.push_back({std::move(row.name), std::move(*shape), row.dtype});
  }
  return units;
}

std::vector<SnapshotSegment> load_segments(Loader& loader) {
  std::vector<SnapshotSegment> segments = loader.load<SnapshotSegment>("segment");
  for (const SegmentBlockRow& row : loader.load<SegmentBlockRow>("segment_block")) {
    if (row.segment >= segments.size()) {
      loader.refuse(fmt::format("segment_block names segment {}, of which there are {}", row.segment, segments.size()));
      return segments;
    }
    segments[row.segment].blocks.push_back(row.block);
  }
  return segments;
}

std::optional<Measured> load_measured(Loader& loader, bool present) {
  Measured out;
  for (const MeasuredRow& row : loader.load<MeasuredRow>("measured")) {
    if (row.series == "step_ms") {
      out.step_ms.push_back(row.value);
    } else if (row.series == "host_issue_ms") {
      out.host_issue_ms.push_back(row.value);
    } else if (row.series == "cycle" && row.value >= 1 && row.value <= UINT32_MAX) {
      out.cycle = static_cast<std::uint32_t>(row.value);
    } else if (row.series == "late_rank" && row.value >= 0 && row.value <= INT32_MAX) {
      out.late_rank = static_cast<std::int32_t>(row.value);
    } else if (row.series == "late_itself" && row.value == 1) {
      out.late_itself = true;
    } else {
      loader.refuse(fmt::format("measured: unknown series '{}'", row.series));
    }
  }
  if (!present) return std::nullopt;
  return out;
}

Settings load_settings(Loader& loader) {
  Settings settings;
  for (const SettingRow& row : loader.load<SettingRow>("settings"))
    if (auto set = set_setting(settings, row.key, row.value); !set)
      loader.refuse(fmt::format("settings: {}", set.error().what));
  return settings;
}

Labels load_labels(Loader& loader) {
  Labels labels;
  std::uint32_t next = 0;
  for (const TextRow& row : loader.load<TextRow>("label"))
    if (labels.intern(row.text).value != next++) loader.refuse(fmt::format("duplicate label '{}'", row.text));
  return labels;
}

CallStacks load_stacks(Loader& loader) {
  CallStacks stacks;
  std::uint32_t next = 0;
  for (const FrameRow& row : loader.load<FrameRow>("frame"))
    if (stacks.frame(row.frame.file, row.frame.line, row.frame.function).value != next++)
      loader.refuse(fmt::format("frame {} is there twice", next - 1));
  next = 0;
  for (const StackRow& row : loader.load<StackRow>("stack")) {
    if (row.stack.frame.value >= stacks.frames().size() || (row.stack.caller.valid() && row.stack.caller.value >= next))
      loader.refuse(fmt::format("stack {} names a frame or a caller that is not there", next));
    else if (stacks.stack(row.stack.frame, row.stack.caller).value != next)
      loader.refuse(fmt::format("stack {} is there twice", next));
    ++next;
  }
  return stacks;
}

RunRow load_info(Loader& loader) {
  std::vector<RunRow> rows = loader.load<RunRow>("run");
  RunRow out = rows.empty() ? RunRow() : std::move(rows.front());
  out.info.inputs = loader.load<InputFile>("input");
  for (TextRow& row : loader.load<TextRow>("warning")) out.info.warnings.push_back(std::move(row.text));
  return out;
}

}  // namespace

Result<Run> read_run(const std::string& path, OpenOptions options) {
  const CheckContext context = reading(path);
  Result<Connection> connection = open_store(path, options);
  FORESHARD_TRY(connection);
  Loader loader(*connection);
  Run run;
  RunRow info = load_info(loader);
  run.info = std::move(info.info);
  run.settings = load_settings(loader);
  run.measured = load_measured(loader, info.measured);
  run.units = load_units(loader);
  run.labels = load_labels(loader);
  run.stacks = load_stacks(loader);
  run.streams = loader.load<StreamRecord>("stream");
  run.host_ops = loader.load<HostOpRecord>("host_op");
  run.device_ops = loader.load<DeviceOpRecord>("device_op");
  run.ranks = loader.load<RankRecord>("rank");
  run.rank_ops = loader.load<RankOpRecord>("rank_op");
  if (std::string wrong = unfold_ranks(loader.load<RankFold>("rank_fold"), run); !wrong.empty())
    loader.refuse(std::move(wrong));
  run.events = loader.load<EventRecord>("event");
  run.blocks = loader.load<BlockRecord>("block");
  run.allocator = loader.load<AllocatorRecord>("allocator_event");
  run.segments = load_segments(loader);
  run.steps = loader.load<StepRecord>("step");
  run.phases = loader.load<PhaseRecord>("phase");
  run.annotations = loader.load<AnnotationRecord>("annotation");
  run.import_stats = loader.load<ImportStat>("import_stat");
  for (SettingRow& row : loader.load<SettingRow>("result")) run.results[row.key] = std::move(row.value);
  if (!options.takes_kept_calibration()) run.results.erase(std::string(kKeptCalibration));
  for (WorkloadRow& row : loader.load<WorkloadRow>("workload")) run.workload_json = std::move(row.json);
  if (!loader.result()) return tl::unexpected(loader.result().error());
  FORESHARD_TRY(check_references(run, ErrorKind::input, path));
  if (auto times = check_times(run); !times) {
    times.error().where = path;
    return tl::unexpected(std::move(times).error());
  }
  return run;
}

}  // namespace foreshard::traces
