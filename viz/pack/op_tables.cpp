#include "viz/pack/op_tables.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "viz/pack/level_widths.hpp"

namespace foreshard::viz {
namespace {

constexpr std::uint32_t kNoOp = UINT32_MAX;

template <class Tag>
std::int64_t number_of(Id<Tag> id) {
  return id.valid() ? static_cast<std::int64_t>(id.value) : -1;
}

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
    const bool labelled = !run.labels.text(op.label).empty();
    name_.push_back(number_of(labelled ? op.label : names.intern(facts.name(op))));
    const std::string unit = facts.unit(op);
    unit_.push_back(unit.empty() ? -1 : number_of(names.intern(unit)));
  }
  link_host_ops();
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
  constexpr std::size_t kColumns = 23;
  ColumnTable table(kColumns + 3);
  std::int64_t waits = 0;
  for (std::size_t i = tile * kTileRows; i < std::min((tile + 1) * kTileRows, run_.device_ops.size()); ++i) {
    const DeviceOpRecord& op = run_.device_ops[i];
    const bool collective = op.kind == DeviceOpRecord::Kind::collective;
    waits += static_cast<std::int64_t>(waits_.waits(i).size());
    const std::array<std::int64_t, kColumns> row{static_cast<std::int64_t>(op.kind),
                                                 number_of(op.stream),
                                                 name_[i],
                                                 static_cast<std::int64_t>(facts_.op_class(op)),
                                                 (op.issue - origin_).count,
                                                 (op.start - origin_).count,
                                                 (op.end - origin_).count,
                                                 static_cast<std::int64_t>(op.bytes),
                                                 unit_[i],
                                                 collective ? static_cast<std::int64_t>(op.collective) : -1,
                                                 collective ? static_cast<std::int64_t>(op.transport) : -1,
                                                 number_of(op.communicator),
                                                 static_cast<std::int64_t>(op.correlation),
                                                 host_of_[i],
                                                 or_none(waits_.previous(i)),
                                                 or_none(tracks_.track_of_device_op()[i]),
                                                 op.grid[0],
                                                 op.grid[1],
                                                 op.grid[2],
                                                 op.block[0],
                                                 op.block[1],
                                                 op.block[2],
                                                 waits};
    for (std::size_t c = 0; c < kColumns; ++c) table.columns[c].push_back(row[c]);
    for (const OpWait& wait : waits_.waits(i)) {
      table.columns[kColumns].push_back(number_of(wait.event));
      table.columns[kColumns + 1].push_back(number_of(wait.stream));
      table.columns[kColumns + 2].push_back(or_none(wait.op));
    }
  }
  return table;
}

ColumnTable OpTables::host_tile(std::size_t tile) const {
  ColumnTable table(8);
  for (std::size_t i = tile * kTileRows; i < std::min((tile + 1) * kTileRows, run_.host_ops.size()); ++i) {
    const HostOpRecord& op = run_.host_ops[i];
    const std::array<std::int64_t, 8> row{static_cast<std::int64_t>(op.kind),
                                          op.thread,
                                          number_of(op.label),
                                          (op.start - origin_).count,
                                          (op.end - origin_).count,
                                          static_cast<std::int64_t>(op.correlation),
                                          op_of_[i],
                                          or_none(tracks_.track_of_host_op()[i])};
    for (std::size_t c = 0; c < row.size(); ++c) table.columns[c].push_back(row[c]);
  }
  return table;
}

ColumnTable OpTables::find_device() const {
  ColumnTable table(4);
  for (std::size_t i = 0; i < run_.device_ops.size(); ++i) {
    table.columns[0].push_back(name_[i]);
    table.columns[1].push_back(unit_[i]);
    table.columns[2].push_back((run_.device_ops[i].start - origin_).count);
    table.columns[3].push_back(or_none(tracks_.track_of_device_op()[i]));
  }
  return table;
}

ColumnTable OpTables::find_host() const {
  ColumnTable table(3);
  for (std::size_t i = 0; i < run_.host_ops.size(); ++i) {
    table.columns[0].push_back(number_of(run_.host_ops[i].label));
    table.columns[1].push_back((run_.host_ops[i].start - origin_).count);
    table.columns[2].push_back(or_none(tracks_.track_of_host_op()[i]));
  }
  return table;
}

}  // namespace foreshard::viz
