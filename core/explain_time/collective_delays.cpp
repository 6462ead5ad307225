#include "core/explain_time/collective_delays.hpp"

#include <algorithm>

#include "core/base/median.hpp"
#include "core/straggler/first_cause.hpp"
#include "core/straggler/rank_timeline.hpp"

namespace foreshard::explain_time_detail {
namespace {

/// Isolated times of equal collectives that differ by more say nothing; short ones differ by the clock's resolution.
constexpr double kUniform = 1.3;
constexpr double kShort = 2'000;

bool alike(Nanoseconds least, Nanoseconds most) {
  return static_cast<double>(most.count) <= kUniform * static_cast<double>(least.count) + kShort;
}

bool is_collective(const DeviceOpRecord& op) {
  return op.kind == DeviceOpRecord::Kind::collective;
}

}  // namespace

CollectiveDelays::CollectiveDelays(const Run& run) : run_(run) {
  TimeSpans busy;
  for (std::size_t i = 0; i < run.device_ops.size(); ++i) {
    const DeviceOpRecord& op = run.device_ops[i];
    if (op.end <= op.start) continue;
    streams_[op.stream].emplace_back(op.start, op.end);
    if (op.stream != kComputeStream || is_collective(op)) continue;
    compute_.push_back(i);
    busy.emplace_back(op.start, op.end);
  }
  std::stable_sort(compute_.begin(), compute_.end(),
                   [&run](std::size_t a, std::size_t b) { return run.device_ops[a].start < run.device_ops[b].start; });
  busy_ = united(std::move(busy));
  for (auto& [stream, spans] : streams_) spans = united(std::move(spans));
  find_late_starts();
  find_shortest();
  find_isolated();
}

Nanoseconds CollectiveDelays::beside_anything(const DeviceOpRecord& op) const {
  TimeSpans beside;
  for (const auto& [stream, spans] : streams_) {
    if (stream == op.stream) continue;
    const TimeSpans here = within(spans, op.start, op.end);
    beside.insert(beside.end(), here.begin(), here.end());
  }
  return length(united(std::move(beside)));
}

/// Of the collectives that a rank's compute stream waits for: for whom in the end, longest.
static std::map<CollectiveKey, std::uint32_t> first_causes(const Run& run, std::uint32_t rank) {
  std::map<CollectiveKey, std::map<std::uint32_t, Nanoseconds>> waits;
  for (const straggler_detail::RankSpans& one : straggler_detail::rank_spans(run))
    if (one.rank == rank)
      for (const straggler_detail::Span& span : one.spans)
        if (span.for_rank && span.behind) waits[*span.behind][*span.for_rank] += span.time;
  std::map<CollectiveKey, std::uint32_t> out;
  for (const auto& [key, by_rank] : waits)
    out[key] = std::max_element(by_rank.begin(), by_rank.end(), [](const auto& a, const auto& b) {
                 return a.second < b.second;
               })->first;
  return out;
}

void CollectiveDelays::find_late_starts() {
  if (run_.ranks.size() < 2) return;
  const std::uint32_t own = run_.ranks.front().rank;
  const auto causes = first_causes(run_, own);
  const auto last = straggler_detail::last_ranks(run_.rank_ops);
  for (const RankOpRecord& row : run_.rank_ops) {
    if (row.rank != own || !is_collective(row.op) || row.sequence < 0) continue;
    const auto found = last.find(key_of(row));
    if (found == last.end() || found->second.rank == own || found->second.start <= row.op.start) continue;
    const auto cause = causes.find(key_of(row));
    late_[{row.op.stream, row.op.start, row.op.end}] = {cause == causes.end() ? found->second.rank : cause->second,
                                                        found->second.start};
  }
}

void CollectiveDelays::find_shortest() {
  std::map<Shape, std::size_t> twins;
  for (const DeviceOpRecord& op : run_.device_ops) {
    if (!is_collective(op)) continue;
    const auto [shortest, first] = shortest_.try_emplace(shape_of(op), op.end - op.start);
    if (!first) shortest->second = std::min(shortest->second, op.end - op.start);
    ++twins[shape_of(op)];
  }
  std::erase_if(shortest_, [&](const auto& entry) { return twins[entry.first] < 2; });
}

/// Without the wait for the last rank.
Nanoseconds CollectiveDelays::length_of(const DeviceOpRecord& op) const {
  const auto late = late_start(op);
  return op.end - (late ? late->start : op.start);
}

void CollectiveDelays::find_isolated() {
  std::map<Shape, std::vector<double>> times;
  for (const DeviceOpRecord& op : run_.device_ops)
    if (is_collective(op) && overlapped(op).count * 50 <= (op.end - op.start).count)
      times[shape_of(op)].push_back(static_cast<double>(length_of(op).count));
  for (const auto& [shape, isolated] : times) {
    const auto [least, most] = std::minmax_element(isolated.begin(), isolated.end());
    if (alike(Nanoseconds::from_double(*least), Nanoseconds::from_double(*most)))
      isolated_[shape] = Nanoseconds::from_double(median(isolated));
  }
}

std::optional<LateStart> CollectiveDelays::late_start(const DeviceOpRecord& op) const {
  if (const auto found = late_.find({op.stream, op.start, op.end}); found != late_.end())
    return LateStart{found->second.rank, std::min(found->second.start, op.end)};
  const auto shortest = shortest_.find(shape_of(op));
  if (shortest == shortest_.end() || run_.ranks.size() > 1) return std::nullopt;
  const Nanoseconds length = op.end - op.start;
  if (alike(shortest->second, length)) return std::nullopt;
  const Nanoseconds waited = length - shortest->second - beside_anything(op);
  if (waited.count <= 0) return std::nullopt;
  return LateStart{std::nullopt, op.start + waited};
}

CollectiveDelays::Slowing CollectiveDelays::slowing(std::size_t collective) const {
  const DeviceOpRecord& op = run_.device_ops[collective];
  const Nanoseconds beside = overlapped(op);
  Slowing out;
  if (beside.count * 50 <= (op.end - op.start).count) return out;
  const auto found = isolated_.find(shape_of(op));
  out.unknown = found == isolated_.end();
  if (!out.unknown) out.time = std::clamp(length_of(op) - found->second, Nanoseconds{0}, beside);
  Nanoseconds most;
  auto it = std::partition_point(compute_.begin(), compute_.end(),
                                 [&](std::size_t i) { return run_.device_ops[i].start < op.start; });
  if (it != compute_.begin()) --it;
  for (; it != compute_.end() && run_.device_ops[*it].start < op.end; ++it) {
    const DeviceOpRecord& kernel = run_.device_ops[*it];
    const Nanoseconds both = std::min(kernel.end, op.end) - std::max(kernel.start, op.start);
    if (both <= most) continue;
    most = both;
    out.beside = *it;
  }
  return out;
}

}  // namespace foreshard::explain_time_detail
