#include "viz/pack/track_levels.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <map>

#include "viz/pack/level_widths.hpp"

namespace foreshard::viz {
namespace {

/// Deeper nesting is drawn over the last row: badly, which beats not at all.
constexpr std::size_t kMaxRows = 24;

struct OpenBar {
  TrackBar bar;
  std::array<std::int64_t, kLaneClasses> time{};
  std::uint8_t last_class = 0;
  bool small = false;
};

/// The bars of one level, by the rule in the header.
std::vector<TrackBar> merged(const std::vector<TrackBar>& ops, std::int64_t width) {
  std::vector<TrackBar> out;
  OpenBar open;
  bool any = false;
  const auto close = [&] {
    if (!any) return;
    if (open.bar.count > 1)
      open.bar.lane_class =
          static_cast<std::uint8_t>(std::max_element(open.time.begin(), open.time.end()) - open.time.begin());
    out.push_back(open.bar);
  };
  for (const TrackBar& op : ops) {
    const bool small = op.end - op.start < width;
    const bool joins = any && open.small && small && op.start - open.bar.end < std::max<std::int64_t>(width / 2, 1) &&
                       (op.lane_class == open.last_class || open.bar.end - open.bar.start < 2 * width);
    if (joins) {
      open.bar.end = std::max(open.bar.end, op.end);
      open.bar.busy += op.busy;
      ++open.bar.count;
    } else {
      close();
      open = {op, {}, 0, small};
      any = true;
    }
    open.time[op.lane_class] += op.busy + 1;
    open.last_class = op.lane_class;
  }
  close();
  return out;
}

const char* kind_name(HostOpRecord::Kind kind) {
  switch (kind) {
    case HostOpRecord::Kind::runtime:
      return "CUDA calls";
    case HostOpRecord::Kind::cpu_op:
      return "operators";
    case HostOpRecord::Kind::annotation:
      return "annotations";
    case HostOpRecord::Kind::work:
      return "work";
  }
  return "";
}

}  // namespace

Style lane_style(std::uint8_t lane_class) {
  switch (lane_class) {
    case kAnnotationClass:
      return {"annotation", "#b9c7a5"};
    case kCpuOpClass:
      return {"operator on the host", "#c9b18f"};
    case kHostWorkClass:
      return {"host work", "#a3a3a3"};
    default:
      return style(static_cast<OpClass>(lane_class));
  }
}

TrackLevels::TrackLevels(const Run& run, const OpFacts& facts, Nanoseconds origin) : run_(run), origin_(origin) {
  device_track_.assign(run.device_ops.size(), kNoTrack);
  host_track_.assign(run.host_ops.size(), kNoTrack);
  Nanoseconds first{INT64_MAX}, last{INT64_MIN};
  for (const DeviceOpRecord& op : run.device_ops) {
    first = std::min({first, op.issue, op.start});
    last = std::max({last, op.issue, op.end});
  }
  for (const HostOpRecord& op : run.host_ops) {
    first = std::min(first, op.start);
    last = std::max(last, op.end);
  }
  length_ = last < first ? Nanoseconds{1} : last - first;
  add_host_lanes();
  const bool calls = std::any_of(run.host_ops.begin(), run.host_ops.end(), [](const HostOpRecord& op) {
    return op.kind == HostOpRecord::Kind::runtime || op.kind == HostOpRecord::Kind::work;
  });
  if (!calls) add_issues();
  add_streams(facts);
  add_ranks(facts);
}

void TrackLevels::add_host_lanes() {
  using Kind = HostOpRecord::Kind;
  // By thread; within one what encloses stands above what is enclosed.
  std::map<std::pair<std::uint32_t, int>, std::vector<TrackBar>> lanes;
  constexpr std::array<Kind, 4> kOrder{Kind::annotation, Kind::cpu_op, Kind::runtime, Kind::work};
  for (std::size_t i = 0; i < run_.host_ops.size(); ++i) {
    const HostOpRecord& op = run_.host_ops[i];
    std::uint8_t lane_class = kHostWorkClass;
    if (op.kind == Kind::annotation) lane_class = kAnnotationClass;
    if (op.kind == Kind::cpu_op) lane_class = kCpuOpClass;
    const bool waits = run_.labels.text(op.label).find("Synchronize") != std::string::npos;
    if (op.kind == Kind::runtime)
      lane_class = static_cast<std::uint8_t>(waits ? OpClass::host_wait : OpClass::host_issue);
    const auto place = std::find(kOrder.begin(), kOrder.end(), op.kind) - kOrder.begin();
    lanes[{op.thread, static_cast<int>(place)}].push_back({(op.start - origin_).count, (op.end - origin_).count,
                                                           (op.end - op.start).count, 1, static_cast<std::uint32_t>(i),
                                                           lane_class});
  }
  for (auto& [key, bars] : lanes) {
    const std::string thread = key.first == 0   ? "host"
                               : key.first == 1 ? "autograd"
                                                : fmt::format("thread {}", key.first);
    const char* kind = kind_name(kOrder[static_cast<std::size_t>(key.second)]);
    add_lane({fmt::format("{}: {}", thread, kind), TrackSource::host_ops, 0}, std::move(bars));
  }
}

void TrackLevels::add_issues() {
  std::vector<TrackBar> bars;
  for (std::size_t i = 0; i < run_.device_ops.size(); ++i) {
    const std::int64_t at = (run_.device_ops[i].issue - origin_).count;
    bars.push_back({at, at, 0, 1, static_cast<std::uint32_t>(i), static_cast<std::uint8_t>(OpClass::host_issue)});
  }
  if (!bars.empty()) add_lane({"host: issues ops", TrackSource::issues, 0}, std::move(bars));
}

void TrackLevels::add_streams(const OpFacts& facts) {
  std::map<std::pair<OpFacts::Stream, StreamId>, std::vector<TrackBar>> streams;
  for (std::size_t i = 0; i < run_.device_ops.size(); ++i) {
    const DeviceOpRecord& op = run_.device_ops[i];
    streams[{facts.stream(op.stream), op.stream}].push_back(
        {(op.start - origin_).count, (op.end - origin_).count, (op.end - op.start).count, 1,
         static_cast<std::uint32_t>(i), static_cast<std::uint8_t>(facts.op_class(op))});
  }
  for (auto& [key, bars] : streams) add_lane({key.first.name, TrackSource::device_ops, 0}, std::move(bars));
}

/// Two lanes a rank: what it computes, and its collectives, so that a rank that the others wait for is seen.
void TrackLevels::add_ranks(const OpFacts& facts) {
  std::map<std::pair<std::uint32_t, bool>, std::vector<TrackBar>> ranks;
  for (std::size_t i = 0; i < run_.rank_ops.size(); ++i) {
    const auto& [rank, step, phase, sequence, op] = run_.rank_ops[i];
    if (run_.ranks.empty() || rank == run_.ranks.front().rank) continue;
    ranks[{rank, op.kind == DeviceOpRecord::Kind::collective}].push_back(
        {(op.start - origin_).count, (op.end - origin_).count, (op.end - op.start).count, 1,
         static_cast<std::uint32_t>(i), static_cast<std::uint8_t>(facts.op_class(op))});
  }
  for (auto& [key, bars] : ranks)
    add_lane({fmt::format("rank {}: {}", key.first, key.second ? "collectives" : "compute"), TrackSource::rank_ops, 0},
             std::move(bars));
}

void TrackLevels::add_lane(LaneInfo lane, std::vector<TrackBar> bars) {
  lane.ops = bars.size();
  std::stable_sort(bars.begin(), bars.end(), [](const TrackBar& a, const TrackBar& b) {
    return a.start != b.start ? a.start < b.start : a.end > b.end;
  });
  std::vector<std::vector<TrackBar>> rows;
  for (const TrackBar& bar : bars) {
    std::size_t row = 0;
    while (row < rows.size() && row + 1 < kMaxRows && rows[row].back().end > bar.start) ++row;
    // Moments without a length are no reason for another row.
    if (row == rows.size()) rows.emplace_back();
    rows[row].push_back(bar);
  }
  lanes_.push_back(std::move(lane));
  for (std::vector<TrackBar>& row : rows) add_track(lanes_.size() - 1, std::move(row));
}

void TrackLevels::add_track(std::size_t lane, std::vector<TrackBar> bars) {
  const TrackSource source = lanes_[lane].source;
  for (const TrackBar& bar : bars) {
    if (source == TrackSource::device_ops) device_track_[bar.id] = static_cast<std::uint32_t>(tracks_.size());
    if (source == TrackSource::host_ops) host_track_[bar.id] = static_cast<std::uint32_t>(tracks_.size());
  }
  Track track{lane, {}};
  std::int64_t width = coarsest_width(length_).count;
  while (bars.size() > kTileRows / 4 && width > 1) {
    std::vector<TrackBar> coarse = merged(bars, width);
    if (coarse.size() * 4 > bars.size() * 3) break;
    track.levels.push_back({{width}, std::move(coarse)});
    width = std::max<std::int64_t>(width / kFiner, 1);
  }
  track.levels.push_back({{}, std::move(bars)});
  tracks_.push_back(std::move(track));
}

ColumnTable TrackLevels::tile(std::size_t track, std::size_t level, std::size_t tile) const {
  const TrackLevel& of = tracks_[track].levels[level];
  const bool merged = of.width.count != 0;
  ColumnTable table(kTrack, {.optional = merged});
  const RowRange rows = tile_rows(tile, of.bars.size());
  table.fill("start", rows, [&](std::size_t i) { return of.bars[i].start; });
  table.fill("length", rows, [&](std::size_t i) { return of.bars[i].end - of.bars[i].start; });
  table.fill("class", rows, [&](std::size_t i) { return of.bars[i].lane_class; });
  table.fill("first_op", rows, [&](std::size_t i) { return of.bars[i].id; });
  if (!merged) return table;
  table.fill("count", rows, [&](std::size_t i) { return of.bars[i].count; });
  table.fill("busy", rows, [&](std::size_t i) { return of.bars[i].busy; });
  return table;
}

ColumnTable TrackLevels::totals(std::size_t track) const {
  const std::vector<TrackBar>& bars = tracks_[track].levels.back().bars;
  ColumnTable table(kTotals, {.list_length = kLaneClasses});
  const std::span<Column> ops = table.list("ops"), busy = table.list("busy");
  std::array<std::int64_t, kLaneClasses> ops_now{}, busy_now{};
  for (std::size_t i = 0; i <= bars.size(); ++i) {
    if (i % kTileRows == 0 || i == bars.size())
      for (std::size_t c = 0; c < kLaneClasses; ++c) {
        ops[c].push_back(ops_now[c]);
        busy[c].push_back(busy_now[c]);
      }
    if (i == bars.size()) break;
    ++ops_now[bars[i].lane_class];
    busy_now[bars[i].lane_class] += bars[i].busy;
  }
  return table;
}

}  // namespace foreshard::viz
