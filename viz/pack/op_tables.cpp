#include "viz/pack/op_tables.hpp"

#include <algorithm>
#include <map>

#include "core/run/allocation_names.hpp"

namespace foreshard::viz {
namespace {

constexpr std::uint32_t kNoOp = UINT32_MAX;

std::int64_t or_none(std::uint32_t value) {
  return value == UINT32_MAX ? -1 : static_cast<std::int64_t>(value);
}

}  // namespace

OpWaits::OpWaits(const Run& run) : previous_(run.device_ops.size(), kNoOp), waits_(run.device_ops.size()) {
  std::map<StreamId, std::vector<std::uint32_t>> by_stream;
  for (std::uint32_t i = 0; i < run.device_ops.size(); ++i) {
    std::vector<std::uint32_t>& ops = by_stream[run.device_ops[i].stream];
    if (!ops.empty()) previous_[i] = ops.back();
    ops.push_back(i);
  }
  const auto issued_after = [&run](Nanoseconds time, std::uint32_t op) { return time < run.device_ops[op].issue; };
  std::map<EventId, OpWait> recorded;
  for (const EventRecord& event : run.events) {
    if (event.kind != EventRecord::Kind::record) continue;
    const std::vector<std::uint32_t>& ops = by_stream[event.stream];
    const auto next = std::upper_bound(ops.begin(), ops.end(), event.time, issued_after);
    recorded[event.event] = {event.event, event.stream, next == ops.begin() ? kNoOp : *std::prev(next)};
  }
  for (const EventRecord& event : run.events) {
    if (event.kind != EventRecord::Kind::wait) continue;
    const auto found = recorded.find(event.event);
    if (found == recorded.end() || found->second.stream == event.stream) continue;
    const std::vector<std::uint32_t>& ops = by_stream[event.stream];
    const auto next = std::lower_bound(ops.begin(), ops.end(), event.time, [&run](std::uint32_t op, Nanoseconds time) {
      return run.device_ops[op].issue < time;
    });
    if (next != ops.end()) waits_[*next].push_back(found->second);
  }
}

OpTables::OpTables(const Run& run, const OpFacts& facts, const TrackLevels& tracks, Nanoseconds origin, Labels& names)
    : run_(run), facts_(facts), tracks_(tracks), origin_(origin), waits_(run) {
  for (const DeviceOpRecord& op : run.device_ops) {
    const auto [name, symbol] = named(op, names);
    name_.push_back(name);
    symbol_.push_back(symbol);
    const std::string unit = facts.unit(op);
    unit_.push_back(unit.empty() ? -1 : column_value(names.intern(unit)));
  }
  for (const RankOpRecord& of : run.rank_ops) {
    const auto [name, symbol] = named(of.op, names);
    rank_name_.push_back(name);
    rank_symbol_.push_back(symbol);
  }
  link_host_ops();
}

std::pair<std::int64_t, std::int64_t> OpTables::named(const DeviceOpRecord& op, Labels& names) {
  const std::string& label = run_.labels.text(op.label);
  if (label.empty()) return {column_value(names.intern(facts_.name(op))), -1};
  if (!is_kernel_symbol(label)) return {column_value(op.label), -1};
  if (!titles_.contains(op.label)) titles_[op.label] = names.intern(op_title(label));
  return {column_value(titles_[op.label]), column_value(op.label)};
}

void OpTables::link_host_ops() {
  host_of_.assign(run_.device_ops.size(), -1);
  op_of_.assign(run_.host_ops.size(), -1);
  std::map<std::uint64_t, std::size_t> by_correlation;
  for (std::size_t i = 0; i < run_.host_ops.size(); ++i)
    if (run_.host_ops[i].kind == HostOpRecord::Kind::runtime && run_.host_ops[i].correlation != 0)
      by_correlation.emplace(run_.host_ops[i].correlation, i);
  for (std::size_t i = 0; i < run_.device_ops.size(); ++i) {
    const auto found = by_correlation.find(run_.device_ops[i].correlation);
    if (run_.device_ops[i].correlation == 0 || found == by_correlation.end()) continue;
    host_of_[i] = static_cast<std::int64_t>(found->second);
    op_of_[found->second] = static_cast<std::int64_t>(i);
  }
}

ColumnTable OpTables::device_tile(std::size_t tile) const {
  ColumnTable table(kDeviceOps);
  const RowRange rows = tile_rows(tile, run_.device_ops.size());
  const auto op = [this](std::size_t i) -> const DeviceOpRecord& { return run_.device_ops[i]; };
  const auto collective = [&op](std::size_t i) { return op(i).kind == DeviceOpRecord::Kind::collective; };
  table.fill("kind", rows, [&](std::size_t i) { return op(i).kind; });
  table.fill("stream", rows, [&](std::size_t i) { return op(i).stream; });
  table.fill("name", rows, [&](std::size_t i) { return name_[i]; });
  table.fill("symbol", rows, [&](std::size_t i) { return symbol_[i]; });
  table.fill("class", rows, [&](std::size_t i) { return facts_.op_class(op(i)); });
  table.fill("issue", rows, [&](std::size_t i) { return op(i).issue - origin_; });
  table.fill("start", rows, [&](std::size_t i) { return op(i).start - origin_; });
  table.fill("end", rows, [&](std::size_t i) { return op(i).end - origin_; });
  table.fill("bytes", rows, [&](std::size_t i) { return op(i).bytes; });
  table.fill("unit", rows, [&](std::size_t i) { return unit_[i]; });
  table.fill("collective", rows, [&](std::size_t i) { return collective(i) ? column_value(op(i).collective) : -1; });
  table.fill("transport", rows, [&](std::size_t i) { return collective(i) ? column_value(op(i).transport) : -1; });
  table.fill("communicator", rows, [&](std::size_t i) { return op(i).communicator; });
  table.fill("correlation", rows, [&](std::size_t i) { return op(i).correlation; });
  table.fill("host_op", rows, [&](std::size_t i) { return host_of_[i]; });
  table.fill("previous_op", rows, [&](std::size_t i) { return or_none(waits_.previous(i)); });
  table.fill("track", rows, [&](std::size_t i) { return or_none(tracks_.track_of_device_op()[i]); });
  table.fill("grid_x", rows, [&](std::size_t i) { return op(i).grid[0]; });
  table.fill("grid_y", rows, [&](std::size_t i) { return op(i).grid[1]; });
  table.fill("grid_z", rows, [&](std::size_t i) { return op(i).grid[2]; });
  table.fill("block_x", rows, [&](std::size_t i) { return op(i).block[0]; });
  table.fill("block_y", rows, [&](std::size_t i) { return op(i).block[1]; });
  table.fill("block_z", rows, [&](std::size_t i) { return op(i).block[2]; });
  add_waits(rows, table);
  return table;
}

void OpTables::add_waits(RowRange rows, ColumnTable& table) const {
  Column &end = table["waits_end"], &event = table["wait_event"], &stream = table["wait_stream"];
  Column& before = table["wait_op"];
  for (std::size_t i = rows.first; i < rows.end; ++i) {
    for (const OpWait& wait : waits_.waits(i)) {
      event.push_back(column_value(wait.event));
      stream.push_back(column_value(wait.stream));
      before.push_back(or_none(wait.op));
    }
    end.push_back(column_value(event.size()));
  }
}

ColumnTable OpTables::rank_tile(std::size_t tile) const {
  ColumnTable table(kRankOps);
  const RowRange rows = tile_rows(tile, run_.rank_ops.size());
  const auto of = [this](std::size_t i) -> const RankOpRecord& { return run_.rank_ops[i]; };
  table.fill("rank", rows, [&](std::size_t i) { return of(i).rank; });
  table.fill("name", rows, [&](std::size_t i) { return rank_name_[i]; });
  table.fill("symbol", rows, [&](std::size_t i) { return rank_symbol_[i]; });
  table.fill("class", rows, [&](std::size_t i) { return facts_.op_class(of(i).op); });
  table.fill("start", rows, [&](std::size_t i) { return of(i).op.start - origin_; });
  table.fill("end", rows, [&](std::size_t i) { return of(i).op.end - origin_; });
  table.fill("bytes", rows, [&](std::size_t i) { return of(i).op.bytes; });
  table.fill("step", rows, [&](std::size_t i) { return of(i).step; });
  table.fill("phase", rows, [&](std::size_t i) { return of(i).phase; });
  table.fill("sequence", rows, [&](std::size_t i) { return of(i).sequence; });
  return table;
}

ColumnTable OpTables::host_tile(std::size_t tile) const {
  ColumnTable table(kHostOps);
  const RowRange rows = tile_rows(tile, run_.host_ops.size());
  const auto op = [this](std::size_t i) -> const HostOpRecord& { return run_.host_ops[i]; };
  table.fill("kind", rows, [&](std::size_t i) { return op(i).kind; });
  table.fill("thread", rows, [&](std::size_t i) { return op(i).thread; });
  table.fill("name", rows, [&](std::size_t i) { return op(i).label; });
  table.fill("start", rows, [&](std::size_t i) { return op(i).start - origin_; });
  table.fill("end", rows, [&](std::size_t i) { return op(i).end - origin_; });
  table.fill("correlation", rows, [&](std::size_t i) { return op(i).correlation; });
  table.fill("op", rows, [&](std::size_t i) { return op_of_[i]; });
  table.fill("track", rows, [&](std::size_t i) { return or_none(tracks_.track_of_host_op()[i]); });
  return table;
}

ColumnTable OpTables::find_device() const {
  ColumnTable table(kFindOps);
  const RowRange rows{0, run_.device_ops.size()};
  table.fill("name", rows, [&](std::size_t i) { return name_[i]; });
  table.fill("symbol", rows, [&](std::size_t i) { return symbol_[i]; });
  table.fill("unit", rows, [&](std::size_t i) { return unit_[i]; });
  table.fill("start", rows, [&](std::size_t i) { return run_.device_ops[i].start - origin_; });
  table.fill("track", rows, [&](std::size_t i) { return or_none(tracks_.track_of_device_op()[i]); });
  return table;
}

ColumnTable OpTables::find_host() const {
  ColumnTable table(kFindHostOps);
  const RowRange rows{0, run_.host_ops.size()};
  table.fill("name", rows, [&](std::size_t i) { return run_.host_ops[i].label; });
  table.fill("start", rows, [&](std::size_t i) { return run_.host_ops[i].start - origin_; });
  table.fill("track", rows, [&](std::size_t i) { return or_none(tracks_.track_of_host_op()[i]); });
  return table;
}

}  // namespace foreshard::viz
