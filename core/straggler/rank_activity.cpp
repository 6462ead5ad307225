#include "core/straggler/rank_activity.hpp"

#include <algorithm>
#include <utility>

#include "core/run/plan_results.hpp"
#include "core/straggler/first_cause.hpp"
#include "core/straggler/hang_waits.hpp"

namespace foreshard {
namespace {

using straggler_detail::RankSpans;
using straggler_detail::Span;
using straggler_detail::SpanKind;

RankState state_of(SpanKind kind) {
  switch (kind) {
    case SpanKind::compute:
      return RankState::compute;
    case SpanKind::waiting:
      return RankState::waiting;
    case SpanKind::communication:
      return RankState::communication;
    case SpanKind::idle:
      break;
  }
  return RankState::idle;
}

/// Neighbours that are the same are one.
std::vector<RankStretch> stretches_of(const std::vector<Span>& spans) {
  std::vector<RankStretch> out;
  for (const Span& span : spans) {
    const RankStretch next{state_of(span.kind), span.begin, span.begin + span.time, span.for_rank.value_or(0)};
    const bool joins = !out.empty() && out.back().state == next.state && out.back().for_rank == next.for_rank &&
                       out.back().end == next.begin;
    if (joins)
      out.back().end = next.end;
    else
      out.push_back(next);
  }
  return out;
}

/// The ops of a run of one rank as rows of Run::rank_ops, which have no collectives that others could be late for.
std::vector<RankOpRecord> own_ops(const Run& run) {
  std::vector<RankOpRecord> out;
  for (const DeviceOpRecord& op : run.device_ops) out.push_back({0, -1, {}, -1, op});
  return out;
}

RankRow row_of(const RankSpans& rank, const std::vector<RankMembers>& groups, bool each) {
  RankRow out{rank.rank, {{rank.rank, 1, 1}}, stretches_of(rank.spans)};
  const auto group = std::find_if(groups.begin(), groups.end(),
                                  [&](const RankMembers& members) { return members.first == rank.rank; });
  if (!each && group != groups.end()) out.members = group->members;
  return out;
}

/// Of a job that hangs each rank goes on waiting, or being dead, up to the last that is known of any of them.
void add_hang(const Run& run, std::vector<RankRow>& rows) {
  const std::optional<Nanoseconds> last = hang_end(run);
  if (!last) return;
  const auto waits = hang_waits(run);
  for (RankRow& row : rows) {
    const Nanoseconds end = row.stretches.back().end;
    if (end >= *last) continue;
    const auto whom = waits.find(row.rank);
    if (whom == waits.end())
      row.stretches.push_back({RankState::idle, end, *last, 0});
    else
      row.stretches.push_back({RankState::waiting, end, *last, whom->second});
  }
}

}  // namespace

std::optional<RankActivity> rank_activity(const Run& run) {
  RankActivity out;
  out.world = run.settings.world();
  out.planned = run.info.kind == RunKind::planned;
  if (run.rank_ops.empty()) {
    const std::vector<RankOpRecord> ops = own_ops(run);
    RankRow row{0, {{0, out.planned ? out.world : 1, 1}}, stretches_of(straggler_detail::compute_stream(ops, {}))};
    if (row.stretches.empty()) return std::nullopt;
    out.rows.push_back(std::move(row));
    return out;
  }
  std::vector<RankMembers> groups = rank_members(run);
  // Ranks that are all listed have a row each: which of them are alike is seen.
  const bool each = run.ranks.size() == out.world;
  for (const RankSpans& rank : straggler_detail::rank_spans(run))
    if (!rank.spans.empty()) out.rows.push_back(row_of(rank, groups, each));
  if (out.rows.empty()) return std::nullopt;
  add_hang(run, out.rows);
  std::erase_if(groups, [](const RankMembers& members) { return members.kept; });
  out.not_kept = std::move(groups);
  return out;
}

}  // namespace foreshard
